package upkeep_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/table"
	"smelt/pipeline"
	"smelt/upkeep"
)

const (
	readingsSilver     = "silver.readings"
	readingsQuarantine = "quarantine.readings"
	readingsHourly     = "gold.readings_hourly"
)

// running is a pipeline in memory, over which maintenance runs: readings of
// sensors, by day, and what they add up to by the hour.
type running struct {
	t       *testing.T
	lake    *pipetest.Lake
	line    *line.Line
	config  upkeep.Config
	catalog *table.MemoryCatalog
	swap    *swap
	session *duck.Session
	sent    int
}

func run(t *testing.T) *running {
	t.Helper()
	p, err := pipeline.Read(fstest.MapFS{
		"readings/pipeline.yml": {Data: []byte(`source: {kafka: readings}
events:
  time: ts
  columns: {sensor: varchar not null, v: integer, ts: timestamptz not null}
silver:
  partition: day(ts)
gold:
  hourly: {window: 1h, column: hour}
`)},
		"readings/silver.sql": {Data: []byte("SELECT sensor, v, ts, _partition_id, _partition_offset FROM bronze.readings")},
		"readings/hourly.sql": {Data: []byte("SELECT date_trunc('hour', ts) AS hour, sensor, count(*) AS n, sum(v)::BIGINT AS total FROM silver.readings GROUP BY date_trunc('hour', ts), sensor")},
	}, "readings")
	if err != nil {
		t.Fatal(err)
	}
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, db.Close)
	log := slog.New(slog.DiscardHandler)
	lake, err := pipetest.NewLake(db, 1, log)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, lake.Close)
	area, catalog := &lake.Parts.Area, table.NewMemoryCatalog()
	disturbed := &swap{Catalog: catalog}
	area.Lake = table.Open(area.Store, disturbed, "s3://test")
	r := &running{t: t, lake: lake, catalog: catalog, swap: disturbed, config: upkeep.Config{Pipeline: p, Area: lake.Parts.Area, Duck: db, Locker: lake.Parts.Locker, Log: log}}
	if r.line, err = line.Open(t.Context(), p, lake.Parts); err != nil {
		t.Fatal(err)
	}
	closing(t, r.line.Close)
	if r.session, err = db.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	closing(t, r.session.Close)
	return r
}

// swap is a catalog around whose swaps something may happen.
type swap struct {
	table.Catalog
	before func()
	after  error // in place of the reply
}

func (s *swap) Swap(ctx context.Context, moves ...smelt.Move) error {
	if s.before != nil {
		s.before()
	}
	return cmp.Or(s.Catalog.Swap(ctx, moves...), s.after)
}

func closing(t *testing.T, close func() error) {
	t.Cleanup(func() {
		if err := close(); err != nil {
			t.Error(err)
		}
	})
}

// stream has batches of readings come in, each with one that does not fit, and
// takes each to gold.
func (r *running) stream(batches int) {
	r.t.Helper()
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for range batches {
		var records []smelt.Record
		for range 5 {
			at := day.Add(time.Duration(r.sent) * 10 * time.Minute)
			records = append(records, smelt.Record{Timestamp: at.UnixMilli(), Value: fmt.Appendf(nil, `{"sensor":"s%d","v":%d,"ts":%q}`, r.sent%3, r.sent, at.Format(time.RFC3339))})
			r.sent++
		}
		records = append(records, smelt.Record{Timestamp: day.UnixMilli(), Value: []byte(`{"sensor":"odd"}`)})
		r.lake.Topic.Append(records...)
		r.drain()
	}
}

func (r *running) drain() {
	r.t.Helper()
	if err := pipetest.Drain(r.t.Context(), r.line); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) load(name string) *table.Table {
	r.t.Helper()
	t, err := r.lake.Parts.Area.Lake.Load(r.t.Context(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

func (r *running) head(name string) table.Snapshot {
	r.t.Helper()
	s, ok := r.load(name).Current()
	if !ok {
		r.t.Fatalf("%s has no snapshot", name)
	}
	return s
}

func (r *running) files(name string) []table.File {
	r.t.Helper()
	files, err := r.load(name).Files(r.t.Context(), r.head(name).ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return files
}

// rows are all rows of a table, sorted.
func (r *running) rows(name string) []string {
	r.t.Helper()
	t := r.load(name)
	paths, release, err := r.lake.Parts.Area.Fetch(r.t.Context(), r.files(name))
	if err != nil {
		r.t.Fatal(err)
	}
	defer release()
	rows, err := r.session.Strings(r.t.Context(), "SELECT r::VARCHAR FROM "+duck.ReadParquetFields(t.ParquetSchema(), paths)+" AS r")
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(rows)
	return rows
}

// objects are the keys of all objects.
func (r *running) objects() (keys []string) {
	r.t.Helper()
	const all = 1 << 20
	objects, err := r.config.Area.Store.List(r.t.Context(), "", "", all)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	return keys
}

// plan plans a task at a later time.
func (r *running) plan(task upkeep.Task, in time.Duration) []upkeep.Job {
	r.t.Helper()
	jobs, err := task.Plan(r.t.Context(), time.Now().Add(in))
	if err != nil {
		r.t.Fatal(err)
	}
	return jobs
}

func (r *running) do(jobs []upkeep.Job) (done []upkeep.Done) {
	r.t.Helper()
	for _, j := range jobs {
		d, err := j.Run(r.t.Context())
		if err != nil {
			r.t.Fatalf("%s: %v", j.What, err)
		}
		done = append(done, d)
	}
	return done
}

func whats(jobs []upkeep.Job) string {
	var out []string
	for _, j := range jobs {
		out = append(out, j.What)
	}
	return strings.Join(out, "; ")
}

// hold takes a lock until release is called.
func (r *running) hold(name string) (release func()) {
	r.t.Helper()
	release, err := r.config.Locker.TryLock(context.WithoutCancel(r.t.Context()), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return release
}
