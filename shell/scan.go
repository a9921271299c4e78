package shell

import "strings"

// kind says what a token is.
type kind int

const (
	word   kind = iota // a keyword, or a name without quotes
	name               // a name in double quotes
	text               // a plain string, 'it''s'
	other              // any other kind of string, or a sign
	finish             // a semicolon
)

// token is a piece of SQL that means something.
type token struct {
	kind  kind
	text  string // a word in upper case; a name or plain string without its quotes
	start int    // where it stands
	end   int
}

func (t token) is(words ...string) bool {
	for _, w := range words {
		if t.kind == word && t.text == w {
			return true
		}
	}
	return false
}

// Statement is one statement of a text, without its semicolon.
type Statement struct {
	Text   string
	tokens []token
}

// Split parts a text into its statements. rest is what follows the last
// semicolon, as far as it holds anything but comments: the beginning of a
// statement that goes on.
func Split(sql string) (statements []Statement, rest string) {
	var tokens []token
	start := 0
	for at := 0; ; {
		t, ok := next(sql, at)
		if !ok {
			if len(tokens) > 0 {
				rest = sql[start:]
			}
			return statements, rest
		}
		at = t.end
		if t.kind != finish {
			tokens = append(tokens, t)
			continue
		}
		if len(tokens) > 0 {
			statements = append(statements, Statement{strings.TrimSpace(sql[start:t.start]), tokens})
		}
		tokens, start = nil, t.end
	}
}

// Statements parts a whole text into its statements. The last one needs no
// semicolon; one that breaks off inside of a string or a comment is among them,
// for DuckDB to say what is wrong with it.
func Statements(sql string) []Statement {
	statements, rest := Split(sql + "\n;")
	if rest == "" {
		return statements
	}
	last := Statement{Text: strings.TrimSpace(strings.TrimSuffix(rest, "\n;"))}
	for at := 0; ; {
		t, ok := next(last.Text, at)
		if !ok {
			return append(statements, last)
		}
		last.tokens = append(last.tokens, t)
		at = t.end
	}
}

// next finds the token at or after a place, beyond spaces and comments.
func next(sql string, at int) (token, bool) {
	for at < len(sql) {
		rest := sql[at:]
		switch {
		case strings.HasPrefix(rest, "--"):
			at += lengthTo(rest, "\n", 2)
		case strings.HasPrefix(rest, "/*"):
			at += comment(rest)
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			at++
		default:
			t := read(rest)
			t.start, t.end = at, at+t.end
			return t, true
		}
	}
	return token{}, false
}

// comment is the length of the comment that s begins with; comments nest.
func comment(s string) int {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch s[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			if depth--; depth == 0 {
				return i + 2
			}
			i++
		}
	}
	return len(s)
}

// lengthTo is how far a text goes up to the end of a mark, looked for from a place on.
func lengthTo(s, mark string, from int) int {
	if i := strings.Index(s[from:], mark); i >= 0 {
		return from + i + len(mark)
	}
	return len(s)
}

// read reads the token that s begins with; its end is its length.
func read(s string) token {
	switch c := s[0]; {
	case c == ';':
		return token{kind: finish, text: ";", end: 1}
	case c == '\'':
		return quoted(s, text)
	case c == '"':
		return quoted(s, name)
	case (c == 'e' || c == 'E') && len(s) > 1 && s[1] == '\'':
		return escaped(s)
	case c == '$':
		return dollars(s)
	case isLetter(c):
		n := 1
		for n < len(s) && (isLetter(s[n]) || s[n] == '$' || s[n] >= '0' && s[n] <= '9') {
			n++
		}
		return token{kind: word, text: strings.ToUpper(s[:n]), end: n}
	}
	return token{kind: other, text: s[:1], end: 1}
}

func isLetter(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80
}

// quoted reads a string or a name, in which a doubled quote means one quote. Without an end it takes the
// rest.
func quoted(s string, k kind) token {
	quote := s[0]
	for i := 1; i < len(s); i++ {
		if s[i] != quote {
			continue
		}
		if i+1 < len(s) && s[i+1] == quote {
			i++
			continue
		}
		q := string(quote)
		return token{kind: k, text: strings.ReplaceAll(s[1:i], q+q, q), end: i + 1}
	}
	return token{kind: other, text: s, end: len(s)}
}

// escaped reads e'…', in which a backslash takes the next byte along.
func escaped(s string) token {
	for i := 2; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] != '\'':
		case i+1 < len(s) && s[i+1] == '\'':
			i++
		default:
			return token{kind: other, text: s[:i+1], end: i + 1}
		}
	}
	return token{kind: other, text: s, end: len(s)}
}

// dollars reads $$…$$ and $tag$…$tag$, or a sign.
func dollars(s string) token {
	n := 1
	for n < len(s) && (isLetter(s[n]) || n > 1 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	if n == len(s) || s[n] != '$' {
		return token{kind: other, text: "$", end: 1}
	}
	end := lengthTo(s, s[:n+1], n+1)
	return token{kind: other, text: s[:end], end: end}
}
