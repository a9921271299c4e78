package backfill_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/bronze"
	"smelt/gold"
	"smelt/ingest"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
	"smelt/pipeline"
	"smelt/silver"
)

const (
	cacheBytes = 64 << 20 // of a process: more than any test has
	duckBytes  = 1 << 30
	recordMax  = 1 << 10

	silverName     = "silver.readings"
	quarantineName = "quarantine.readings"
	goldName       = "gold.readings_hourly"

	silverSQL = `SELECT id, sensor_id, v::BIGINT AS v, ts, city, _partition_id, _partition_offset
FROM bronze.readings LEFT JOIN reference.locations USING (sensor_id)`
	hourlySQL = `SELECT date_trunc('hour', ts) AS hour, city, count(*) AS n, sum(v)::BIGINT AS total
FROM silver.readings GROUP BY date_trunc('hour', ts), city`
)

// newPipeline makes the pipeline readings: values of sensors with the city of each,
// a day of them a file. The lines stand under silver in pipeline.yml.
func newPipeline(t *testing.T, lines ...string) *smelt.Pipeline {
	t.Helper()
	yml := `source: {kafka: readings}
events:
  time: ts
  watermark: 10m
  columns: {id: varchar not null, sensor_id: varchar not null, v: integer, ts: timestamptz not null}
references:
  locations: {table: public.locations, key: sensor_id, on: sensor_id}
silver:
  partition: day(ts)
  ` + strings.Join(lines, "\n  ") + `
gold:
  hourly: {window: 1h, column: hour}
`
	p, err := pipeline.Read(fstest.MapFS{
		"readings/pipeline.yml": {Data: []byte(yml)},
		"readings/silver.sql":   {Data: []byte(silverSQL)},
		"readings/hourly.sql":   {Data: []byte(hourlySQL)},
	}, "readings")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// world is what outlives processes: the lake, and what feeds it. Its tables are
// read through a process of its own, so that no other one sees the calls.
type world struct {
	t        *testing.T
	pipeline *smelt.Pipeline
	objects  *store.Memory
	catalog  *table.MemoryCatalog
	refs     *pipetest.References
	locks    smelt.Locker
	topic    *ingest.Log
	sent     map[int32]int64 // records, by partition
	duck     *duck.DB
	session  *duck.Session

	bronze *bronze.Writer
	silver *silver.Stage // nil until it is asked for
	eyes   *process
}

// setup makes a lake without records, in which hel-001 is in Espoo and nyc-001 in
// New York.
func setup(t *testing.T, p *smelt.Pipeline) *world {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: duckBytes, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, pipeline: p, objects: store.NewMemory(), catalog: table.NewMemoryCatalog(), refs: pipetest.NewReferences(),
		locks: pipetest.NewLocks(), topic: ingest.NewLog(2), sent: map[int32]int64{}, duck: db,
	}
	w.closing(db.Close)
	w.locate("hel-001=Espoo", "nyc-001=New York")
	if w.session, err = db.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.closing(w.session.Close)
	w.start()
	return w
}

// start makes what a lake is fed by and looked at with.
func (w *world) start() {
	w.silver, w.eyes = nil, w.process()
	w.bronze = bronze.NewWriter(bronze.Config{
		Pipeline: w.pipeline.Name, Store: w.objects, Log: slog.New(slog.DiscardHandler),
		RecordMax: recordMax, Flush: time.Millisecond, // nobody waits for company
		Open: func(_ context.Context, resume smelt.Resume) (smelt.Source, error) { return w.topic.Open(resume), nil },
	})
}

func (w *world) closing(close func() error) {
	w.t.Cleanup(func() {
		if err := close(); err != nil {
			w.t.Error(err)
		}
	})
}

// locate replaces the reference table: "hel-001=Espoo", or with a note, which
// silver.sql does not use, "hel-001=Espoo=by the sea".
func (w *world) locate(sensors ...string) { locate(w.refs, sensors...) }

func locate(refs *pipetest.References, sensors ...string) {
	var columns []smelt.Column
	for _, name := range []string{"sensor_id", "city", "note"} {
		columns = append(columns, smelt.Column{Name: name, Type: smelt.Type{Name: "varchar"}})
	}
	rows := make([][]any, len(sensors))
	for i, s := range sensors {
		f := strings.Split(s+"=", "=")
		rows[i] = []any{f[0], f[1], f[2]}
	}
	refs.Set("locations", columns, rows)
}

