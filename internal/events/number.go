package events

import (
	"strconv"
	"unsafe"
)

// number is a JSON number as written: its digits × 10^exponent.
type number struct {
	token    []byte // all of it
	digits   []byte // without sign and exponent; maybe with a point
	mantissa uint64 // the digits as a whole number, if short
	exponent int    // of the last digit
	negative bool
	short    bool // its digits fit a mantissa
	integer  bool // it has no point and no exponent
}

const (
	shortDigits = 19      // a mantissa holds any number of so many digits
	maxExponent = 1 << 40 // larger ones are cut to this: no value has as many digits
)

// number takes a number whose first byte, c, was taken and is numeric.
func (s *scanner) number(c byte, n *number) bool {
	json, begin := s.json, s.at-1
	start := begin
	if n.negative = c == '-'; n.negative {
		start++
	}
	i, mantissa := start, uint64(0)
	for ; i < len(json) && json[i]-'0' <= 9; i++ {
		mantissa = mantissa*10 + uint64(json[i]-'0')
	}
	count := i - start
	if count == 0 || count > 1 && json[start] == '0' {
		return false
	}
	n.integer, n.exponent = true, 0
	if i < len(json) && json[i] == '.' {
		i++
		point := i
		for ; i < len(json) && json[i]-'0' <= 9; i++ {
			mantissa = mantissa*10 + uint64(json[i]-'0')
		}
		if i == point {
			return false
		}
		n.integer, n.exponent = false, point-i
		count += i - point
	}
	n.digits, n.mantissa, n.short = json[start:i], mantissa, count <= shortDigits
	if i < len(json) && json[i]|0x20 == 'e' {
		written, end := exponent(json, i+1)
		if end == 0 {
			return false
		}
		i = end
		n.integer = false
		n.exponent += written
	}
	n.token = json[begin:i]
	s.at = i
	return true
}

// exponent reads the exponent that starts at i. end is 0 if there is none.
func exponent(json []byte, i int) (written, end int) {
	negative := false
	if i < len(json) && (json[i] == '+' || json[i] == '-') {
		negative = json[i] == '-'
		i++
	}
	start := i
	for ; i < len(json) && json[i]-'0' <= 9; i++ {
		written = min(written*10+int(json[i]-'0'), maxExponent)
	}
	if i == start {
		return 0, 0
	}
	if negative {
		written = -written
	}
	return written, i
}

// zero says whether all digits are 0.
func (n *number) zero() bool {
	if n.short {
		return n.mantissa == 0
	}
	for _, c := range n.digits {
		if c != '0' && c != '.' {
			return false
		}
	}
	return true
}

// int gives a number in integer form as one of so many bits.
func (n *number) int(width int) (int64, verdict) {
	limit := uint64(1) << (width - 1)
	switch {
	case !n.integer:
		return 0, wrongType
	case n.short && n.negative && n.mantissa <= limit:
		return int64(-n.mantissa), good
	case n.short && !n.negative && n.mantissa < limit:
		return int64(n.mantissa), good
	}
	return 0, outOfRange
}

// float gives the nearest float of so many bits. A number so large, or so close
// to 0, that no float is near is out of range. -0 becomes 0.
func (n *number) float(width int) (float64, verdict) {
	// A float64 holds both exactly, so that one operation rounds once.
	if n.short && n.mantissa < 1<<53 && n.exponent >= -22 && n.exponent <= 22 && width == 64 {
		v := float64(n.mantissa)
		if n.exponent < 0 {
			v /= powers[-n.exponent]
		} else {
			v *= powers[n.exponent]
		}
		if n.negative && v != 0 {
			v = -v
		}
		return v, good
	}
	if n.zero() {
		return 0, good
	}
	const beyond = 400 // powers of ten that are out of range for certain, either way
	if n.exponent > beyond || n.exponent+len(n.digits) < -beyond {
		return 0, outOfRange
	}
	token := n.token
	if len(token) > longToken {
		token = n.normal()
	}
	v, err := strconv.ParseFloat(unsafe.String(&token[0], len(token)), width)
	if err != nil || v == 0 { // an error only for what is too large: its syntax is good
		return 0, outOfRange
	}
	return v, good
}

// longToken is from how many bytes on a number may have an exponent that strconv
// cuts, although its value is ordinary: 0.000…1e100000.
const longToken = 1000

// normal writes the number with one digit before its point.
func (n *number) normal() []byte {
	out, exponent := make([]byte, 0, len(n.digits)+32), n.exponent-1
	if n.negative {
		out = append(out, '-')
	}
	first := true
	for _, c := range n.digits {
		if c == '.' || c == '0' && first {
			continue
		}
		out = append(out, c)
		if first {
			out = append(out, '.')
		}
		first = false
		exponent++
	}
	out = append(out, "0e"...)
	return strconv.AppendInt(out, int64(exponent), 10)
}

// powers of ten that a float64 holds exactly.
var powers = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}
