package table_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/table"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestFilesWrittenByDuckDB(t *testing.T) {
	t.Parallel()
	l, db := newLake(t), openDuck(t)
	tbl := create(t, l, "silver.sensors", table.Definition{
		Columns: []smelt.Column{
			{Name: "city", Type: smelt.Type{Name: "varchar"}},
			{Name: "event_time", Type: smelt.Type{Name: "timestamptz"}},
			{Name: "value", Type: smelt.Type{Name: "double"}},
			{Name: "price", Type: smelt.Type{Name: "decimal(10,2)"}},
			{Name: "tags", Type: smelt.Type{Name: "list", Elem: &smelt.Type{Name: "varchar"}}},
			{Name: "place", Type: smelt.Type{Name: "struct", Fields: []smelt.Column{{Name: "x", Type: smelt.Type{Name: "integer"}}}}},
			{Name: "born", Type: smelt.Type{Name: "date"}},
		},
		Partition: []smelt.PartitionField{{Transform: "identity", Column: "city"}, {Transform: "day", Column: "event_time"}},
	})
	a := write(t, l, db, tbl, "a", `SELECT 'Espoo' AS city, TIMESTAMPTZ '2026-11-29 10:00:00.25+00' + i * INTERVAL 1 HOUR AS event_time,
		i / 2 AS value, (i + 0.25)::DECIMAL(10,2) AS price, ['a', 'b'] AS tags, {'x': i::INTEGER} AS place, DATE '1969-12-31' AS born FROM range(3) r(i)`,
		map[string]any{"city": "Espoo", "event_time_day": 20786})
	b := write(t, l, db, tbl, "b", `SELECT NULL::VARCHAR AS city, NULL::TIMESTAMPTZ AS event_time, 'nan'::DOUBLE AS value, NULL::DECIMAL(10,2) AS price,
		NULL::VARCHAR[] AS tags, NULL::STRUCT(x INTEGER) AS place, NULL::DATE AS born`,
		map[string]any{"city": nil, "event_time_day": nil})
	commit(t, tbl, table.Change{Add: []table.File{a, b}})

	tbl, err := table.Open(l.store, l.catalog, "s3://lake").Load(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tbl.Files(t.Context(), head(t, tbl))
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v, %v", got, err)
	}
	if got[0].Rows != 3 || got[0].Bytes != a.Bytes || got[0].Key != a.Key {
		t.Errorf("got %+v, want %+v", got[0], a)
	}
	for i, want := range []map[string]any{{"city": "Espoo", "event_time_day": int64(20786)}, {"city": nil, "event_time_day": nil}} {
		if !reflect.DeepEqual(got[i].Partition, want) {
			t.Errorf("partition of %s: got %#v, want %#v", got[i].Key, got[i].Partition, want)
		}
	}
	ranges := []struct {
		file   table.File
		column string
		lo, hi string
	}{
		{got[0], "event_time", "2026-11-29T10:00:00.25Z", "2026-11-29T12:00:00.25Z"},
		{got[0], "born", "1969-12-31T00:00:00Z", "1969-12-31T00:00:00Z"},
		{got[0], "city", "", ""},
		{got[0], "none", "", ""},
		{got[1], "event_time", "", ""},
	}
	for _, r := range ranges {
		lo, hi, ok := r.file.Range(r.column)
		if ok != (r.lo != "") || ok && (!lo.Equal(at(r.lo)) || !hi.Equal(at(r.hi))) {
			t.Errorf("range of %s in %s: got %s to %s, %v, want %q to %q", r.column, r.file.Key, lo, hi, ok, r.lo, r.hi)
		}
	}
	// The ids that the table gave are those in the file.
	path := filepath.Join(t.TempDir(), "a.parquet")
	download(t, l, a.Key, path)
	var ids string
	q := fmt.Sprintf("SELECT string_agg(name || '=' || field_id, ' ') FROM parquet_schema('%s') WHERE field_id IS NOT NULL", path)
	if err := db.QueryRowContext(t.Context(), q).Scan(&ids); err != nil {
		t.Fatal(err)
	}
	if want := "city=1 event_time=2 value=3 price=4 tags=5 element=6 place=7 x=8 born=9"; !sameWords(ids, want) {
		t.Errorf("ids in the file:\n got %s\nwant %s", ids, want)
	}
}

