package silver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"smelt"
	"smelt/pipeline"
)

// exactly declares the types whose values are easy to get wrong, plain and nested.
const exactly = `source: {kafka: t}
events:
  time: ts
  columns:
    ts:     timestamptz not null
    money:  decimal(20,2)
    pi:     decimal(38,18)
    whole:  decimal(38,0)
    price:  decimal(10,2)
    about:  {type: 'decimal(10,2)', round: true}
    doc:    json
    d:      double
    nested: 'struct(price decimal(10,2), pis decimal(38,18)[], doc json)[]'
`

// TestExact sends values that a reader with doubles changes in silence, and finds in
// silver what was sent, or in quarantine why it does not fit.
func TestExact(t *testing.T) {
	t.Parallel()
	p, err := pipeline.Read(fstest.MapFS{
		"exact/pipeline.yml": {Data: []byte(exactly)},
		"exact/silver.sql":   {Data: []byte("SELECT * EXCLUDE (_timestamp, _key, _headers) FROM bronze.exact")},
	}, "exact")
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, p)
	cases := []struct{ column, sent, silver, quarantine string }{
		{"money", `1234567890123456.78`, "1234567890123456.78", ""},
		{"pi", `3.141592653589793238`, "3.141592653589793238", ""},
		{"whole", `9007199254740993.000`, "9007199254740993", ""},
		{"whole", `99999999999999999999999999999999999999`, "99999999999999999999999999999999999999", ""},
		{"whole", `999999999999999999999999999999999999999`, "", "out of range,whole,"},
		{"price", `12.345`, "", "too precise,price,"},
		{"price", `0.005`, "", "too precise,price,"},
		{"price", `19.999`, "", "too precise,price,"},
		{"price", `12.3400000000`, "12.34", ""},
		{"price", `1.234e1`, "12.34", ""},
		{"about", `12.345`, "12.35", ""},
		{"about", `0.005`, "0.01", ""},
		{"about", `-19.999`, "-20.00", ""},
		{"doc", `{"x":0.10000000000000000000001}`, `{"x":0.10000000000000000000001}`, ""},
		{"doc", `1.10`, "1.10", ""},
		{"doc", `1e2`, "1e2", ""},
		{"doc", `[ 1.0, {"a" : null} ]`, `[ 1.0, {"a" : null} ]`, ""},
		{"d", `9007199254740993`, "9007199254740992.0", ""},
		{"d", `5e-324`, "5e-324", ""},
		{"d", `1e-400`, "", "out of range,d,"},
		{"d", `-1e400`, "", "out of range,d,"},
		{"nested", `[{"price":12.30,"pis":[3.141592653589793238,null],"doc":1.10}]`,
			"[{'price': 12.30, 'pis': [3.141592653589793238, NULL], 'doc': 1.10}]", ""},
		{"nested", `[null,{"price":12.345}]`, "", "too precise,nested,nested[1].price: too precise"},
		{"nested", `[{"pis":[0.1,0.1234567890123456789]}]`, "", "too precise,nested,nested[0].pis[1]: too precise"},
	}
	var records []smelt.Record
	for _, c := range cases {
		records = append(records, value(fmt.Sprintf("\t {\"ts\":\"2026-11-29T12:00:00Z\",%q:%s} \r\n", c.column, c.sent), 1795953601000))
	}
	l.drain(t, records...)
	silver, quarantine := map[string]string{}, map[string]string{}
	for _, r := range l.rows(t, "silver.exact", "_partition_offset,money,pi,whole,price,about,doc,d,nested") {
		offset, rest, _ := strings.Cut(r, ",")
		silver[offset] = strings.Trim(rest, ",")
	}
	for _, r := range l.rows(t, "quarantine.exact", "_partition_offset,reason,field,detail") {
		offset, rest, _ := strings.Cut(r, ",")
		quarantine[offset] = rest
	}
	for i, c := range cases {
		at := fmt.Sprint(i)
		if silver[at] != c.silver || quarantine[at] != c.quarantine {
			t.Errorf("%s %s: silver %q, quarantine %q; want %q, %q", c.column, c.sent, silver[at], quarantine[at], c.silver, c.quarantine)
		}
	}
}

// TestFilesAreInOrder sends events out of order. Some lack their reference row. Each
// file of silver is in the order of the event time.
func TestFilesAreInOrder(t *testing.T) {
	t.Parallel()
	l := open(t, sensors(t))
	var records []smelt.Record
	for i := range 5000 {
		sensor := []string{"hel-001", "nyc-001", "nowhere"}[i%3]
		at := fmt.Sprintf("2026-11-%02dT%02d:%02d:00Z", 28+i%2, i*7%24, i*11%60)
		records = append(records, value(fmt.Sprintf(`{"sensor_id":%q,"temperature":1,"unit":"C","event_time":%q}`, sensor, at), 1795953601000))
	}
	l.drain(t, records...)
	silver, err := l.Parts.Area.Lake.Load(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	current, _ := silver.Current()
	files, err := silver.Files(t.Context(), current.ID)
	if err != nil {
		t.Fatal(err)
	}
	paths, release, err := l.Parts.Area.Fetch(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, path := range paths {
		times, err := l.session.Strings(t.Context(), "SELECT event_time::VARCHAR FROM read_parquet('"+path+"', file_row_number = true) ORDER BY file_row_number")
		if err != nil {
			t.Fatal(err)
		}
		if len(times) != 2500 || !slices.IsSorted(times) {
			t.Errorf("%d rows of a file, sorted: %v; want 2500 in the order of their times", len(times), slices.IsSorted(times))
		}
	}
	if len(paths) != 2 {
		t.Errorf("%d files, want one a day", len(paths))
	}
}
