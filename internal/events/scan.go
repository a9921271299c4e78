package events

// MaxDepth is how deep the arrays and objects of a value may nest: as deep as
// bronze embeds values in its lines.
const MaxDepth = 500

// scanner goes over JSON as RFC 8259 defines it. Its methods return false at the
// first byte that does not fit. It recurses MaxDepth levels deep at most.
type scanner struct {
	json  []byte
	at    int
	depth int
}

// next returns the next byte that is not white space, or 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.json) {
		c := s.json[s.at]
		s.at++
		if c > ' ' || !blank(c) {
			return c
		}
	}
	return 0
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// end says whether only white space is left.
func (s *scanner) end() bool {
	for s.at < len(s.json) && blank(s.json[s.at]) {
		s.at++
	}
	return s.at == len(s.json)
}

// open goes into an array or object whose bracket was taken. more says whether
// anything is in it.
func (s *scanner) open(closing byte) (more, ok bool) {
	if s.depth == MaxDepth {
		return false, false
	}
	if s.next() == closing {
		return false, true
	}
	if s.at == len(s.json) { // where next may have found nothing to take
		return false, false
	}
	s.at--
	s.depth++
	return true, true
}

// more reads what follows an element or a member: a comma, or the closing bracket if it was the last.
func (s *scanner) more(closing byte) (more, ok bool) {
	switch s.next() {
	case ',':
		return true, true
	case closing:
		s.depth--
		return false, true
	}
	return false, false
}

// skip takes a value whose first byte, c, was taken.
func (s *scanner) skip(c byte) bool {
	switch c {
	case '"':
		_, _, ok := s.text()
		return ok
	case '{':
		return s.skipObject()
	case '[':
		return s.skipArray()
	case 't':
		return s.rest("rue")
	case 'f':
		return s.rest("alse")
	case 'n':
		return s.rest("ull")
	}
	var n number
	return numeric(c) && s.number(c, &n)
}

// numeric says whether a number may begin with c.
func numeric(c byte) bool { return c-'0' <= 9 || c == '-' }

func (s *scanner) skipObject() bool {
	for more, ok := s.open('}'); ; more, ok = s.more('}') {
		if !more {
			return ok
		}
		if s.next() != '"' {
			return false
		}
		if _, _, ok := s.text(); !ok || s.next() != ':' || !s.skip(s.next()) {
			return false
		}
	}
}

func (s *scanner) skipArray() bool {
	for more, ok := s.open(']'); ; more, ok = s.more(']') {
		if !more {
			return ok
		}
		if !s.skip(s.next()) {
			return false
		}
	}
}

// rest takes the rest of a literal whose first byte was taken.
func (s *scanner) rest(literal string) bool {
	end := s.at + len(literal)
	if end > len(s.json) || string(s.json[s.at:end]) != literal {
		return false
	}
	s.at = end
	return true
}
