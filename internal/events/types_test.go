package events_test

import (
	"fmt"
	"strings"
	"testing"

	"smelt/internal/events"
)

// typeCases are, for each type, values and what they become: a value as show
// prints it, or a reason in brackets, <wrong type>.
var typeCases = map[string][][2]string{
	"boolean": {
		{"true", "true"}, {"false", "false"}, {"null", "NULL"}, {"0", "<wrong type>"}, {`"true"`, "<wrong type>"}, {"{}", "<wrong type>"},
	},
	"tinyint":  {{"-128", "-128"}, {"127", "127"}, {"128", "<out of range>"}, {"-129", "<out of range>"}, {"-0", "0"}},
	"smallint": {{"-32768", "-32768"}, {"32767", "32767"}, {"32768", "<out of range>"}, {"-32769", "<out of range>"}},
	"integer":  {{"-2147483648", "-2147483648"}, {"2147483647", "2147483647"}, {"2147483648", "<out of range>"}, {"1E0", "<wrong type>"}},
	"bigint": {
		{"9223372036854775807", "9223372036854775807"}, {"-9223372036854775808", "-9223372036854775808"},
		{"9223372036854775808", "<out of range>"}, {"-9223372036854775809", "<out of range>"}, {"18446744073709551617", "<out of range>"},
		{strings.Repeat("9", 40), "<out of range>"}, {"9007199254740993", "9007199254740993"},
		{"1.0", "<wrong type>"}, {"1e2", "<wrong type>"}, {"1.5", "<wrong type>"}, {`"1"`, "<wrong type>"}, {"true", "<wrong type>"}, {"[1]", "<wrong type>"},
	},
	"float": {
		{"0.1", "0.1"}, {"16777217", "1.6777216e+07"}, {"3.4028234e38", "3.4028235e+38"}, {"3.4028235677973366e38", "3.4028235e+38"}, {"3.4028235677973367e38", "<out of range>"},
		{"1e-45", "1e-45"}, {"1e-46", "<out of range>"}, {"-0", "0"}, {"0.500000029802322387695313", "0.50000006"}, {`"1"`, "<wrong type>"},
	},
	"double": {
		{"9007199254740993", "9.007199254740992e+15"}, {"1e-400", "<out of range>"}, {"-1e-400", "<out of range>"}, {"1e400", "<out of range>"},
		{"0e400", "0"}, {"0.000e-99999999999999999999", "0"}, {"-0", "0"}, {"-0.0", "0"}, {"5e-324", "5e-324"}, {"2e-324", "<out of range>"}, {"1e22", "1e+22"}, {"1e23", "1e+23"},
		{"1.7976931348623157e308", "1.7976931348623157e+308"}, {"1.7976931348623159e308", "<out of range>"}, {"123456789012345678", "1.2345678901234568e+17"},
		{"0.1e1", "1"}, {"-2.25E-3", "-0.00225"}, {"1e99999999999999999999", "<out of range>"}, {"1e-99999999999999999999", "<out of range>"},
		{"0." + strings.Repeat("0", 2000) + "1e2001", "1"}, {"1" + strings.Repeat("0", 2000) + "e-2001", "0.1"},
		{"0." + strings.Repeat("0", 110000) + "25e110001", "2.5"}, {"-25" + strings.Repeat("0", 110000) + "e-110001", "-2.5"},
		{`"NaN"`, "<wrong type>"}, {"[]", "<wrong type>"}, {"false", "<wrong type>"},
	},
	"decimal(4,1)":  {{"999.9", "999.9"}, {"-999.9", "-999.9"}, {"1000", "<out of range>"}, {"-0", "0.0"}},
	"decimal(9,0)":  {{"999999999", "999999999"}, {"1e8", "100000000"}, {"1e9", "<out of range>"}, {"0.1e1", "1"}},
	"decimal(18,9)": {{"-999999999.999999999", "-999999999.999999999"}, {"1e9", "<out of range>"}, {"1e-9", "0.000000001"}, {"1e-10", "<too precise>"}},
	"decimal(10,2)": {
		{"12.345", "<too precise>"}, {"0.005", "<too precise>"}, {"19.999", "<too precise>"}, {"12.340", "12.34"}, {"12.30000000000000000000000000000", "12.30"},
		{"1234567800e-3", "1234567.80"}, {"99999999.99", "99999999.99"}, {"99999999.995", "<too precise>"}, {"100000000", "<out of range>"}, {"100000000.001", "<out of range>"},
		{"1e-99999999999999999999", "<too precise>"}, {"1e99999999999999999999", "<out of range>"}, {"0e99999999999999999999", "0.00"}, {"0." + strings.Repeat("0", 50) + "1", "<too precise>"},
		{`"1.00"`, "<wrong type>"}, {"true", "<wrong type>"}, {"{}", "<wrong type>"},
	},
	"decimal(10,2); round: true": {
		{"12.345", "12.35"}, {"0.005", "0.01"}, {"19.999", "20.00"}, {"-0.005", "-0.01"}, {"0.00499999999999999999999999999999999", "0.00"}, {"-0.004", "0.00"},
		{"99999999.994", "99999999.99"}, {"99999999.995", "<out of range>"}, {"1e-400", "0.00"}, {"5e-3", "0.01"}, {"4.9e-3", "0.00"}, {"1e8", "<out of range>"},
		{"0.005" + strings.Repeat("0", 40), "0.01"}, {"12.3449999999999999999999999999999999999999", "12.34"}, {"12.3450000000000000000000000000000000000001", "12.35"},
	},
	"decimal(19,0)":  {{"9227000000000000000", "9227000000000000000"}, {"-9999999999999999999", "-9999999999999999999"}, {"10000000000000000000", "<out of range>"}},
	"decimal(20,2)":  {{"1234567890123456.78", "1234567890123456.78"}, {"-1234567890123456.78", "-1234567890123456.78"}, {"1e18", "<out of range>"}},
	"decimal(38,18)": {{"3.141592653589793238", "3.141592653589793238"}, {"99999999999999999999.999999999999999999", "99999999999999999999.999999999999999999"}, {"1e20", "<out of range>"}},
	"decimal(38,0)": {
		{"9007199254740993.000", "9007199254740993"}, {strings.Repeat("9", 38), strings.Repeat("9", 38)}, {"-" + strings.Repeat("9", 38), "-" + strings.Repeat("9", 38)},
		{strings.Repeat("9", 39), "<out of range>"}, {"1e37", "1" + strings.Repeat("0", 37)}, {"1e38", "<out of range>"}, {"0.5", "<too precise>"},
		{strings.Repeat("9", 38) + ".0000", strings.Repeat("9", 38)}, {strings.Repeat("9", 38) + ".1", "<too precise>"},
	},
	"decimal(38,38)": {{"0." + strings.Repeat("9", 38), "0." + strings.Repeat("9", 38)}, {"1", "<out of range>"}, {"1e-38", "0." + strings.Repeat("0", 37) + "1"}},
	"varchar": {
		{`""`, `""`}, {`"x"`, `"x"`}, {`"twelve bytes"`, `"twelve bytes"`}, {`"thirteen byte"`, `"thirteen byte"`}, {`"é😀"`, `"é😀"`},
		{`"\u0041\n\t\b\f\r\"\\\/"`, `"A\n\t\b\f\r\"\\/"`}, {`"\ud83d\ude00 and more than twelve"`, `"😀 and more than twelve"`}, {`"a\u0000b"`, `"a\x00b"`}, {`"\uFFFF"`, `"\uffff"`},
		{"1", "<wrong type>"}, {"[]", "<wrong type>"}, {"true", "<wrong type>"}, {"null", "NULL"}, {`"null"`, `"null"`},
	},
	"timestamptz": {
		{`"2026-11-29T12:00:00Z"`, "2026-11-29T12:00:00Z"}, {`"2026-11-29t12:00:00.5z"`, "2026-11-29T12:00:00.5Z"}, {`"2026-11-29 12:00:00.123456789+01:30"`, "2026-11-29T10:30:00.123456Z"},
		{`"2026-11-29T12:00:00.9999999Z"`, "2026-11-29T12:00:00.999999Z"}, {`"1960-02-29T12:00:00.9999999Z"`, "1960-02-29T12:00:00.999999Z"},
		{`"2026-11-29T12:00"`, "2026-11-29T12:00:00Z"}, {`"2026-11-29T12:00+0100"`, "2026-11-29T11:00:00Z"}, {`"2026-11-29T12:00:00-05"`, "2026-11-29T17:00:00Z"}, {`"2026-11-29T12:00:00"`, "2026-11-29T12:00:00Z"},
		{`"1999-12-31T23:59:59-15:59"`, "2000-01-01T15:58:59Z"}, {`"0000-01-01T00:00:00Z"`, "0000-01-01T00:00:00Z"}, {`"9999-12-31T23:59:59Z"`, "9999-12-31T23:59:59Z"}, {`"\u0032026-11-29T12:00:00Z"`, "2026-11-29T12:00:00Z"},
		{`"2026-11-29T24:00:00Z"`, "<bad time>"}, {`"2026-11-29T12:00:60Z"`, "<bad time>"}, {`"2026-11-29T12:60Z"`, "<bad time>"}, {`"infinity"`, "<bad time>"}, {`"2026-11-29"`, "<bad time>"}, {`"epoch"`, "<bad time>"},
		{`"2026-02-29T12:00:00Z"`, "<bad time>"}, {`"2026-11-29T12:00:00+16:00"`, "<bad time>"}, {`"2026-11-29T12:00:00+1"`, "<bad time>"}, {`"2026-11-29T12:00:00+01:3"`, "<bad time>"}, {`"2026-11-29T12:00:00+01:60"`, "<bad time>"},
		{`"2026-11-29T12:00:00.Z"`, "<bad time>"}, {`"2026-11-29T12:00.5Z"`, "<bad time>"}, {`" 2026-11-29T12:00:00Z"`, "<bad time>"}, {`"2026-11-29T12:00:00Z "`, "<bad time>"}, {`"2026-11-29T12:00:00 Z"`, "<bad time>"},
		{`"2026-11-29T12:00:00 Europe/Berlin"`, "<bad time>"}, {`"2026-11-29T12:00:0Z"`, "<bad time>"}, {`"2026-11-29\u000012:00:00Z"`, "<bad time>"}, {`"12026-11-29T12:00:00Z"`, "<bad time>"}, {`""`, "<bad time>"},
		{"1795953600", "<wrong type>"}, {"null", "NULL"},
	},
	"timestamptz; unit: s": {
		{"1795953600", "2026-11-29T12:00:00Z"}, {"1795953600.1234567", "2026-11-29T12:00:00.123456Z"}, {"-1.5", "1969-12-31T23:59:58.5Z"}, {"-0.0000001", "1969-12-31T23:59:59.999999Z"}, {"1.5e3", "1970-01-01T00:25:00Z"},
		{"-62135596800", "0001-01-01T00:00:00Z"}, {"-62135596800.0000001", "<out of range>"}, {"253402300799.9999999", "9999-12-31T23:59:59.999999Z"}, {"253402300800", "<out of range>"},
		{"1e400", "<out of range>"}, {"-1e400", "<out of range>"}, {"1e-400", "1970-01-01T00:00:00Z"}, {"-1e-400", "1969-12-31T23:59:59.999999Z"}, {`"1795953600"`, "<wrong type>"}, {"true", "<wrong type>"},
	},
	"timestamptz; unit: ms": {{"1795953600123", "2026-11-29T12:00:00.123Z"}, {"1795953600123.4567", "2026-11-29T12:00:00.123456Z"}, {"253402300800000", "<out of range>"}},
	"timestamptz; unit: us": {{"1795953600123456", "2026-11-29T12:00:00.123456Z"}, {"-0.1", "1969-12-31T23:59:59.999999Z"}, {"99999999999999999999", "<out of range>"}},
	"timestamptz; unit: ns": {{"1795953600123456789", "2026-11-29T12:00:00.123456Z"}, {"-1", "1969-12-31T23:59:59.999999Z"}, {"-1000", "1969-12-31T23:59:59.999999Z"}, {"253402300799999999999", "9999-12-31T23:59:59.999999Z"}, {"253402300800000000000", "<out of range>"}},
	"date": {
		{`"2026-11-29"`, "2026-11-29"}, {`"2024-02-29"`, "2024-02-29"}, {`"2000-02-29"`, "2000-02-29"}, {`"1900-02-28"`, "1900-02-28"}, {`"0001-01-01"`, "0001-01-01"}, {`"0000-12-31"`, "0000-12-31"}, {`"9999-12-31"`, "9999-12-31"},
		{`"2026-02-29"`, "<bad time>"}, {`"1900-02-29"`, "<bad time>"}, {`"2026-13-01"`, "<bad time>"}, {`"2026-00-01"`, "<bad time>"}, {`"2026-01-00"`, "<bad time>"}, {`"2026-04-31"`, "<bad time>"}, {`"2026-1-1"`, "<bad time>"},
		{`"2026-11-29T00:00:00Z"`, "<bad time>"}, {`"today"`, "<bad time>"}, {"20261129", "<wrong type>"}, {`"+026-11-29"`, "<bad time>"},
	},
	"uuid": {
		{`"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`, "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}, {`"F47AC10B-58CC-4372-A567-0E02B2C3D479"`, "f47ac10b-58cc-4372-a567-0e02b2c3d479"},
		{`"00000000-0000-0000-0000-000000000000"`, "00000000-0000-0000-0000-000000000000"}, {`"ffffffff-ffff-ffff-ffff-ffffffffffff"`, "ffffffff-ffff-ffff-ffff-ffffffffffff"},
		{`"6ba7b8109dad11d180b400c04fd430c8"`, "<wrong type>"}, {`"{6ba7b810-9dad-11d1-80b4-00c04fd430c8}"`, "<wrong type>"}, {`"6ba7b810-9dad-11d1-80b4-00c04fd430c"`, "<wrong type>"}, {`"6ba7b810-9dad-11d1-80b4-00c04fd430cg"`, "<wrong type>"},
		{`"6ba7b810-9dad-11d1-80b40-0c04fd430c8"`, "<wrong type>"}, {"1", "<wrong type>"}, {`""`, "<wrong type>"},
	},
	"json": {
		{`{"x":0.10000000000000000000001}`, `{"x":0.10000000000000000000001}`}, {"1.10", "1.10"}, {"1e2", "1e2"}, {`{ "a" : [1, 2.50, {"b":null}],"a":"\u0041" }`, `{ "a" : [1, 2.50, {"b":null}],"a":"\u0041" }`},
		{"[]", "[]"}, {`"x"`, `"x"`}, {"true", "true"}, {"false", "false"}, {"-0", "-0"}, {"null", "NULL"}, {"[null]", "[null]"},
	},
	"varchar[]":                            {{"[]", "[]"}, {"[null]", "[NULL]"}, {`["a", "b\n"]`, `["a" "b\n"]`}, {"{}", "<wrong type>"}, {`"a"`, "<wrong type>"}, {"1", "<wrong type>"}, {"null", "NULL"}},
	"struct(a integer)":                    {{"{}", "{a:NULL}"}, {`{"a":null}`, "{a:NULL}"}, {`{"b":1}`, "{a:NULL}"}, {`{"A":1}`, "{a:NULL}"}, {`{"\u0061":1,"a":"x"}`, "{a:1}"}, {"[]", "<wrong type>"}, {"0", "<wrong type>"}, {"null", "NULL"}},
	"bigint[][]":                           {{"[[1],[2,3],null,[],[null]]", "[[1] [2 3] NULL [] [NULL]]"}, {"[1]", "<wrong type>"}},
	"struct(a integer)[]":                  {{`[{"a":1},null,{}]`, "[{a:1} NULL {a:NULL}]"}, {"[[]]", "<wrong type>"}},
	"struct(a varchar[])":                  {{`{"a":["x","y"]}`, `{a:["x" "y"]}`}},
	"decimal(20,2)[][]":                    {{"[[1234567890123456.78,0]]", "[[1234567890123456.78 0.00]]"}},
	"struct(a struct(b json, c double[]))": {{`{"a":{"c":[1,2],"b":[1.10]}}`, "{a:{b:[1.10] c:[1 2]}}"}},
}

// TestTypes reads each value in a column of its type, and in lists and structs.
func TestTypes(t *testing.T) {
	t.Parallel()
	for declared, cases := range typeCases {
		typ, options, _ := strings.Cut(declared, "; ")
		nestings := []struct{ declared, value, want, inside string }{
			{declared, "%s", "%s", ""},
			{typ + "[]; " + options, "[null, %s]", "[NULL %s]", "[1]"},
			{"struct(z varchar, x " + typ + "); " + options, `{"x": %s ,"z":"z"}`, `{z:"z" x:%s}`, ".x"},
			{"struct(x " + typ + "[])[]; " + options, `[{"x":[]},{"x":[%s]}]`, "[{x:[]} {x:[%s]}]", "[1].x[0]"},
		}
		if strings.HasPrefix(options, "unit") {
			nestings = nestings[:1] // a unit goes with a column only
		}
		for _, n := range nestings {
			columns := declare("before varchar", "c "+n.declared, "after varchar!")
			for _, c := range cases {
				batch, fault := decode(t, columns, fmt.Sprintf(`{"before":"b","c":`+n.value+`,"after":"a"}`, c[0]))
				got, want := showRow(batch, 0), `before="b" c=`+fmt.Sprintf(n.want, c[1])+` after="a"`
				var wantFault events.Fault
				if reason, bad := strings.CutPrefix(c[1], "<"); bad {
					want, wantFault = `before="b" c=NULL after="a"`, events.Fault{Reason: strings.TrimSuffix(reason, ">"), Field: "c"}
				}
				if got != want || fault.Reason != wantFault.Reason || fault.Field != wantFault.Field {
					t.Errorf("%s of %s:\n got %s %+v\nwant %s %+v", n.declared, short(c[0]), short(got), fault, short(want), wantFault)
				}
				if fault.Reason != "" && n.inside != "" && !strings.HasPrefix(fault.Detail, "c"+n.inside) {
					t.Errorf("%s of %s: the detail is %q", n.declared, short(c[0]), fault.Detail)
				}
			}
		}
	}
}

// short is the beginning of a text.
func short(s string) string { return s[:min(len(s), 200)] }
