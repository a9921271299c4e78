package silver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"smelt"
	"smelt/pipeline"
)

// throwing is a pipeline whose silver.sql and expectation throw on some values.
func throwing(t *testing.T, sql string) *smelt.Pipeline {
	t.Helper()
	p, err := pipeline.Read(fstest.MapFS{
		"sensors/pipeline.yml": {Data: []byte(`source: {kafka: t}
events:
  time: ts
  columns: {ts: timestamptz not null, v: varchar}
silver:
  expect: {"in range": "CASE WHEN v = 'odd' THEN CAST(v AS BOOLEAN) ELSE true END"}
`)},
		"sensors/silver.sql": {Data: []byte(sql)},
	}, "sensors")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// event has a value in the column v.
func event(v string) smelt.Record {
	return value(fmt.Sprintf(`{"ts":"2026-11-29T12:00:00Z","v":%q}`, v), 1795953601000)
}

const (
	casts     = "SELECT ts, v, CAST(v AS INTEGER) + 1 AS n, _partition_id, _partition_offset FROM bronze.sensors"
	plain     = "SELECT ts, v, _partition_id, _partition_offset FROM bronze.sensors"
	notNeeded = "SELECT ts, v, v AS w, strptime(v, '%Y') AS year, _partition_id, _partition_offset FROM bronze.sensors" // no judgement reads year
)

// A record on which SQL throws goes to quarantine with DuckDB's message, and the others
// go on.
func TestSQLThrows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sql string
		values    []string
		good      []string // offsets
		rejects   []string // offset and the beginning of the detail
	}{
		{"a cast", casts, []string{"1", "abc", "3", "2147483647", "5", "odd"}, []string{"0", "2", "4"},
			[]string{"1,Conversion Error: Could not convert string 'abc' to INT32", "3,Out of Range Error: Overflow in addition", "5,Conversion Error"}},
		{"the expectation alone", plain, []string{"2001", "odd"}, []string{"0"}, []string{"1,Conversion Error: Could not convert string 'odd' to BOOL"}},
		{"a column that is only written", notNeeded, []string{"2001", "x", "2003"}, []string{"0", "2"}, []string{"1,Invalid Input Error"}},
		{"the only record of a step", casts, []string{"abc"}, nil, []string{"0,Conversion Error"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := open(t, throwing(t, c.sql))
			var records []smelt.Record
			for _, v := range c.values {
				records = append(records, event(v))
			}
			l.drain(t, records...)
			same(t, "silver", l.rows(t, "silver.sensors", "_partition_offset"), c.good)
			got := l.rows(t, "quarantine.sensors", "_partition_offset,detail")
			if len(got) != len(c.rejects) {
				t.Fatalf("quarantine has %q, want %q", got, c.rejects)
			}
			for i, want := range c.rejects {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("quarantine has %q, want %q", got[i], want)
				}
			}
			for _, reason := range l.rows(t, "quarantine.sensors", "reason") {
				if reason != "sql error" {
					t.Errorf("the reason is %q", reason)
				}
			}
		})
	}
}

// SQL that fails without any record, or on each of many, is broken: nothing is committed.
func TestSQLBroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, want string }{
		"on all":     {casts, "it fails on each of 100 records, such as 0:"},
		"on nothing": {"SELECT ts, v, CAST('abc' AS INTEGER) AS n, _partition_id, _partition_offset FROM bronze.sensors", "Could not convert string 'abc'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, throwing(t, c.sql))
			for range 300 {
				l.Topic.Append(event("abc"))
			}
			if _, err := l.Bronze.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := l.Silver.Step(t.Context())
			if !errors.Is(err, smelt.ErrPipeline) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if n := len(l.rows(t, "quarantine.sensors", "reason")); n > 0 {
				t.Errorf("%d records are in quarantine", n)
			}
		})
	}
}

// Among many records a few bad ones are found.
func TestSQLThrowsAmongMany(t *testing.T) {
	t.Parallel()
	l := open(t, throwing(t, casts))
	bad := 0
	for i := range 5000 {
		v := fmt.Sprint(i)
		if i%700 == 3 {
			v, bad = "abc", bad+1
		}
		l.Topic.Append(event(v))
	}
	l.drain(t)
	if n, m := len(l.rows(t, "silver.sensors", "n")), len(l.rows(t, "quarantine.sensors", "reason")); n != 5000-bad || m != bad {
		t.Errorf("%d rows and %d rejects, want %d and %d", n, m, 5000-bad, bad)
	}
}

// A reference key of another type than the event's column is compared by value. A text that is not a number
// matches no row, and no record stops the line.
func TestKeysOfOtherTypes(t *testing.T) {
	t.Parallel()
	number, words := smelt.Type{Name: "bigint"}, smelt.Type{Name: "varchar"}
	for _, c := range []struct {
		name, declared, join string
		key                  smelt.Type
		rows                 [][]any
		values               []string
		want                 []string
	}{
		{"text and numbers", "varchar", "TRY_CAST(v AS BIGINT) = key", number, [][]any{{int64(1), "one"}, {int64(2), "two"}},
			[]string{`"1"`, `"abc"`, `"02"`, `"9"`}, []string{"0,one,", "1,,r", "2,two,", "3,,r"}},
		{"numbers and text", "bigint", "v::VARCHAR = key", words, [][]any{{"1", "one"}, {"abc", "x"}},
			[]string{`1`, `2`}, []string{"0,one,", "1,,r"}},
		{"a boolean and numbers", "boolean", "v::BIGINT = key", number, [][]any{{int64(1), "one"}},
			[]string{`true`, `false`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := pipeline.Read(fstest.MapFS{
				"sensors/pipeline.yml": {Data: []byte("source: {kafka: t}\nevents: {time: ts, columns: {ts: timestamptz not null, v: " + c.declared + "}}\nreferences: {r: {table: public.r, key: key, on: v}}\n")},
				"sensors/silver.sql":   {Data: []byte("SELECT ts, v, name, _partition_id, _partition_offset FROM bronze.sensors LEFT JOIN reference.r ON " + c.join)},
			}, "sensors")
			if err != nil {
				t.Fatal(err)
			}
			l := open(t, p)
			l.References.Set("r", []smelt.Column{{Name: "key", Type: c.key}, {Name: "name", Type: words}}, c.rows)
			var records []smelt.Record
			for _, v := range c.values {
				records = append(records, value(`{"ts":"2026-11-29T12:00:00Z","v":`+v+`}`, 1795953601000))
			}
			l.drain(t, records...)
			if got := l.rows(t, "silver.sensors", "_partition_offset,name,_unmatched"); c.want != nil {
				same(t, "silver", got, c.want)
			} else if len(got) != len(c.values) {
				t.Errorf("silver has %q", got)
			}
		})
	}
}
