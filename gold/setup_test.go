package gold_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/table"
	"smelt/pipeline"
	"smelt/silver"
)

const (
	hourly = `SELECT date_trunc('hour', ts) AS hour, city, count(*) AS n, sum(v) AS total
FROM silver.p GROUP BY date_trunc('hour', ts), city`
	minutes = `SELECT date_trunc('minute', ts) AS hour, count(*) AS n FROM silver.p GROUP BY date_trunc('minute', ts)`
	daily   = `SELECT ts::DATE AS hour, city, max(v) AS top FROM silver.p GROUP BY ts::DATE, city`
	weeks   = `SELECT time_bucket(INTERVAL 7 DAY, ts, TIMESTAMPTZ '1970-01-01 00:00:00+00') AS hour, count(*) AS n
FROM silver.p GROUP BY time_bucket(INTERVAL 7 DAY, ts, TIMESTAMPTZ '1970-01-01 00:00:00+00')`
)

// model is a gold table of the pipeline p, whose window's column is hour.
type model struct{ name, window, sql string }

// newPipeline makes the pipeline p: readings v of cities, a day of them a file.
func newPipeline(t *testing.T, models ...model) *smelt.Pipeline {
	t.Helper()
	yml := `source: {kafka: t}
events:
  time: ts
  columns: {city: varchar, v: integer, ts: timestamptz not null}
silver: {partition: day(ts)}
gold:
`
	fsys := fstest.MapFS{"p/silver.sql": {Data: []byte("SELECT city, v, ts, _partition_id, _partition_offset FROM bronze.p")}}
	for _, m := range models {
		yml += fmt.Sprintf("  %s: {window: %s, column: hour}\n", m.name, m.window)
		fsys["p/"+m.name+".sql"] = &fstest.MapFile{Data: []byte(m.sql)}
	}
	fsys["p/pipeline.yml"] = &fstest.MapFile{Data: []byte(yml)}
	p, err := pipeline.Read(fsys, "p")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lake is a line in memory whose tables a test reads and changes.
type lake struct {
	t *testing.T
	*pipetest.Lake
	*line.Line
	session *duck.Session
}

// open makes a line with some models.
func open(t *testing.T, models ...model) *lake {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := pipetest.NewLake(db, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	session, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := &lake{t: t, Lake: mem, session: session}
	l.restart(models...)
	t.Cleanup(func() {
		for _, c := range []func() error{session.Close, l.Line.Close, mem.Close, db.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	return l
}

// restart opens the line again, with other models.
func (l *lake) restart(models ...model) {
	l.t.Helper()
	if l.Line != nil {
		if err := l.Line.Close(); err != nil {
			l.t.Fatal(err)
		}
	}
	var err error
	if l.Line, err = line.Open(l.t.Context(), newPipeline(l.t, models...), l.Parts); err != nil {
		l.t.Fatal(err)
	}
}

// reading is an event: "Espoo 7 2026-11-29T12:00:00Z". The city - is NULL.
func reading(text string) smelt.Record {
	f := strings.Fields(text)
	city := fmt.Sprintf("%q", f[0])
	if f[0] == "-" {
		city = "null"
	}
	return smelt.Record{Timestamp: smelt.NoTimestamp, Value: fmt.Appendf(nil, `{"city":%s,"v":%s,"ts":%q}`, city, f[1], f[2])}
}

// add takes readings into silver.
func (l *lake) add(readings ...string) {
	l.t.Helper()
	records := make([]smelt.Record, len(readings))
	for i, r := range readings {
		records[i] = reading(r)
	}
	l.take(records...)
}

// take takes records into silver.
func (l *lake) take(records ...smelt.Record) {
	l.t.Helper()
	l.Topic.Append(records...)
	stages := l.Line.Gold
	l.Line.Gold = nil
	defer func() { l.Line.Gold = stages }()
	if err := pipetest.Drain(l.t.Context(), l.Line); err != nil {
		l.t.Fatal(err)
	}
}

// refresh steps the models, and makes sure that gold is what the SQL gives over
// all of silver. It returns the windows that were recomputed.
func (l *lake) refresh() (windows int64) {
	l.t.Helper()
	for _, g := range l.Line.Gold {
		p, err := g.Step(l.t.Context())
		if err != nil {
			l.t.Fatal(err)
		}
		windows += p.Records
		l.check(g)
	}
	return windows
}

// check compares a gold table with its SQL over silver.
func (l *lake) check(g *gold.Stage) {
	l.t.Helper()
	silverTable, goldTable := l.load(silver.TableName("p")), l.load(g.Name())
	silverPaths, release := l.fetch(silverTable)
	defer release()
	goldPaths, release := l.fetch(goldTable)
	defer release()
	if err := l.session.Exec(l.t.Context(),
		"CREATE OR REPLACE VIEW silver.p AS FROM "+duck.ReadParquet(silverTable.Columns(), silverPaths),
		"CREATE OR REPLACE VIEW work.want AS "+g.Model.SQL,
		"CREATE OR REPLACE VIEW work.got AS SELECT * EXCLUDE (_revision, _computed_at) FROM "+duck.ReadParquet(goldTable.Columns(), goldPaths)); err != nil {
		l.t.Fatal(err)
	}
	described, err := l.session.Describe(l.t.Context(), "FROM work.want")
	if err != nil {
		l.t.Fatal(err)
	}
	var columns []string
	for _, c := range described {
		columns = append(columns, duck.Quote(c.Name))
	}
	list := strings.Join(columns, ", ")
	diff, err := l.session.Strings(l.t.Context(), fmt.Sprintf(`SELECT side || (r::VARCHAR) FROM (
		SELECT 'missing ' AS side, r FROM (SELECT %[1]s FROM work.want EXCEPT ALL SELECT %[1]s FROM work.got) AS r
		UNION ALL
		SELECT 'too much ', r FROM (SELECT %[1]s FROM work.got EXCEPT ALL SELECT %[1]s FROM work.want) AS r) LIMIT 10`, list))
	if err != nil {
		l.t.Fatal(err)
	}
	if len(diff) > 0 {
		l.t.Fatalf("%s is not its SQL over silver:\n%s", g.Name(), strings.Join(diff, "\n"))
	}
}

func (l *lake) load(name string) *table.Table {
	l.t.Helper()
	tbl, err := l.Parts.Area.Lake.Load(l.t.Context(), name)
	if err != nil {
		l.t.Fatal(err)
	}
	return tbl
}

func (l *lake) files(tbl *table.Table) []table.File {
	l.t.Helper()
	current, ok := tbl.Current()
	if !ok {
		return nil
	}
	files, err := tbl.Files(l.t.Context(), current.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	return files
}

func (l *lake) fetch(tbl *table.Table) (paths []string, release func()) {
	l.t.Helper()
	paths, release, err := l.Parts.Area.Fetch(l.t.Context(), l.files(tbl))
	if err != nil {
		l.t.Fatal(err)
	}
	return paths, release
}

// commit changes silver, as another job does.
func (l *lake) commit(change func(tbl *table.Table, files []table.File) table.Change) {
	l.t.Helper()
	tbl := l.load("silver.p")
	before, _, _, err := ledger.Read[ledger.Silver](tbl)
	if err != nil {
		l.t.Fatal(err)
	}
	c := change(tbl, l.files(tbl))
	if !c.Replace { // compaction knows nothing of a ledger
		if err := ledger.Write(&c, before); err != nil {
			l.t.Fatal(err)
		}
	}
	if _, err := tbl.Commit(l.t.Context(), c); err != nil {
		l.t.Fatal(err)
	}
}

// state is what gold has: its rows by window, with all their columns, its files
// by day, and its ledger.
type state struct {
	rows   map[string]string
	files  map[string]string
	ledger ledger.Gold
	commit int64
}

func (l *lake) state(name string) state {
	l.t.Helper()
	tbl := l.load("gold.p_" + name)
	s := state{rows: map[string]string{}, files: map[string]string{}}
	var columns []string
	for _, c := range tbl.Columns() {
		columns = append(columns, c.Name)
	}
	rows, err := l.Rows(l.t.Context(), l.session, tbl.Name(), columns, "cells")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, r := range rows {
		s.rows[r[0]] += strings.Join(r[1:], ",") + "\n"
	}
	for _, f := range l.files(tbl) {
		day := fmt.Sprint(f.Partition["hour_day"])
		if s.files[day] != "" {
			l.t.Errorf("%s has two files of day %s", tbl.Name(), day)
		}
		s.files[day] = f.Key
	}
	if s.ledger, _, _, err = ledger.Read[ledger.Gold](tbl); err != nil {
		l.t.Fatal(err)
	}
	current, _ := tbl.Current()
	s.commit = current.ID
	return s
}

// changed lists the keys whose values differ.
func changed(before, after map[string]string) []string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if before[k] != after[k] {
			out = append(out, k)
		}
	}
	return out
}

// same compares lists.
func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// day is a partition value of gold: days since 1970.
func day(text string) string {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(at.Unix() / (24 * 60 * 60))
}
