package events_test

import (
	"fmt"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/columns"
	"smelt/internal/events"
)

// TestValues wants the row and the fault of values as a whole.
func TestValues(t *testing.T) {
	t.Parallel()
	declared := declare("a integer!", "b_c varchar", "s struct(x integer, y date[])", "l struct(n decimal(5,1))[]", "z double!")
	notJSON, notObject := events.Fault{Reason: "not json"}, events.Fault{Reason: "not an object"}
	fault := func(reason, field, detail string) events.Fault {
		return events.Fault{Reason: reason, Field: field, Detail: detail}
	}
	const null = "a=NULL b_c=NULL s=NULL l=NULL z=NULL"
	for _, tt := range []struct {
		value, want string
		fault       events.Fault
	}{
		{`{"a":1,"z":2}`, "a=1 b_c=NULL s=NULL l=NULL z=2", events.Fault{}},
		{"\t\r\n {\"z\" :\t2\r\n,\"a\":1 } \n", "a=1 b_c=NULL s=NULL l=NULL z=2", events.Fault{}},
		{`{"\u0061":1,"\u007a":2,"b\u005fc":"x"}`, `a=1 b_c="x" s=NULL l=NULL z=2`, events.Fault{}},
		{`{"A":1,"a":1,"Z":3,"z":2,"":0,"aa":{"a":[5]}}`, "a=1 b_c=NULL s=NULL l=NULL z=2", events.Fault{}},
		{`{"a":1,"z":2,"a":"x"}`, "a=1 b_c=NULL s=NULL l=NULL z=2", events.Fault{}},
		{`{"a":null,"z":2,"a":1}`, "a=NULL b_c=NULL s=NULL l=NULL z=2", fault("missing", "a", "")},
		{`{"a":1,"z":2,"s":{"x":1,"x":2,"\u0078":"y"}}`, "a=1 b_c=NULL s={x:1 y:NULL} l=NULL z=2", events.Fault{}},

		// The fault is that of the first column declared, and the others keep their values.
		{`{}`, null, fault("missing", "a", "")},
		{`{"a":1}`, "a=1 b_c=NULL s=NULL l=NULL z=NULL", fault("missing", "z", "")},
		{`{"z":"x","a":true,"b_c":"y"}`, `a=NULL b_c="y" s=NULL l=NULL z=NULL`, fault("wrong type", "a", "")},
		{`{"z":1e999,"a":1,"b_c":5}`, "a=1 b_c=NULL s=NULL l=NULL z=NULL", fault("wrong type", "b_c", "")},
		{`{"z":1e999,"a":1}`, "a=1 b_c=NULL s=NULL l=NULL z=NULL", fault("out of range", "z", "")},
		{`{"b_c":1}`, null, fault("missing", "a", "")},

		// A fault inside says where it is.
		{`{"a":1,"z":2,"s":{"x":"1"}}`, "a=1 b_c=NULL s=NULL l=NULL z=2", fault("wrong type", "s", "s.x: wrong type")},
		{`{"a":1,"z":2,"s":{"y":["2026-11-29","2026-02-30"],"x":5}}`, "a=1 b_c=NULL s=NULL l=NULL z=2", fault("bad time", "s", "s.y[1]: bad time")},
		{`{"a":1,"z":2,"s":{"y":[5],"x":5.5}}`, "a=1 b_c=NULL s=NULL l=NULL z=2", fault("wrong type", "s", "s.x: wrong type")},
		{`{"a":1,"z":2,"l":[{"n":1},{"n":1.55},{"n":"x"}]}`, "a=1 b_c=NULL s=NULL l=NULL z=2", fault("too precise", "l", "l[1].n: too precise")},
		{`{"a":1,"z":2,"l":[{"n":1},[]]}`, "a=1 b_c=NULL s=NULL l=NULL z=2", fault("wrong type", "l", "l[1]: wrong type")},
		{`{"a":1,"z":2,"l":[{"n":1.55}],"s":5}`, "a=1 b_c=NULL s=NULL l=NULL z=2", fault("wrong type", "s", "")},
		{`{"a":"x","z":2,"l":[{"n":1.55}]}`, "a=NULL b_c=NULL s=NULL l=NULL z=2", fault("wrong type", "a", "")},
		{`{"l":[{"n":1.55}]}`, null, fault("missing", "a", "")},

		{"[]", null, notObject}, {"1", null, notObject}, {` "x" `, null, notObject}, {"null", null, notObject}, {"[{}]", null, notObject},
		{"", null, notJSON}, {" ", null, notJSON}, {"{", null, notJSON}, {`{"a":1,"z":2`, null, notJSON}, {`{"a":1,"z":2,}`, null, notJSON},
		{`{"a":1,"z":2}}`, null, notJSON}, {`{"a":1,"z":2}{}`, null, notJSON}, {`{"a":1 "z":2}`, null, notJSON}, {`{"a" 1}`, null, notJSON}, {`{a:1}`, null, notJSON},
		{`{"s":{"x":1,"y":["2026-11-29"]},"l":[{"n":1}],"a":1,"z":2,"q":tru}`, null, notJSON},
		{"\xef\xbb\xbf{}", null, notJSON}, {"{}\x00", null, notJSON}, {"\x00", null, notJSON}, {"{\x00}", null, notJSON}, {"[1,]", null, notJSON}, {"[1", null, notJSON}, {"nul", null, notJSON},
		{`{"a":1,"z":01}`, null, notJSON}, {`{"a":+1}`, null, notJSON}, {`{"a":-}`, null, notJSON}, {`{"z":.5}`, null, notJSON}, {`{"z":5.}`, null, notJSON}, {`{"z":1e}`, null, notJSON}, {`{"z":1e+}`, null, notJSON}, {`{"z":NaN}`, null, notJSON},
		{`{"b_c":"` + "\n" + `"}`, null, notJSON}, {`{"b_c":"\x"}`, null, notJSON}, {`{"b_c":"\u12"}`, null, notJSON}, {`{"b_c":"\u12g4"}`, null, notJSON},
		{`{"b_c":"\ud800"}`, null, notJSON}, {`{"b_c":"\udc00\ud800"}`, null, notJSON}, {`{"b_c":"\ud800\u0041"}`, null, notJSON}, {`{"b_c":"\ud800\ud800"}`, null, notJSON},
		{`{"not":"\ud800"}`, null, notJSON}, {`{"\ud800":1}`, null, notJSON}, {"{\"b_c\":\"abcdefgh\xff\"}", null, notJSON}, {"{\"\xc0\x80\":1}", null, notJSON}, {"{\"n\":\"\xed\xa0\x80\"}", null, notJSON},
	} {
		batch, got := decode(t, declared, tt.value)
		if row := showRow(batch, 0); row != tt.want || got != tt.fault {
			t.Errorf("%s:\n got %s %+v\nwant %s %+v", tt.value, row, got, tt.want, tt.fault)
		}
	}
}

