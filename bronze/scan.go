package bronze

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how deep the arrays and objects of an embedded value may nest.
// DuckDB reads any depth but its functions recurse, and overflow the stack at
// 100,000; Go stops at 10,000 and Jackson, so Trino and Spark, at 1,000.
const MaxDepth = 500

// embeddable says whether value can be part of a line unchanged. It must be valid JSON by RFC 8259 and valid
// UTF-8, nested at most MaxDepth. Every escaped surrogate must be in a pair, or DuckDB rejects the whole
// file. breaks says whether value has line breaks between tokens.
func embeddable(value []byte) (ok, breaks bool) {
	s := scanner{json: value}
	ok = s.document() && (s.high&tops == 0 || utf8.Valid(value)) // JSON is ASCII outside of its strings
	return ok, s.breaks
}

// scanner goes over JSON once, without recursion. Its methods return false at
// the first byte that does not fit.
type scanner struct {
	json    []byte
	at      int
	depth   int
	objects [MaxDepth/64 + 1]uint64 // a bit a level: an object, not an array
	breaks  bool
	high    uint64 // of the strings; see plain
}

func (s *scanner) document() bool {
	for {
		opened, ok := s.value()
		if !ok {
			return false
		}
		if opened {
			continue
		}
		more, ok := s.afterValue()
		if !ok {
			return false
		}
		if !more {
			return s.at == len(s.json)
		}
	}
}

// value takes a scalar or an empty array or object, or else opens one and takes
// all that comes before its first value.
func (s *scanner) value() (opened, ok bool) {
	switch c := s.next(); c {
	case '"':
		return false, s.text()
	case '{':
		return s.open(true, '}')
	case '[':
		return s.open(false, ']')
	case 't':
		return false, s.literal("rue")
	case 'f':
		return false, s.literal("alse")
	case 'n':
		return false, s.literal("ull")
	default:
		return false, s.number(c)
	}
}

// afterValue takes what follows a value: closing brackets, and then a comma (and
// a name), when more is true, or the end.
func (s *scanner) afterValue() (more, ok bool) {
	more, ok = s.afterInside()
	if !ok || more {
		return more, ok
	}
	if s.next() != 0 { // a NUL byte is taken for the end here, and then is not it
		return false, false
	}
	s.at--
	return false, true
}

// afterInside is like afterValue, and leaves what follows the outermost value.
func (s *scanner) afterInside() (more, ok bool) {
	for s.depth > 0 {
		object := s.objects[s.depth/64]&(1<<(s.depth%64)) != 0
		switch c := s.next(); {
		case c == ',' && object:
			return true, s.name()
		case c == ',':
			return true, true
		case c == '}' && object, c == ']' && !object:
			s.depth--
		default:
			return false, false
		}
	}
	return false, true
}

// open goes into an array or object and takes the first name of an object. One
// that is empty is taken whole.
func (s *scanner) open(object bool, end byte) (opened, ok bool) {
	if s.depth == MaxDepth {
		return false, false
	}
	if s.next() == end {
		return false, true
	}
	s.at--
	s.depth++
	if !object {
		s.objects[s.depth/64] &^= 1 << (s.depth % 64)
		return true, true
	}
	s.objects[s.depth/64] |= 1 << (s.depth % 64)
	return true, s.name()
}

func (s *scanner) name() bool {
	return s.next() == '"' && s.text() && s.next() == ':'
}

// next returns the next byte that is not white space, or 0 at the end. It always advances by
// one, so s.at-- undoes it.
func (s *scanner) next() byte {
	for s.at < len(s.json) {
		c := s.json[s.at]
		s.at++
		switch c {
		case ' ', '\t':
		case '\n', '\r':
			s.breaks = true
		default:
			return c
		}
	}
	s.at++
	return 0
}

// text takes a string whose opening quote has been taken.
func (s *scanner) text() bool {
	json := s.json
	for i := s.at; ; {
		n, high := plain(json[i:])
		i += n
		s.high |= high
		if i == len(json) {
			return false
		}
		switch json[i] {
		case '"':
			s.at = i + 1
			return true
		case '\\':
			n := escape(json[i:])
			if n == 0 {
				return false
			}
			i += n
		default: // a control character
			return false
		}
	}
}

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080 // the bit that no ASCII has
)

// plain returns how many bytes of b come before a quote, a backslash or a control character. If
// one of those bytes is not ASCII, the top bit of a byte of high is set; a byte after them
// may set it, too. plain examines eight bytes at a time.
func plain(b []byte) (n int, high uint64) {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		high |= x
		if found := special(x); found != 0 {
			return i + bits.TrailingZeros64(found)/8, high
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		high |= uint64(b[i])
		i++
	}
	return i, high
}

// special has a top bit set if x has a quote, a backslash or a control character. The
// lowest top bit is that of the first one.
func special(x uint64) uint64 {
	quote, slash, control := (x^ones*'"')-ones, (x^ones*'\\')-ones, x-ones*' '
	return (quote | slash | control) &^ x & tops
}

// escape returns the length of the escape that b begins with, a surrogate pair
// being one, or 0 when it is none.
func escape(b []byte) int {
	const short, pair = 6, 12 // \u1234, \ud83d\ude00
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
	default:
		return 0
	}
	switch unit := hex4(b[2:]); {
	case unit < 0 || unit >= 0xdc00 && unit <= 0xdfff:
		return 0
	case unit < 0xd800 || unit > 0xdfff:
		return short
	}
	if len(b) < pair || b[6] != '\\' || b[7] != 'u' {
		return 0
	}
	if low := hex4(b[8:]); low < 0xdc00 || low > 0xdfff {
		return 0
	}
	return pair
}

// hex4 reads four hexadecimal digits, or returns -1.
func hex4(b []byte) int {
	if len(b) < 4 {
		return -1
	}
	unit := 0
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			unit = unit<<4 | int(c-'0')
		case c >= 'a' && c <= 'f':
			unit = unit<<4 | int(c-'a'+10)
		case c >= 'A' && c <= 'F':
			unit = unit<<4 | int(c-'A'+10)
		default:
			return -1
		}
	}
	return unit
}

func (s *scanner) literal(rest string) bool {
	end := s.at + len(rest)
	if end > len(s.json) || string(s.json[s.at:end]) != rest {
		return false
	}
	s.at = end
	return true
}

// number takes a number whose first byte, c, has been taken.
func (s *scanner) number(c byte) bool {
	if c == '-' {
		c = s.byte()
	}
	switch {
	case c == '0':
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return false
	}
	if s.at < len(s.json) && s.json[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			return false
		}
	}
	if s.at < len(s.json) && s.json[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.json) && (s.json[s.at] == '+' || s.json[s.at] == '-') {
			s.at++
		}
		return s.digits() > 0
	}
	return true
}

// byte takes one byte, or gives 0 at the end.
func (s *scanner) byte() byte {
	if s.at >= len(s.json) {
		return 0
	}
	s.at++
	return s.json[s.at-1]
}

// digits takes digits and says how many there were.
func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.json) && s.json[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at - start
}
