package table

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
	"pgregory.net/rapid"
)

func TestStringBounds(t *testing.T) {
	t.Parallel()
	const top = "\U0010FFFF"
	cases := []struct{ name, value, lower, upper string }{
		{"short", "Espoo", "Espoo", "Espoo"},
		{"empty", "", "", ""},
		{"exactly full", strings.Repeat("é", 16), strings.Repeat("é", 16), strings.Repeat("é", 16)},
		{"long", strings.Repeat("a", 17), strings.Repeat("a", 16), strings.Repeat("a", 15) + "b"},
		{"long, last is the last", strings.Repeat("a", 15) + top + "x", strings.Repeat("a", 15) + top, strings.Repeat("a", 14) + "b"},
		{"long, before the surrogates", strings.Repeat("a", 15) + "\uD7FFx", strings.Repeat("a", 15) + "\uD7FF", strings.Repeat("a", 15) + "\uE000"},
	}
	for _, c := range cases {
		lower, upper := bounds(iceberg.PrimitiveTypes.String, c.value, c.value)
		if string(lower) != c.lower || string(upper) != c.upper {
			t.Errorf("%s: got %q and %q, want %q and %q", c.name, lower, upper, c.lower, c.upper)
		}
	}
	if _, upper := bounds(iceberg.PrimitiveTypes.String, "", strings.Repeat(top, 17)); upper != nil {
		t.Errorf("nothing is above the last string, got %q", upper)
	}
}

func TestStringBoundsHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.RuneFrom([]rune{'a', 0xD7FF, 0xE000, utf8.MaxRune}), 0, 20, -1).Draw(t, "s")
		lower, upper := bounds(iceberg.PrimitiveTypes.String, s, s)
		if string(lower) > s || upper != nil && string(upper) < s {
			t.Fatalf("%q is not within %q and %q", s, lower, upper)
		}
		if !utf8.Valid(lower) || !utf8.Valid(upper) || utf8.RuneCount(upper) > boundRunes {
			t.Fatalf("%q and %q are no bounds", lower, upper)
		}
	})
}

func TestNumberBounds(t *testing.T) {
	t.Parallel()
	p := iceberg.PrimitiveTypes
	cases := []struct {
		name     string
		typ      iceberg.Type
		min, max string
		known    bool
	}{
		{"boolean", p.Bool, "0", "1", true},
		{"integer", p.Int32, "-5", "2147483647", true},
		{"integer, too great", p.Int32, "-5", "2147483648", false},
		{"bigint", p.Int64, "-9223372036854775808", "9223372036854775807", true},
		{"double", p.Float64, "1e-07", "1e+30", true},
		{"double, infinite", p.Float64, "-inf", "inf", true},
		{"double, NaN", p.Float64, "nan", "nan", false},
		{"float", p.Float32, "-1.5", "2.5", true},
		{"decimal", iceberg.DecimalTypeOf(10, 2), "-12.30", "99.99", true},
		{"date", p.Date, "1969-01-01", "2026-11-29", true},
		{"date, infinite", p.Date, "-infinity", "2026-11-29", false},
		{"time", p.Time, "01:02:03.5", "23:00:00", true},
		{"timestamp", p.Timestamp, "1950-01-01 00:00:00", "2026-11-29 01:02:03.123456", true},
		{"uuid", p.UUID, "00f2d867-37a6-4677-84b9-9a144cb5613f", "e5d89049-9dd4-45f9-a98d-27012dd085f9", false},
		{"blob", p.Binary, "62", "AA0061", false},
	}
	for _, c := range cases {
		lower, upper := bounds(c.typ, c.min, c.max)
		if known := lower != nil && upper != nil; known != c.known {
			t.Errorf("%s: got bounds %v and %v", c.name, lower, upper)
		}
		if !c.known {
			continue
		}
		for text, data := range map[string][]byte{c.min: lower, c.max: upper} {
			got, err := iceberg.LiteralFromBytes(c.typ, data)
			if err != nil || !got.Equals(literal(c.typ, text)) {
				t.Errorf("%s: %s came back as %v, %v", c.name, text, got, err)
			}
		}
	}
	lower, upper := bounds(p.Float64, "0.0", "-0.0")
	negative, _ := iceberg.Float64Literal(math.Copysign(0, -1)).MarshalBinary()
	positive, _ := iceberg.Float64Literal(0).MarshalBinary()
	if !bytes.Equal(lower, negative) || !bytes.Equal(upper, positive) {
		t.Errorf("zero: got %v and %v, want both zeros within", lower, upper)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const size, most = 25, 4 * 25
	c := newCache[[]byte](most)
	for _, key := range []string{"a", "b", "c", "d"} {
		c.put(key, make([]byte, size), size)
	}
	c.get("a")
	c.put("a", nil, 1) // in place of what it was
	c.put("a", nil, size)
	c.put("e", make([]byte, size), size) // in place of b, the one not used for longest
	c.put("huge", make([]byte, size+1), size+1)
	c.put("f", nil, 0)
	c.remove("f")
	var got []string
	for key := range c.entries {
		got = append(got, key)
	}
	slices.Sort(got)
	if want := []string{"a", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if c.size > most || c.size != len(got)*size || len(got) != c.order.Len() {
		t.Errorf("%d bytes of %v", c.size, got)
	}
}
