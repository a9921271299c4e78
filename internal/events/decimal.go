package events

import (
	"math/bits"

	"smelt/internal/columns"
)

// uint128 is a whole number of up to 38 digits.
type uint128 struct{ high, low uint64 }

func (u uint128) less(v uint128) bool {
	return u.high < v.high || u.high == v.high && u.low < v.low
}

// plus gives u + n.
func (u uint128) plus(n uint64) uint128 {
	low, carry := bits.Add64(u.low, n, 0)
	return uint128{u.high + carry, low}
}

// times gives u × n.
func (u uint128) times(n uint64) uint128 {
	high, low := bits.Mul64(u.low, n)
	return uint128{high + u.high*n, low}
}

// negate gives -u in two's complement.
func (u uint128) negate() uint128 {
	low, borrow := bits.Sub64(0, u.low, 0)
	high, _ := bits.Sub64(0, u.high, borrow)
	return uint128{high, low}
}

// tens gives 10^n, for n of up to 38.
func tens(n int) uint128 {
	u := uint128{low: 1}
	for range n {
		u = u.times(10)
	}
	return u
}

// maxDigits is how many digits a uint128 holds, whichever they are.
const maxDigits = 38

// remainder is what is left of a number beside its whole part.
type remainder uint8

const (
	nothing remainder = iota
	lessThanHalf
	halfOrMore
)

// scaled gives the whole part of |n| × 10^by, and what is left of it. ok is
// false if the whole part has more than maxDigits digits.
func (n *number) scaled(by int) (whole uint128, left remainder, ok bool) {
	shift := n.exponent + by
	switch {
	case !n.short || shift >= len(wholePowers):
		return n.scaledLong(by)
	case shift >= 0:
		whole.high, whole.low = bits.Mul64(n.mantissa, wholePowers[shift])
		return whole, nothing, true
	case n.mantissa == 0:
		return whole, nothing, true
	case -shift >= len(wholePowers):
		return whole, lessThanHalf, true // of a mantissa that has fewer digits
	}
	power := wholePowers[-shift]
	whole.low = n.mantissa / power
	switch left := n.mantissa % power; {
	case left == 0:
		return whole, nothing, true
	case left < power/2:
		return whole, lessThanHalf, true
	}
	return whole, halfOrMore, true
}

// scaledLong does the same digit by digit, for any number.
func (n *number) scaledLong(by int) (whole uint128, left remainder, ok bool) {
	digits := n.digits
	for len(digits) > 0 && (digits[0] == '0' || digits[0] == '.') {
		digits = digits[1:]
	}
	if len(digits) == 0 {
		return whole, nothing, true
	}
	taken := len(digits) + n.exponent + by // how many digits the whole part has
	for _, c := range digits {
		if c == '.' {
			taken--
		}
	}
	if taken > maxDigits {
		return whole, nothing, false
	}
	for _, c := range digits {
		switch {
		case c == '.':
			continue
		case taken > 0:
			whole = whole.times(10).plus(uint64(c - '0'))
		case taken == 0 && c >= '5':
			return whole, halfOrMore, true
		case c != '0':
			left = lessThanHalf
		}
		taken--
	}
	for ; taken > 0; taken-- {
		whole = whole.times(10)
	}
	return whole, left, true
}

// wholePowers are the powers of ten of up to 19 digits after the 1.
var wholePowers = [...]uint64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// decimal sets a decimal, exactly, or rounded half away from 0 if the field says so.
func (n *number) decimal(f *field, c *columns.Column, row int) verdict {
	whole, left, ok := n.scaled(f.scale)
	if f.round && left == halfOrMore {
		whole = whole.plus(1)
	}
	switch {
	case !ok || !whole.less(f.limit):
		return outOfRange
	case left != nothing && !f.round:
		return tooPrecise
	}
	if n.negative {
		whole = whole.negate()
	}
	if c.Width == 16 {
		c.SetInt128(row, int64(whole.high), whole.low)
	} else {
		c.SetInt(row, int64(whole.low))
	}
	return good
}