// TestDepth nests a value as deep as is allowed, and deeper by one.
func TestDepth(t *testing.T) {
	t.Parallel()
	arrays := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	objects := func(depth int) string {
		return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
	}
	declared := declare("a json", "b bigint[]")
	for _, tt := range []struct {
		value string
		want  events.Fault
	}{
		{`{"a":` + arrays(events.MaxDepth-1) + "}", events.Fault{}},
		{`{"x":` + objects(events.MaxDepth-1) + "}", events.Fault{}},
		{`{"a":` + arrays(events.MaxDepth) + "}", events.Fault{Reason: events.ReasonNotJSON}},
		{`{"b":` + arrays(events.MaxDepth) + "}", events.Fault{Reason: events.ReasonNotJSON}},
		{`{"x":` + objects(events.MaxDepth) + "}", events.Fault{Reason: events.ReasonNotJSON}},
		{arrays(events.MaxDepth), events.Fault{Reason: events.ReasonNotObject}},
		{arrays(events.MaxDepth + 1), events.Fault{Reason: events.ReasonNotJSON}},
		{arrays(1_000_000), events.Fault{Reason: events.ReasonNotJSON}},
		{`{"a":` + strings.Repeat("[],", 2) + `"b":[[]]}`, events.Fault{Reason: events.ReasonNotJSON}},
		{`{"x":[` + strings.Repeat("[],", 2*events.MaxDepth) + `[]],"y":[` + strings.Repeat("{},", 2*events.MaxDepth) + `{}]}`, events.Fault{}},
	} {
		if _, got := decode(t, declared, tt.value); got != tt.want {
			t.Errorf("%.20s… of %d bytes: got %+v, want %+v", tt.value, len(tt.value), got, tt.want)
		}
	}
}