func sameWords(a, b string) bool {
	count := map[string]int{}
	for _, w := range strings.Fields(a) {
		count[w]++
	}
	for _, w := range strings.Fields(b) {
		count[w]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func download(t *testing.T, l lake, key, path string) {
	t.Helper()
	body, _, err := l.store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	cases := map[string]struct {
		bounds smelt.Bounds
		lo, hi string
	}{
		"whole seconds": {smelt.Bounds{Min: "2026-11-29 10:00:00+00", Max: "2026-11-29 11:00:00+00", Known: true}, "2026-11-29T10:00:00Z", "2026-11-29T11:00:00Z"},
		"microseconds":  {smelt.Bounds{Min: "1850-01-01 00:00:00.000001+00", Max: "1969-12-31 23:59:59.999999+00", Known: true}, "1850-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.999999Z"},
		"another zone":  {smelt.Bounds{Min: "2026-11-29 10:00:00+02", Max: "2026-11-29 11:00:00+02", Known: true}, "2026-11-29T08:00:00Z", "2026-11-29T09:00:00Z"},
		"infinity":      {smelt.Bounds{Min: "2026-11-29 10:00:00+00", Max: "infinity", Known: true}, "", ""},
		"a far year":    {smelt.Bounds{Min: "2026-11-29 10:00:00+00", Max: "12026-11-29 10:00:00+00", Known: true}, "", ""},
		"before Christ": {smelt.Bounds{Min: "0044-03-15 (BC) 00:00:00+00", Max: "2026-11-29 10:00:00+00", Known: true}, "", ""},
		"unknown":       {smelt.Bounds{Min: "2026-11-29 10:00:00+00", Max: "2026-11-29 10:00:00+00"}, "", ""},
		"all NULL":      {smelt.Bounds{Known: true, Nulls: 5}, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := tbl.NewFile(smelt.DataFile{Path: "silver/a/data/x.parquet", Rows: 5, Bytes: 5, Columns: map[string]smelt.Bounds{"event_time": c.bounds}})
			if err != nil {
				t.Fatal(err)
			}
			lo, hi, ok := f.Range("event_time")
			if ok != (c.lo != "") || ok && (!lo.Equal(at(c.lo)) || !hi.Equal(at(c.hi))) {
				t.Errorf("got %s to %s, %v, want %q to %q", lo, hi, ok, c.lo, c.hi)
			}
		})
	}
}

func TestIntRange(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	def := readings()
	for _, typ := range []string{"integer", "bigint"} {
		def.Columns = append(def.Columns, smelt.Column{Name: typ, Type: smelt.Type{Name: typ}})
	}
	tbl := create(t, l, "silver.a", def)
	for _, c := range []struct {
		name, column string
		bounds       smelt.Bounds
		lo, hi       int64
		ok           bool
	}{
		{"an offset", "bigint", smelt.Bounds{Min: "0", Max: "1099511627776", Known: true}, 0, 1 << 40, true},
		{"the extremes", "bigint", smelt.Bounds{Min: "-9223372036854775808", Max: "9223372036854775807", Known: true}, math.MinInt64, math.MaxInt64, true},
		{"a partition", "integer", smelt.Bounds{Min: "-3", Max: "7", Known: true}, -3, 7, true},
		{"unknown", "bigint", smelt.Bounds{Min: "0", Max: "1"}, 0, 0, false},
		{"all NULL", "bigint", smelt.Bounds{Known: true, Nulls: 5}, 0, 0, false},
		{"no integer", "value", smelt.Bounds{Min: "1.0", Max: "2.0", Known: true}, 0, 0, false},
	} {
		f, err := tbl.NewFile(smelt.DataFile{Path: "silver/a/data/x.parquet", Rows: 5, Bytes: 5, Columns: map[string]smelt.Bounds{c.column: c.bounds}})
		if err != nil {
			t.Fatal(err)
		}
		if lo, hi, ok := f.IntRange(c.column); ok != c.ok || ok && (lo != c.lo || hi != c.hi) {
			t.Errorf("%s: got %d to %d, %v, want %d to %d, %v", c.name, lo, hi, ok, c.lo, c.hi, c.ok)
		}
		if _, _, ok := f.IntRange("none"); ok {
			t.Error("a column that is not there has a range")
		}
	}
}

// A file knows the snapshot that added it, even if its manifest was rewritten.
func TestFileSnapshot(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	want := map[string]int64{}
	step := func(c table.Change) {
		tbl = commit(t, tbl, c)
		for _, f := range c.Remove {
			delete(want, f.Key)
		}
		for _, f := range c.Add {
			if want[f.Key] = head(t, tbl); f.Snapshot != 0 {
				t.Errorf("%s is of snapshot %d before it is of any", f.Key, f.Snapshot)
			}
		}
	}
	for i := range 45 { // manifests are merged
		c := table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%02d", i), i)}}
		if i%10 == 5 { // and rewritten
			now, err := tbl.Files(t.Context(), head(t, tbl))
			if err != nil {
				t.Fatal(err)
			}
			c.Remove, c.Replace = now[:2], i == 15
		}
		step(c)
	}
	got, err := load(t, l, "silver.a").Files(t.Context(), head(t, tbl))
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %d files, %v, want %d", len(got), err, len(want))
	}
	for _, f := range got {
		if f.Snapshot != want[f.Key] {
			t.Errorf("%s: got snapshot %d, want %d", f.Key, f.Snapshot, want[f.Key])
		}
	}
}

