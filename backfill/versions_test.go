package backfill_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"smelt"
	"smelt/backfill"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/table"
	"smelt/pipeline"
)

// version is a pipeline as it was for some time.
type version struct {
	partition string
	silver    string // of silver.sql's SELECT, beside id, ts and the lineage
	gold      string // of hourly.sql's SELECT, beside hour and city
}

func (v version) newPipeline(t *testing.T) *smelt.Pipeline {
	t.Helper()
	yml := `source: {kafka: t}
events:
  time: ts
  columns: {id: varchar not null, city: varchar, n: bigint, x: double, d: "decimal(12,2)", ts: timestamptz not null}
silver: {partition: ` + v.partition + `, unique: [id]}
gold:
  hourly: {window: 1h, column: hour}
`
	p, err := pipeline.Read(fstest.MapFS{
		"p/pipeline.yml": {Data: []byte(yml)},
		"p/silver.sql":   {Data: []byte("SELECT id, ts, " + v.silver + ", _partition_id, _partition_offset FROM bronze.p")},
		"p/hourly.sql":   {Data: []byte("SELECT date_trunc('hour', ts) AS hour, city, " + v.gold + " FROM silver.p GROUP BY ALL")},
	}, "p")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// versions are those of a pipeline that is changed in every way that its tables
// can follow, and in the end back.
func versions() []version {
	return []version{
		{"day(ts)", "city, n::INTEGER AS n, x::FLOAT AS x, d::DECIMAL(5,2) AS d, {'a': n::INTEGER} AS s, [n::INTEGER] AS l", "count(*) AS c, max(n) AS top"},
		{"day(ts)", "city, upper(city) AS label, n::INTEGER AS n, x::FLOAT AS x, d::DECIMAL(5,2) AS d, {'a': n::INTEGER} AS s, [n::INTEGER] AS l",
			"count(*) AS c, max(n) AS top, max(label) AS label"},
		{"day(ts)", "city, upper(city) AS label, n, x, d, {'a': n, 'b': x} AS s, [n, n + 1] AS l", "count(*) AS c, max(n) AS top, max(label) AS label, max(s.b) AS b"},
		{"[city, day(ts)]", "city, upper(city) AS label, n, x, d, {'a': n, 'b': x} AS s, [n, n + 1] AS l", "count(*) AS c, max(n) AS top, max(label) AS label, max(s.b) AS b"},
		{"[n]", "city, n, x, d, {'b': x} AS s, [n, n + 1] AS l", "count(*) AS c, max(n) AS top, max(s.b) AS b"},
		{"day(ts)", "lower(city) AS label, city, n, x, x::FLOAT AS y, d, {'a': n, 'b': x} AS s, [n, n + 1] AS l", "count(*) AS c, (max(n) % 1000)::INTEGER AS top, max(label) AS label, max(s.b) AS b"},
	}
}

// eras is a lake in memory on which one version of a pipeline follows another.
type eras struct {
	t *testing.T
	*pipetest.Lake
	*line.Line
	session *duck.Session
}

func newEras(t *testing.T, db *duck.DB) *eras {
	t.Helper()
	lake, err := pipetest.NewLake(db, 2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	session, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := &eras{t: t, Lake: lake, session: session}
	t.Cleanup(func() {
		if err := errors.Join(h.Line.Close(), session.Close(), lake.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// start goes on with another version, as `smelt run` does.
func (h *eras) start(v version) {
	h.t.Helper()
	if h.Line != nil {
		if err := h.Line.Close(); err != nil {
			h.t.Fatal(err)
		}
	}
	var err error
	if h.Line, err = line.Open(h.t.Context(), v.newPipeline(h.t), h.Parts); err != nil {
		h.t.Fatal(err)
	}
	if err := h.Prepare(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// events of one version: on time and late, some of them repeated, one that repeats
// an event of the version before and one that does not fit. From the third version
// on there are values that narrower types cannot hold.
func events(v int) []smelt.Record {
	n := 10 * v
	if v >= 2 {
		n += 5_000_000_000
	}
	var out []smelt.Record
	event := func(id string, city, n, x, d any, at string) {
		out = append(out, smelt.Record{
			Partition: int32(len(out) % 2), Timestamp: smelt.NoTimestamp,
			Value: fmt.Appendf(nil, `{"id":%q,"city":%v,"n":%v,"x":%v,"d":%v,"ts":"2026-11-%s:00Z"}`, id, city, n, x, d, at),
		})
	}
	for i := range 6 {
		city := []string{`"Espoo"`, `"Oulu"`, "null"}[i%3]
		event(fmt.Sprintf("%d-%d", v, i), city, n+i%2, 0.1+float64(v), 1.25, fmt.Sprintf("%02dT%02d:%02d", 20+v, 10+i/2, i))
		if i%2 == 0 {
			event(fmt.Sprintf("%d-%d", v, i), city, n+i%2, 0.1+float64(v), 1.25, fmt.Sprintf("%02dT%02d:%02d", 20+v, 10+i/2, i))
		}
	}
	event(fmt.Sprintf("late-%d", v), `"Espoo"`, n, "null", "null", "20T10:30")
	if v > 0 {
		event(fmt.Sprintf("%d-1", v-1), `"Oulu"`, n, 0.5, 0.5, fmt.Sprintf("%02dT10:01", 20+v-1))
	}
	event("bad", `"Espoo"`, `"one"`, 0, 0, "20T10:30")
	return out
}

func (h *eras) send(v int) {
	h.t.Helper()
	h.Topic.Append(events(v)...)
	if err := pipetest.Drain(h.t.Context(), h.Line); err != nil {
		h.t.Fatal(err)
	}
}

// correct runs a backfill, and brings gold up.
func (h *eras) correct(scope backfill.Scope) backfill.Result {
	h.t.Helper()
	j, err := backfill.Open(h.t.Context(), line.SilverConfig(h.Pipeline, h.Parts), scope)
	if err != nil {
		h.t.Fatal(err)
	}
	result, err := j.Run(h.t.Context(), nil)
	if err := errors.Join(err, j.Close()); err != nil {
		h.t.Fatal(err)
	}
	if err := pipetest.Drain(h.t.Context(), h.Line); err != nil {
		h.t.Fatal(err)
	}
	return result
}

// rows are those of a table, without the columns that say how they came to be.
func (h *eras) rows(name, order string, columns []string) []string {
	h.t.Helper()
	rows, err := h.Rows(h.t.Context(), h.session, name, columns, order)
	if err != nil {
		h.t.Fatal(err)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.Join(r, "|")
	}
	return out
}

// verify recounts the lake.
func (h *eras) verify(what string) {
	h.t.Helper()
	verdict, err := inspect.Verifier{Area: h.Parts.Area, Duck: h.Parts.Duck}.Verify(h.t.Context(), h.Pipeline)
	if err != nil || len(verdict.Mismatches) > 0 {
		h.t.Fatalf("%s: verify: %v, %v", what, verdict.Mismatches, err)
	}
}

func (h *eras) load(name string) *table.Table {
	h.t.Helper()
	tbl, err := h.Parts.Area.Lake.Load(h.t.Context(), name)
	if err != nil {
		h.t.Fatal(err)
	}
	return tbl
}

// specs counts the files of silver by their partitioning.
func (h *eras) specs() map[int]int {
	h.t.Helper()
	tbl := h.load("silver.p")
	current, _ := tbl.Current()
	files, err := tbl.Files(h.t.Context(), current.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[int]int{}
	for _, f := range files {
		out[f.Spec]++
	}
	return out
}

var (
	silverColumns     = []string{"_partition_id", "_partition_offset", "id", "ts", "label", "city", "n", "x", "y", "d", "s", "l"}
	quarantineColumns = []string{"_partition_id", "_partition_offset", "reason", "field", "detail"}
	goldColumns       = []string{"hour", "city", "c", "top", "label", "b"}
)

// TestVersions changes a pipeline again and again while events come in. In the end
// everything is replayed, and the tables are as a fresh line of the last version
// makes them of the same events.
func TestVersions(t *testing.T) {
	t.Parallel()
	db, err := duck.Open(duck.Config{MemoryBytes: duckBytes, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	h, fresh := newEras(t, db), newEras(t, db)
	all := versions()
	for i, v := range all {
		h.start(v)
		h.send(i)
		h.verify(fmt.Sprintf("version %d", i+1))
		if i == 1 {
			labels := h.rows("silver.p", "ts, _partition_id, _partition_offset", []string{"label"})
			if !slices.Contains(labels, "") || !slices.Contains(labels, "OULU") {
				t.Errorf("labels %q: want old rows without, new ones with", labels)
			}
		}
		if i == 3 { // rows of a partitioning of before follow the one of now
			h.correct(backfill.Scope{Where: "city = 'Oulu' AND ts < '2026-11-21'"})
			h.verify("after a correction")
		}
		if i == 4 {
			labels := h.rows("silver.p", "_ingested_at DESC, _partition_id, _partition_offset", []string{"label"})
			if labels[0] != "" || !slices.Contains(labels, "OULU") {
				t.Errorf("labels %q: want none in the newest row, and those of before", labels)
			}
		}
	}
	if specs := h.specs(); len(specs) < 3 {
		t.Errorf("silver's files by partitioning: %v, want three and more", specs)
	}
	if got := h.load("silver.p").Columns(); len(got) != len(silverColumns)+4 { // smelt's own
		t.Errorf("silver has the columns %v", got)
	}
	if result := h.correct(backfill.Scope{All: true}); !result.Published || result.Differing == 0 {
		t.Errorf("the backfill of everything: %+v", result)
	}
	h.verify("in the end")
	if result := h.correct(backfill.Scope{All: true}); result.Differs {
		t.Errorf("a second backfill of everything: %+v", result)
	}

	fresh.start(all[len(all)-1])
	for i := range all {
		fresh.Topic.Append(events(i)...)
	}
	if err := pipetest.Drain(t.Context(), fresh.Line); err != nil {
		t.Fatal(err)
	}
	for _, tbl := range []struct {
		name, order string
		columns     []string
	}{
		{"silver.p", "_partition_id, _partition_offset", silverColumns},
		{"quarantine.p", "_partition_id, _partition_offset", quarantineColumns},
		{"gold.p_hourly", "hour, city", goldColumns},
	} {
		got, want := h.rows(tbl.name, tbl.order, tbl.columns), fresh.rows(tbl.name, tbl.order, tbl.columns)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", tbl.name, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
}
