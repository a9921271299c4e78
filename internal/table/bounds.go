package table

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
)

// boundRunes is how many code points of a string a bound keeps: Iceberg's
// default, enough to skip files by.
const boundRunes = 16

// bounds serializes the bounds of a column from its smallest and largest value, as DuckDB prints
// them. A bound that is not certain is nil.
func bounds(typ iceberg.Type, min, max string) (lower, upper []byte) {
	if _, isString := typ.(iceberg.StringType); isString {
		return lowerString(min), upperString(max)
	}
	lo, hi := literal(typ, min), literal(typ, max)
	if lo == nil || hi == nil {
		return nil, nil
	}
	return serialized(widen(lo, math.Copysign(0, -1))), serialized(widen(hi, 0))
}

func serialized(l iceberg.Literal) []byte {
	data, err := l.MarshalBinary()
	if err != nil {
		return nil
	}
	return data
}

// literal reads a value as DuckDB prints it, or returns nil. Types without an
// order that all engines share (uuid, binary) have no literals.
func literal(typ iceberg.Type, text string) iceberg.Literal {
	switch typ.(type) {
	case iceberg.TimestampType:
		return timeLiteral(text, "2006-01-02 15:04:05.999999")
	case iceberg.TimestampTzType:
		return timeLiteral(text, "2006-01-02 15:04:05.999999Z07")
	case iceberg.BooleanType, iceberg.Int32Type, iceberg.Int64Type, iceberg.Float32Type, iceberg.Float64Type,
		iceberg.DecimalType, iceberg.DateType, iceberg.TimeType:
		l, err := iceberg.StringLiteral(text).To(typ)
		if err != nil || !finite(l) {
			return nil
		}
		return l
	}
	return nil
}

func timeLiteral(text, layout string) iceberg.Literal {
	t, err := time.Parse(layout, text)
	if err != nil { // a year beyond 9999 or BC, infinity
		return nil
	}
	return iceberg.TimestampLiteral(t.UnixMicro())
}

func finite(l iceberg.Literal) bool {
	switch l := l.(type) {
	case iceberg.AboveMaxLiteral, iceberg.BelowMinLiteral:
		return false
	case iceberg.Float32Literal:
		return !math.IsNaN(float64(l))
	case iceberg.Float64Literal:
		return !math.IsNaN(float64(l))
	}
	return true
}

// widen gives a bound that is zero the sign that includes both zeros.
func widen(l iceberg.Literal, zero float64) iceberg.Literal {
	switch v := l.(type) {
	case iceberg.Float32Literal:
		if v == 0 {
			return iceberg.Float32Literal(zero)
		}
	case iceberg.Float64Literal:
		if v == 0 {
			return iceberg.Float64Literal(zero)
		}
	}
	return l
}

func lowerString(s string) []byte {
	head, _ := firstRunes(s)
	return []byte(head)
}

// upperString returns the smallest string of boundRunes code points that is greater than every
// string starting with s, or nil if there is none.
func upperString(s string) []byte {
	head, whole := firstRunes(s)
	if whole {
		return []byte(head)
	}
	for head != "" {
		last, size := utf8.DecodeLastRuneInString(head)
		head = head[:len(head)-size]
		if next := nextRune(last); next > 0 {
			return []byte(head + string(next))
		}
	}
	return nil
}

// nextRune returns the code point after r, or 0 when r is the last.
func nextRune(r rune) rune {
	switch {
	case r == 0xD7FF:
		return 0xE000 // surrogates are not code points
	case r >= utf8.MaxRune:
		return 0
	}
	return r + 1
}

func firstRunes(s string) (head string, whole bool) {
	n := 0
	for i := range s {
		if n == boundRunes {
			return strings.ToValidUTF8(s[:i], ""), false
		}
		n++
	}
	return s, true
}
