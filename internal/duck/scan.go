package duck

import (
	"strings"
	"unicode/utf8"
)

// token is a word, a quoted identifier or one other character of a statement.
type token struct{ start, end int }

// tokens cuts a statement into tokens, without white space, comments and
// strings. It need not be exact about what DuckDB's parser has refused.
func tokens(text string) []token {
	var out []token
	for i := 0; i < len(text); {
		rest := text[i:]
		end := i
		switch c := text[i]; {
		case strings.ContainsRune(" \t\r\n\f\v", rune(c)):
			i++
			continue
		case strings.HasPrefix(rest, "--"):
			i += until(rest, "\n", 2)
			continue
		case strings.HasPrefix(rest, "/*"):
			i += until(rest, "*/", 2)
			continue
		case c == '\'':
			i += until(rest, "'", 1)
			continue
		case strings.HasPrefix(rest, "$$"):
			i += until(rest, "$$", 2)
			continue
		case c == '"':
			end = i + quoted(rest)
		case isWord(c):
			for end < len(text) && isWord(text[end]) {
				end++
			}
		default:
			_, size := utf8.DecodeRuneInString(rest)
			end = i + size
		}
		out = append(out, token{i, end})
		i = end
	}
	return out
}

// until returns the length up to the end of the closing text, searched after skip bytes.
func until(text, closing string, skip int) int {
	n := strings.Index(text[skip:], closing)
	if n < 0 {
		return len(text)
	}
	return skip + n + len(closing)
}

// quoted returns the length of a quoted identifier, in which "" means ".
func quoted(text string) int {
	n := until(text, `"`, 1)
	for n < len(text) && text[n] == '"' {
		n += until(text[n:], `"`, 1)
	}
	return n
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// statements gives where the statements of a text begin.
func statements(text string) []int {
	var starts []int
	ended := true
	for _, t := range tokens(text) {
		switch semicolon := text[t.start:t.end] == ";"; {
		case semicolon:
			ended = true
		case ended:
			starts = append(starts, t.start)
			ended = false
		}
	}
	return starts
}

// reference gives the end of the column reference, such as a.b or "a b"."c",
// that begins at an offset.
func reference(text string, start int) int {
	end := start
	dot := true
	for _, t := range tokens(text[start:]) {
		word := text[start+t.start : start+t.end]
		switch {
		case dot && (isWord(word[0]) || word[0] == '"'):
			end, dot = start+t.end, false
		case !dot && word == ".":
			dot = true
		default:
			return end
		}
	}
	return end
}