// TestRepeated counts the members that are ignored for their name.
func TestRepeated(t *testing.T) {
	t.Parallel()
	declared := declare("a integer", "s struct(x integer)", "l struct(x integer)[]")
	decoder, batch := events.NewJSON(declared), columns.New(declared)
	defer batch.Free()
	for _, tt := range []struct {
		value string
		want  int64
	}{
		{`{"a":1,"s":{"x":1},"l":[{"x":1},{"x":2}]}`, 0},
		{`{"a":1,"a":2,"A":3,"a":[4]}`, 2},
		{`{"s":{"x":1,"x":2},"s":{"x":3,"x":4}}`, 2},
		{`{"l":[{"x":1,"\u0078":2},{"x":3}]}`, 1},
		{`{"b":1,"b":2,"c":{"a":1,"a":2}}`, 0},
	} {
		before := decoder.Repeated
		decoder.Decode(batch, batch.Add(), batch.Keep([]byte(tt.value)))
		if got := decoder.Repeated - before; got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.value, got, tt.want)
		}
	}
}

// TestManyRows reads events whose members, and which of them are there, differ
// from one to the next: none has an effect on another.
func TestManyRows(t *testing.T) {
	t.Parallel()
	declared := declare("a integer!", "b varchar", "l varchar[]", "s struct(x integer, y varchar)")
	values := []struct{ value, want string }{
		{`{"a":1,"b":"first","l":["x",null],"s":{"x":1,"y":"a longer text \n"}}`, `a=1 b="first" l=["x" NULL] s={x:1 y:"a longer text \n"}`},
		{`{"s":{"y":null,"x":2},"x":[1,{"a":"b"}],"l":[],"b":null,"a":2}`, `a=2 b=NULL l=[] s={x:2 y:NULL}`},
		{`{"l":["a text of more than twelve bytes",5],"a":3}`, `a=3 b=NULL l=NULL s=NULL`},
		{`{"a":4,"l":["y"],"s":{"x":9,"y":0}}`, `a=4 b=NULL l=["y"] s=NULL`},
		{`{"a":5,"s":{"x":9},"l":["y"],`, `a=NULL b=NULL l=NULL s=NULL`},
	}
	decoder, batch := events.NewJSON(declared), columns.New(declared)
	defer batch.Free()
	for range 3 {
		const rows = 5000 // the columns grow several times
		for i := range rows {
			decoder.Decode(batch, batch.Add(), batch.Keep([]byte(values[i%len(values)].value)))
		}
		for i := range rows {
			if got, want := showRow(batch, i), values[i%len(values)].want; got != want {
				t.Fatalf("row %d: got %s, want %s", i, got, want)
			}
		}
		if s := batch.Columns[3]; s.Fields[0].Valid(3) || s.Fields[0].Valid(4) {
			t.Error("a struct is NULL and its field is not")
		}
		batch.Reset()
	}
}

// TestManyColumns reads an event with more columns than any has.
func TestManyColumns(t *testing.T) {
	t.Parallel()
	const n = 1000
	var declared []smelt.Column
	var members []string
	for i := range n {
		declared = append(declared, smelt.Column{Name: fmt.Sprint("c", i), Type: smelt.Type{Name: "integer"}, NotNull: true})
		members = append(members, fmt.Sprintf(`"c%d":%d,"x%d":0`, (i*7)%n, (i*7)%n, i))
	}
	batch, fault := decode(t, declared, "{"+strings.Join(members, ",")+"}")
	if fault != (events.Fault{}) {
		t.Fatal(fault)
	}
	for i, c := range batch.Columns {
		if got := c.Int(0); got != int64(i) {
			t.Errorf("%s: got %d", c.Name, got)
		}
	}
}
