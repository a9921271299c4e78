package line_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"smelt"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/pipeline"
)

// lake is a lake in memory with a topic of one partition.
type lake struct {
	t *testing.T
	*pipetest.Lake
	session *duck.Session
	bronze  *line.Line // the line that reads the topic: the first one
}

func newLake(t *testing.T) *lake {
	t.Helper()
	db := database(t)
	mem, err := pipetest.NewLake(db, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	session, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(session.Close(), mem.Close()); err != nil {
			t.Error(err)
		}
	})
	l := &lake{t: t, Lake: mem, session: session}
	l.places("integer", int32(7))
	return l
}

// places makes the reference of one row, for a, whose size is of some type.
func (l *lake) places(size string, value any) {
	l.References.Set("places", []smelt.Column{{Name: "id", Type: smelt.Type{Name: "varchar"}}, {Name: "size", Type: smelt.Type{Name: size}}},
		[][]any{{"a", value}})
}

// open opens a line whose silver.sql and models give what is said beside what they
// must.
func (l *lake) open(partition, silver string, models ...string) *line.Line {
	l.t.Helper()
	yml := `source: {kafka: t}
events:
  time: ts
  columns: {id: varchar not null, n: integer, ts: timestamptz not null}
references:
  places: {table: public.places, key: id, on: id}
silver: {partition: ` + partition + `}
`
	if len(models) > 0 {
		yml += "gold:\n"
	}
	files := fstest.MapFS{"p/silver.sql": {Data: []byte("SELECT id, ts, size, " + silver + ", _partition_id, _partition_offset FROM bronze.p LEFT JOIN reference.places USING (id)")}}
	for i, m := range models {
		name, column, _ := strings.Cut(m, ": ")
		yml += fmt.Sprintf("  m%d: {window: 1h, column: %s}\n", i, name)
		files[fmt.Sprintf("p/m%d.sql", i)] = &fstest.MapFile{
			Data: []byte("SELECT date_trunc('hour', ts) AS " + name + ", " + column + " FROM silver.p GROUP BY ALL")}
	}
	files["p/pipeline.yml"] = &fstest.MapFile{Data: []byte(yml)}
	p, err := pipeline.Read(files, "p")
	if err != nil {
		l.t.Fatal(err)
	}
	ln, err := line.Open(l.t.Context(), p, l.Parts)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			l.t.Error(err)
		}
	})
	return ln
}

// prepared opens a line and prepares it.
func (l *lake) prepared(partition, silver string, models ...string) *line.Line {
	l.t.Helper()
	ln := l.open(partition, silver, models...)
	if l.bronze == nil {
		l.bronze = ln
	}
	if err := ln.Prepare(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	return ln
}

// take sends an event of an hour through a line.
func (l *lake) take(ln *line.Line, n, hour int) {
	l.t.Helper()
	l.Topic.Append(smelt.Record{Timestamp: smelt.NoTimestamp, Value: fmt.Appendf(nil, `{"id":"a","n":%d,"ts":"2026-11-29T%02d:00:00Z"}`, n, hour)})
	for _, s := range []smelt.Stage{l.bronze.Bronze, ln.Silver} {
		if _, err := s.Step(l.t.Context()); err != nil {
			l.t.Fatal(err)
		}
	}
	for _, g := range ln.Gold {
		if _, err := g.Step(l.t.Context()); err != nil {
			l.t.Fatal(err)
		}
	}
}

// rows are columns of a table, a text a row.
func (l *lake) rows(name string, columns ...string) string {
	l.t.Helper()
	rows, err := l.Rows(l.t.Context(), l.session, name, columns, "cells")
	if err != nil {
		l.t.Fatal(err)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.Join(r, ",")
	}
	return strings.Join(out, " ")
}

// types are the columns of a table that smelt does not add.
func (l *lake) types(name string) string {
	l.t.Helper()
	t, err := l.Parts.Area.Lake.Load(l.t.Context(), name)
	if err != nil {
		l.t.Fatal(err)
	}
	var out []string
	for _, c := range t.Columns() {
		if !strings.HasPrefix(c.Name, "_") {
			out = append(out, c.Name+" "+c.Type.String())
		}
	}
	return strings.Join(out, ", ")
}

func (l *lake) verify(ln *line.Line) {
	l.t.Helper()
	verdict, err := inspect.Verifier{Area: l.Parts.Area, Duck: l.Parts.Duck}.Verify(l.t.Context(), ln.Pipeline)
	if err != nil || len(verdict.Mismatches) > 0 {
		l.t.Errorf("verify: %v, %v", verdict.Mismatches, err)
	}
}

// TestPrepareRefuses starts a pipeline with columns that its tables cannot take.
func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	ln := l.prepared("day(ts)", "n, n::DOUBLE AS x, n AS Name", "hour: count(*) AS c", "hour: count(*) AS c")
	l.take(ln, 1, 10)

	err := l.open("hour(ts)", "n::VARCHAR AS n, n AS x, n AS name, 1 AS new").Prepare(t.Context())
	const want = `the pipeline's SQL gives columns that silver.p cannot take:
  column n: INTEGER in the table, VARCHAR now
  column x: DOUBLE in the table, INTEGER now
  column name: the table has it as Name, and names that differ only in case are one to most engines
Either cast each column back, or give it another name with AS, or drop the pipeline's tables, which are then computed again from bronze:
  ./bin/smelt drop p`
	if !errors.Is(err, smelt.ErrPipeline) || err.Error() != want {
		t.Errorf("silver: got %v\nwant %s", err, want)
	}
	err = l.open("day(ts)", "n, n::DOUBLE AS x", "hour: count(*)::VARCHAR AS c", "hour: count(*)::DOUBLE AS c").Prepare(t.Context())
	for _, name := range []string{"m0", "m1"} {
		if !errors.Is(err, smelt.ErrPipeline) || !strings.Contains(err.Error(), "./bin/smelt drop gold.p_"+name) {
			t.Errorf("gold: got %v, want what to do about %s", err, name)
		}
	}
	if got, want := l.types("silver.p"), "id VARCHAR, ts TIMESTAMPTZ, size INTEGER, n INTEGER, x DOUBLE, Name INTEGER"; got != want {
		t.Errorf("silver has %s, want it as it was: %s", got, want)
	}
	l.take(ln, 2, 11) // the pipeline of before goes on
	l.verify(ln)
}

