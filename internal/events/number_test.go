package events_test

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/columns"
	"smelt/internal/events"
)

// numbers are seeds of numbers.
var numbers = []string{
	"0", "-0", "1", "-1", "0.5", "12.345", "0.005", "1e400", "1e-400", "-1e-400", "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1.7976931348623158e308", "1.7976931348623159e308",
	"9007199254740993", "9007199254740992.5", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
	"99999999999999999999999999999999999999", "100000000000000000000000000000000000000", "0.00000000000000000000000000000000000001", "3.4028235677973366e38", "7e-46", "7.1e-46", "1e22", "1e23",
	"1E+2", "1e-2", "99999999.995", "99999999.994999999999999999999", "0.000000000000000000000000", "1234567890123456789012345678.0123456789", "1234567890123456789012345678.01234567895",
	"1000000000000000000000000000000000000000000e-30", "0.00000000000000000000000000000000000000000001e50", "253402300799.999999", "-62135596800.0000001", "1795953600.1234567", "123456789e-15", "-", "01", "1.", ".1", "1e", "--1", "+1", "0x1",
}

// FuzzNumber compares integers, floats and epochs with math/big.
func FuzzNumber(f *testing.F) {
	for _, n := range numbers {
		f.Add(n)
	}
	declared := declare("t tinyint", "s smallint", "i integer", "b bigint", "f float", "d double", "es timestamptz; unit: s", "en timestamptz; unit: ns")
	decoder, batch := events.NewJSON(declared), columns.New(declared)
	f.Fuzz(func(t *testing.T, text string) {
		exact, ok := ratOf(text)
		if !ok {
			return
		}
		for i, c := range declared {
			batch.Reset()
			row := batch.Add()
			fault := decoder.Decode(batch, row, batch.Keep([]byte("{"+strconv.Quote(c.Name)+":"+text+"}")))
			got, want := show(batch.Columns[i], row), wantNumber(c.Type.Name+c.Type.Unit, text, exact)
			if fault.Reason != "" {
				got = "<" + fault.Reason + ">"
			}
			if got != want {
				t.Fatalf("%s as %s: got %s, want %s", text, c.Type, got, want)
			}
		}
	})
}

// ratOf is the exact value of a JSON number that is not too large to write out.
func ratOf(text string) (*big.Rat, bool) {
	if !json.Valid([]byte(text)) || strings.Trim(text, "0123456789+-.eE") != "" || len(text) > 200 {
		return nil, false
	}
	if _, exponent, found := strings.Cut(strings.ToLower(text), "e"); found {
		if n, err := strconv.Atoi(exponent); err != nil || n > 2000 || n < -2000 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// wantNumber is what a number becomes as a type other than a decimal, as show
// prints it, or its reason in brackets.
func wantNumber(typ, text string, exact *big.Rat) string {
	bits := map[string]uint{"tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64, "float": 32, "double": 64}[typ]
	switch typ {
	case "tinyint", "smallint", "integer", "bigint":
		limit := new(big.Int).Lsh(big.NewInt(1), bits-1)
		switch n := exact.Num(); {
		case strings.ContainsAny(text, ".eE"):
			return "<wrong type>"
		case n.Cmp(limit) >= 0 || n.Cmp(new(big.Int).Neg(limit)) < 0:
			return "<out of range>"
		default:
			return n.String()
		}
	case "float", "double":
		v, _ := exact.Float64()
		if bits == 32 {
			narrow, _ := exact.Float32()
			v = float64(narrow)
		}
		if math.IsInf(v, 0) || v == 0 && exact.Sign() != 0 {
			return "<out of range>"
		}
		return strconv.FormatFloat(v, 'g', -1, int(bits))
	}
	micros := new(big.Rat).Mul(exact, map[string]*big.Rat{"timestamptzs": big.NewRat(1e6, 1), "timestamptzns": big.NewRat(1, 1000)}[typ])
	whole := new(big.Int).Div(micros.Num(), micros.Denom()) // toward the past: its denominator is positive
	if whole.Cmp(big.NewInt(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())) < 0 || whole.Cmp(big.NewInt(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())) >= 0 {
		return "<out of range>"
	}
	return time.UnixMicro(whole.Int64()).UTC().Format(time.RFC3339Nano)
}

// FuzzDecimal compares decimals of all sizes with math/big.
func FuzzDecimal(f *testing.F) {
	for i, n := range numbers {
		f.Add(n, uint8(i), uint8(i/2), i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, text string, precision, scale uint8, round bool) {
		exact, ok := ratOf(text)
		if !ok {
			return
		}
		p := int(precision)%38 + 1
		s := int(scale) % (p + 1)
		typ := smelt.Type{Name: "decimal(" + strconv.Itoa(p) + "," + strconv.Itoa(s) + ")", Round: round}
		declared := []smelt.Column{{Name: "c", Type: typ}}
		batch := columns.New(declared)
		defer batch.Free()
		row := batch.Add()
		fault := events.NewJSON(declared).Decode(batch, row, batch.Keep([]byte(`{"c":`+text+"}")))
		got := show(batch.Columns[0], row)
		if fault.Reason != "" {
			got = "<" + fault.Reason + ">"
		}
		if want := wantDecimal(exact, p, s, round); got != want {
			t.Fatalf("%s as %s, round %v: got %s, want %s", text, typ, round, got, want)
		}
	})
}

// wantDecimal is what a number becomes as a decimal, as show prints it.
func wantDecimal(exact *big.Rat, precision, scale int, round bool) string {
	ten := func(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
	unscaled := new(big.Rat).Mul(exact, new(big.Rat).SetInt(ten(scale)))
	whole := new(big.Int).Quo(unscaled.Num(), unscaled.Denom())
	left := new(big.Rat).Sub(unscaled, new(big.Rat).SetInt(whole))
	if round && left.Abs(left).Cmp(big.NewRat(1, 2)) >= 0 {
		whole.Add(whole, big.NewInt(int64(exact.Sign())))
	}
	switch {
	case whole.CmpAbs(ten(precision)) >= 0:
		return "<out of range>"
	case left.Sign() != 0 && !round:
		return "<too precise>"
	}
	return new(big.Rat).SetFrac(whole, ten(scale)).FloatString(scale)
}