// reading is a record: "a hel-001 7 2026-11-01T12:00:00Z", in partition 1 when
// it begins with "1/".
func reading(text string) smelt.Record {
	text, second := strings.CutPrefix(text, "1/")
	f := strings.Fields(text)
	r := smelt.Record{Timestamp: smelt.NoTimestamp, Value: fmt.Appendf(nil, `{"id":%q,"sensor_id":%q,"v":%s,"ts":%q}`, f[0], f[1], f[2], f[3])}
	if second {
		r.Partition = 1
	}
	return r
}

// add takes readings into silver: one object a partition, one file a day.
func (w *world) add(readings ...string) {
	w.t.Helper()
	if w.silver == nil {
		w.silver = w.stage(w.process())
	}
	w.take(w.silver, readings...)
}

// take takes readings into silver by a stage.
func (w *world) take(s *silver.Stage, readings ...string) {
	w.t.Helper()
	w.receive(readings...)
	for more := true; more; {
		p, err := s.Step(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		more = p.More
	}
}

// receive takes readings into bronze.
func (w *world) receive(readings ...string) {
	w.t.Helper()
	for _, text := range readings {
		r := reading(text)
		w.topic.Append(r)
		w.sent[r.Partition]++
	}
	for more := true; more; {
		p, err := w.bronze.Step(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		more = p.Records > 0
	}
}

// stage opens the silver stage of a process.
func (w *world) stage(p *process) *silver.Stage {
	w.t.Helper()
	s, err := silver.Open(w.t.Context(), line.SilverConfig(p.pipeline, p.Parts))
	if err != nil {
		w.t.Fatal(err)
	}
	w.closing(s.Close)
	return s
}

// behind is a stage that has references of its own, which were so often set: it
// was held up since it read them, and has lost its lock.
func (w *world) behind(version int64, sensors ...string) *silver.Stage {
	w.t.Helper()
	refs := pipetest.NewReferences()
	for range version {
		locate(refs, sensors...)
	}
	p := w.process()
	p.Parts.References, p.Parts.Locker = refs, free{}
	return w.stage(p)
}

// refresh brings gold up to silver.
func (w *world) refresh() {
	w.t.Helper()
	for _, g := range w.gold(w.process()) {
		if _, err := g.Step(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// gold opens the gold stages of a process.
func (w *world) gold(p *process) []*gold.Stage {
	w.t.Helper()
	stages, err := line.OpenGold(w.t.Context(), p.pipeline, p.Parts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.closing(func() error { return line.CloseGold(stages) })
	return stages
}

// process is a process over the lake: it has a cache and a view of the tables of
// its own, and its calls of the store are noted.
type process struct {
	pipetest.Lake
	pipeline *smelt.Pipeline

	mu    sync.Mutex
	calls []store.Op
	fault func(store.Op) store.Fault // nil: none
	reach func(step string) error    // of its backfills; nil: none
}

func (w *world) process() *process {
	w.t.Helper()
	p := &process{pipeline: w.pipeline}
	objects := store.NewFaulty(w.objects, p.call)
	cache, err := store.NewCache(objects, w.t.TempDir(), cacheBytes)
	if err != nil {
		w.t.Fatal(err)
	}
	p.Parts = line.Parts{
		Area: staging.Area{Store: objects, Lake: table.Open(objects, w.catalog, "s3://test"), Cache: cache},
		Duck: w.duck, References: w.refs, Locker: w.locks, Log: slog.New(slog.DiscardHandler),
	}
	return p
}

func (p *process) call(op store.Op) store.Fault {
	p.mu.Lock()
	p.calls = append(p.calls, op)
	fault := p.fault
	p.mu.Unlock()
	if fault == nil {
		return store.None
	}
	return fault(op)
}

// open makes a job.
func (w *world) open(p *process, scope backfill.Scope) *backfill.Job {
	w.t.Helper()
	job, err := backfill.Open(w.t.Context(), line.SilverConfig(p.pipeline, p.Parts), scope)
	if err != nil {
		w.t.Fatal(err)
	}
	if p.reach != nil {
		job.SetReach(p.reach)
	}
	w.closing(job.Close)
	return job
}

// run does a backfill in a process of its own.
func (w *world) run(scope backfill.Scope) backfill.Result {
	w.t.Helper()
	r, err := w.open(w.process(), scope).Run(w.t.Context(), nil)
	if err != nil {
		w.t.Fatalf("%s: %v", scope, err)
	}
	return r
}

// keys are the distinct keys of the calls of a name that begin with a prefix.
func (p *process) keys(name, prefix string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []string
	for _, op := range p.calls {
		if op.Name == name && strings.HasPrefix(op.Key, prefix) {
			keys = append(keys, op.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// free gives every lock to everyone.
type free struct{}

func (free) TryLock(context.Context, string) (func(), error) { return func() {}, nil }
func (free) Lock(context.Context, string) (func(), error)    { return func() {}, nil }
