package events

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// text takes a string whose opening quote was taken. raw is what stands between
// the quotes, valid UTF-8; escaped says that it has escapes, all of them valid.
func (s *scanner) text() (raw []byte, escaped, ok bool) {
	json, start, high := s.json, s.at, byte(0)
	for i := start; ; {
		n, h := plain(json[i:])
		i += n
		high |= h
		if i == len(json) {
			return nil, false, false
		}
		switch json[i] {
		case '"':
			s.at = i + 1
			raw = json[start:i]
			return raw, escaped, high < utf8.RuneSelf || utf8.Valid(raw)
		case '\\':
			n := escape(json[i:])
			if n == 0 {
				return nil, false, false
			}
			i += n
			escaped = true
		default: // a control character
			return nil, false, false
		}
	}
}

// plain returns how many bytes of b come before a quote, a backslash or a control character. high is 0x80 or more if one of
// these bytes, or of those after them, is not ASCII. It examines eight bytes at a time: in each term the lowest byte with its
// top bit set is a match.
func plain(b []byte) (n int, high byte) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	var all uint64
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		all |= x
		quote, slash := x^ones*'"', x^ones*'\\'
		if found := ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*' ')&^x) & tops; found != 0 {
			i += bits.TrailingZeros64(found) / 8
			if all&tops != 0 {
				high = utf8.RuneSelf
			}
			return i, high
		}
	}
	if all&tops != 0 {
		high = utf8.RuneSelf
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		high |= b[i]
		i++
	}
	return i, high
}

// escape returns the length of the escape that b begins with, a surrogate pair
// being one, or 0 when it is none.
func escape(b []byte) int {
	const short, long, pair = 2, 6, 12 // \n, \u1234, \ud83d\ude00
	if len(b) < short {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return short
	case 'u':
	default:
		return 0
	}
	unit, ok := unitAt(b)
	switch {
	case !ok:
		return 0
	case !utf16.IsSurrogate(unit):
		return long
	}
	low, ok := unitAt(b[long:])
	if !ok || utf16.DecodeRune(unit, low) == utf8.RuneError {
		return 0
	}
	return pair
}

// unitAt reads the UTF-16 unit of the escape that b begins with.
func unitAt(b []byte) (unit rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	v, ok := hex(b[2:6])
	return rune(v), ok
}

// hex reads hexadecimal digits, up to 16.
func hex(b []byte) (v uint64, ok bool) {
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(c)
	}
	return v, true
}

// unescape appends raw to dst with its valid escapes resolved. The result is at most as long as raw.
func unescape(dst, raw []byte) []byte {
	for len(raw) > 0 {
		n, _ := plain(raw)
		dst = append(dst, raw[:n]...)
		if raw = raw[n:]; len(raw) == 0 {
			break
		}
		n = escape(raw)
		switch c := raw[1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			unit, _ := unitAt(raw)
			if utf16.IsSurrogate(unit) {
				low, _ := unitAt(raw[6:])
				unit = utf16.DecodeRune(unit, low)
			}
			dst = utf8.AppendRune(dst, unit)
		default: // a quote, a slash or a backslash
			dst = append(dst, c)
		}
		raw = raw[n:]
	}
	return dst
}