// TestReferenceWidens gives a reference's column another type while the line runs.
func TestReferenceWidens(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	ln := l.prepared("day(ts)", "n", "hour: max(size) AS top")
	l.take(ln, 1, 10)
	l.places("bigint", int64(5_000_000_000))
	l.take(ln, 2, 10)
	l.take(ln, 3, 12)
	if got, want := l.rows("silver.p", "n", "size"), "1,7 2,5000000000 3,5000000000"; got != want {
		t.Errorf("silver: got %s, want %s", got, want)
	}
	if got, want := l.rows("gold.p_m0", "hour", "top"), "2026-11-29 10:00:00+00,5000000000 2026-11-29 12:00:00+00,5000000000"; got != want {
		t.Errorf("gold: got %s, want %s", got, want)
	}
	if got, want := l.types("gold.p_m0"), "hour TIMESTAMPTZ, top BIGINT"; got != want {
		t.Errorf("gold has %s, want %s", got, want)
	}
	l.verify(ln)
}

// TestTwoVersionsAtOnce steps a line of an earlier and one of a new pipeline in turn. They do not know of each other.
func TestTwoVersionsAtOnce(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	before := l.prepared("day(ts)", "n, 'x' AS gone", "hour: count(*) AS c")
	l.take(before, 1, 10)
	after := l.prepared("[id, hour(ts)]", "n::BIGINT AS n, id || '!' AS new", "hour: count(*) AS c, max(new) AS new")
	for n := 2; n < 6; n++ {
		l.take([]*line.Line{before, after}[n%2], n, 8+n)
	}
	if got, want := l.types("silver.p"), "id VARCHAR, ts TIMESTAMPTZ, size INTEGER, n BIGINT, gone VARCHAR, new VARCHAR"; got != want {
		t.Errorf("silver has %s, want %s", got, want)
	}
	if got, want := l.rows("silver.p", "n", "gone", "new"), "1,x, 2,x, 3,,a! 4,x, 5,,a!"; got != want {
		t.Errorf("silver: got %s, want %s", got, want)
	}
	t1, err := l.Parts.Area.Lake.Load(t.Context(), "silver.p")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(t1.Partition()); got != "[{identity id} {hour ts}]" {
		t.Errorf("silver is partitioned by %s", got)
	}
	l.take(after, 6, 10)
	l.verify(after)
}

// TestWindowColumnRenamed gives a model's windows another column: what is there
// under the old one goes.
func TestWindowColumnRenamed(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	ln := l.prepared("day(ts)", "n", "hour: count(*) AS c")
	l.take(ln, 1, 10)
	l.take(ln, 2, 11)
	ln = l.prepared("day(ts)", "n", "start: count(*) AS c")
	l.take(ln, 3, 11)
	if got, want := l.rows("gold.p_m0", "start", "hour", "c"), "2026-11-29 10:00:00+00,,1 2026-11-29 11:00:00+00,,2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	l.verify(ln)
}
