package backfill_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"smelt"
	"smelt/backfill"
	"smelt/pipeline"
)

// A row of any type that comes out as it was is known to be the same, though it
// has been a file meanwhile.
func TestTypes(t *testing.T) {
	t.Parallel()
	types := []struct {
		declared string
		values   []string
	}{
		{"varchar", []string{`""`, `"é\u0000"`, `"'"`}},
		{"boolean", []string{"true", "false"}},
		{"tinyint", []string{"-128"}},
		{"smallint", []string{"32767"}},
		{"integer", []string{"0"}},
		{"bigint", []string{"-9223372036854775808"}},
		{"float", []string{"0.1", "-0.0", "3.4e38"}},
		{"double", []string{"0.1", "-0.0", "1e-320", "1.7976931348623157e308"}},
		{"decimal(10,2)", []string{"-0.10", "99999999.99"}},
		{"decimal(38,10)", []string{"1234567890123456789012345678.0123456789"}},
		{"date", []string{`"1899-12-31"`, `"9999-12-31"`}},
		{"timestamptz", []string{`"1900-01-01T00:00:00.000001Z"`, `"2026-11-29T12:00:00+05:30"`}},
		{"uuid", []string{`"00000000-0000-0000-0000-000000000000"`, `"ffffffff-ffff-ffff-ffff-ffffffffffff"`}},
		{"json", []string{`{"b": 1.0, "a": [ ] }`, `"text"`, "1e400"}},
		{"varchar[]", []string{"[]", `["", null]`, "[null]"}},
		{"struct(a integer, b varchar)", []string{"{}", `{"a":null,"b":"x"}`, `{"a":1}`}},
		{"struct(a double, b varchar[])[]", []string{"[]", "[{}]", `[null,{"a":-0.0,"b":[]}]`}},
		{"bigint[][]", []string{"[[]]", "[null,[1,null]]"}},
	}
	columns, names := "", ""
	for i, typ := range types {
		columns += fmt.Sprintf("    c%d: %q\n", i, typ.declared)
		names += fmt.Sprintf("c%d, ", i)
	}
	p, err := pipeline.Read(fstest.MapFS{
		"readings/pipeline.yml": {Data: []byte("source: {kafka: readings}\nevents:\n  time: ts\n  columns:\n    ts: timestamptz not null\n" + columns)},
		"readings/silver.sql":   {Data: []byte("SELECT " + names + "ts, _partition_id, _partition_offset FROM bronze.readings")},
	}, "readings")
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t, p)
	add := func(members ...string) {
		value := `{"ts":"2026-11-01T10:00:00Z"` + strings.Join(append([]string{""}, members...), ",") + "}"
		w.topic.Append(smelt.Record{Timestamp: smelt.NoTimestamp, Value: []byte(value)})
		w.sent[0]++
	}
	add() // all NULL
	for i, typ := range types {
		for _, v := range typ.values {
			add(fmt.Sprintf(`"c%d":%s`, i, v))
		}
	}
	w.add()
	same(t, "quarantine", w.rows(quarantineName, "_partition_offset", "reason", "field", "raw"))
	heads := w.heads()
	if r := w.run(backfill.Scope{All: true}); r.Replayed != w.sent[0] || r.Differs || r.Published || !maps.Equal(w.heads(), heads) {
		t.Errorf("got %+v", r)
	}
	w.whole()
}