func TestNewFileRefuses(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	def := readings()
	def.Partition = []smelt.PartitionField{{Transform: "day", Column: "event_time"}}
	tbl := create(t, l, "silver.a", def)
	day := map[string]any{"event_time_day": int64(20786)}
	cases := map[string]smelt.DataFile{
		"no rows":              {Path: "a", Bytes: 1, Partition: day},
		"no size":              {Path: "a", Rows: 1, Partition: day},
		"no partition":         {Path: "a", Rows: 1, Bytes: 1},
		"a partition too many": {Path: "a", Rows: 1, Bytes: 1, Partition: map[string]any{"event_time_day": 1, "city": "x"}},
		"a partition's type":   {Path: "a", Rows: 1, Bytes: 1, Partition: map[string]any{"event_time_day": "2026-11-29"}},
		"a day out of range":   {Path: "a", Rows: 1, Bytes: 1, Partition: map[string]any{"event_time_day": int64(1) << 40}},
		"a column":             {Path: "a", Rows: 1, Bytes: 1, Partition: day, Columns: map[string]smelt.Bounds{"nope": {}}},
	}
	for name, f := range cases {
		if _, err := tbl.NewFile(f); err == nil || !strings.Contains(err.Error(), "silver.a") {
			t.Errorf("%s: got %v, want an error that names the table", name, err)
		}
	}
}

func TestPartitionValuesComeBack(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	cases := []struct {
		typ, transform, field string
		value, want           any
	}{
		{"varchar", "identity", "c", "Špoo", "Špoo"},
		{"boolean", "identity", "c", true, true},
		{"integer", "identity", "c", int32(-5), int64(-5)},
		{"bigint", "identity", "c", int64(1) << 40, int64(1) << 40},
		{"date", "identity", "c", at("1969-12-31T00:00:00Z"), at("1969-12-31T00:00:00Z")},
		{"timestamptz", "identity", "c", at("2026-11-29T10:00:00.000001Z"), at("2026-11-29T10:00:00.000001Z")},
		{"timestamptz", "year", "c_year", 56, int64(56)},
		{"timestamptz", "month", "c_month", int64(682), int64(682)},
		{"timestamptz", "day", "c_day", int64(-1), int64(-1)},
		{"timestamptz", "hour", "c_hour", int64(498_000), int64(498_000)},
		{"timestamptz", "hour", "c_hour", nil, nil},
	}
	for i, c := range cases {
		t.Run(c.typ+" "+c.transform, func(t *testing.T) {
			tbl := create(t, l, fmt.Sprintf("silver.t%d", i), table.Definition{
				Columns:   []smelt.Column{{Name: "c", Type: smelt.Type{Name: c.typ}}},
				Partition: []smelt.PartitionField{{Transform: c.transform, Column: "c"}},
			})
			f, err := tbl.NewFile(smelt.DataFile{Path: "silver/x", Rows: 1, Bytes: 1, Partition: map[string]any{c.field: c.value}})
			if err != nil {
				t.Fatal(err)
			}
			tbl = commit(t, tbl, table.Change{Add: []table.File{f}})
			other, err := table.Open(l.store, l.catalog, "s3://lake").Load(t.Context(), tbl.Name())
			if err != nil {
				t.Fatal(err)
			}
			got, err := other.Files(t.Context(), head(t, other))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range append(got, f) {
				if !reflect.DeepEqual(f.Partition, map[string]any{c.field: c.want}) {
					t.Errorf("got %#v, want %#v", f.Partition, c.want)
				}
			}
			if _, err := other.NewFile(smelt.DataFile{Path: "silver/y", Rows: 1, Bytes: 1, Partition: got[0].Partition}); err != nil {
				t.Errorf("the values read do not describe a new file: %v", err)
			}
		})
	}
}

func TestAddColumns(t *testing.T) {
	t.Parallel()
	l, db := newLake(t), openDuck(t)
	before := create(t, l, "silver.a", readings())
	before = commit(t, before, table.Change{Add: []table.File{put(t, l, before, "old", 1)}})
	extra := []smelt.Column{
		{Name: "country", Type: smelt.Type{Name: "varchar"}},
		{Name: "seen", Type: smelt.Type{Name: "list", Elem: &smelt.Type{Name: "date"}}},
	}
	with, err := before.With(extra...)
	if err != nil {
		t.Fatal(err)
	}
	const ids = `{"city": 1, "event_time": 2, "value": 3, "country": 4, "seen": {__duckdb_field_id: 5, element: 6}}`
	if got := with.FieldIDs(); got != ids {
		t.Errorf("ahead of the commit:\n got %s\nwant %s", got, ids)
	}
	f := write(t, l, db, with, "new", `SELECT 'x' AS city, TIMESTAMPTZ '2026-11-29 00:00:00+00' AS event_time, 1.0::DOUBLE AS value, 'FI' AS country, [DATE '2026-11-29'] AS seen`, nil)
	after := commit(t, before, table.Change{Add: []table.File{f}, Columns: extra})
	if got := after.FieldIDs(); got != ids {
		t.Errorf("after the commit:\n got %s\nwant %s", got, ids)
	}
	if got := files(t, after, head(t, after)); got != "new old" {
		t.Errorf("got files %q", got)
	}
	if got := len(before.Columns()); got != 3 {
		t.Errorf("the view of before has %d columns now", got)
	}
	if _, _, ok := f.Range("event_time"); !ok {
		t.Error("the new file has no range")
	}
}
