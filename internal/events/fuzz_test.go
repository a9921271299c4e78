package events_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"smelt/internal/columns"
	"smelt/internal/events"
)

// FuzzJSON wants exactly what encoding/json takes and is valid Unicode, nested no
// deeper than MaxDepth; and of a good event the same names, texts and raw values.
func FuzzJSON(f *testing.F) {
	for _, s := range samples() {
		f.Add([]byte(s.value))
	}
	for _, seed := range []string{
		"", " ", "{}", "[]", "null", `{"a":1,"a":2,"b":"\u0061\ud83d\ude00\ud800"}`, "{\"b\":\"\xff\"}", `{"c":[{"x":[]},null,{}],"d":{"e":1.5e-3}} `, `{"b":"\udc00"}`, `{"b":"\ud800\u0000"}`,
		`{"a":-0,"b":"\\\"\/\b\f\n\r\t","c":[1,],"q":00}`, "{\"\\u0062\":\"\x7f\u2028\"}", "\ufeff{}", "{}\x00", `{"c":[{"x":["a",null]}],"f":1e5}`, `{"x":` + strings.Repeat("[", 499) + strings.Repeat("]", 499) + "}",
		`{"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}", "tru", "falsey", "[1 2]", `{"a" :	1}`, "{\"b\":\"\t\"}", `{"a":1.}`, `{"a":.1}`, `{"a":1e}`, `{"a":1E+1}`, `{"a":"x}`,
	} {
		f.Add([]byte(seed))
	}
	declared := declare("a bigint", "b varchar", "c struct(x varchar[])[]", "d json", "e double")
	decoder, batch := events.NewJSON(declared), columns.New(declared)
	f.Fuzz(func(t *testing.T, value []byte) {
		batch.Reset()
		row := batch.Add()
		fault := decoder.Decode(batch, row, batch.Keep(value))
		valid := json.Valid(value) && utf8.Valid(value) && paired(value) && depth(value) <= events.MaxDepth
		if got := fault.Reason != events.ReasonNotJSON; got != valid {
			t.Fatalf("%q: taken for JSON %v, want %v", value, got, valid)
		}
		object := bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("{"))
		if got := fault.Reason == events.ReasonNotObject; got != (valid && !object) {
			t.Fatalf("%q: taken for another value %v", value, got)
		}
		if !valid || !object {
			if shown := showRow(batch, row); shown != "a=NULL b=NULL c=NULL d=NULL e=NULL" {
				t.Fatalf("%q: %s", value, shown)
			}
			return
		}
		members := firsts(t, value)
		checkMembers(t, batch, row, fault, members)
	})
}

// checkMembers compares columns with the members of an object as encoding/json
// has them.
func checkMembers(t *testing.T, batch *columns.Batch, row int, fault events.Fault, members map[string]json.RawMessage) {
	t.Helper()
	first := ""
	for _, c := range batch.Columns {
		raw, there := members[c.Name]
		if there = there && string(raw) != "null"; !there {
			if c.Valid(row) {
				t.Fatalf("%s is %s and is not there", c.Name, show(c, row))
			}
			continue
		}
		if !c.Valid(row) && first == "" {
			first = c.Name
		}
		var want string
		var ok bool
		switch c.Name {
		case "a":
			n, err := strconv.ParseInt(string(raw), 10, 64)
			want, ok = strconv.FormatInt(n, 10), err == nil
		case "b":
			var s string
			ok = json.Unmarshal(raw, &s) == nil
			want = strconv.Quote(s)
		case "d":
			want, ok = string(raw), true
		default:
			continue // FuzzNumber, and the tables of types
		}
		if got := show(c, row); ok && got != want || !ok && got != "NULL" {
			t.Fatalf("%s of %s: got %s, want %s, %v", c.Name, raw, got, want, ok)
		}
	}
	if fault.Field != first {
		t.Fatalf("the fault is of %q, want %q", fault.Field, first)
	}
}

// firsts are the members of an object; the first of equal names.
func firsts(t *testing.T, value []byte) map[string]json.RawMessage {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(value))
	members := map[string]json.RawMessage{}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		if _, twice := members[name.(string)]; !twice {
			members[name.(string)] = raw
		}
	}
	return members
}

// paired says whether all escaped surrogates of valid JSON stand in pairs.
func paired(value []byte) bool {
	pending := false // a high surrogate came just before
	for i := 0; i < len(value); i++ {
		high, low := false, false
		if value[i] == '\\' {
			if i++; value[i] == 'u' {
				unit, _ := strconv.ParseUint(string(value[i+1:i+5]), 16, 16)
				high, low = unit>>10 == 0xd800>>10, unit>>10 == 0xdc00>>10
				i += 4
			}
		}
		if low != pending {
			return false
		}
		pending = high
	}
	return !pending
}

// depth is how deep valid JSON nests.
func depth(value []byte) int {
	open, most, text := 0, 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			open++
			most = max(most, open)
		case c == ']' || c == '}':
			open--
		}
	}
	return most
}
