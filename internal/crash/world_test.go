package crash_test

import (
	"fmt"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/ingest"
	"smelt/internal/duck"
	"smelt/internal/pipetest"
	"smelt/internal/store"
	"smelt/internal/table"
	"smelt/pipeline"
)

const (
	partitions = 2
	flush      = 10 * time.Millisecond // of bronze, in the bubble's time

	silverName     = "silver.readings"
	quarantineName = "quarantine.readings"
	goldName       = "gold.readings_hourly"
)

// newPipeline is that of the scenario: values of sensors with the city of each, a day
// of them a file, each id once, none from nowhere.
func newPipeline() (*smelt.Pipeline, error) {
	return pipeline.Read(fstest.MapFS{
		"readings/pipeline.yml": {Data: []byte(`source: {kafka: readings}
events:
  time: ts
  watermark: 10m
  columns: {id: varchar not null, sensor_id: varchar not null, v: integer, ts: timestamptz not null}
references:
  locations: {table: public.locations, key: sensor_id, on: sensor_id}
silver:
  partition: day(ts)
  unique: [id]
  expect: {somewhere: city IS DISTINCT FROM 'Nowhere'}
gold:
  hourly: {window: 1h, column: hour}
`)},
		"readings/silver.sql": {Data: []byte(`SELECT id, sensor_id, v::BIGINT AS v, ts, city, _partition_id, _partition_offset
FROM bronze.readings LEFT JOIN reference.locations USING (sensor_id)`)},
		"readings/hourly.sql": {Data: []byte(`SELECT date_trunc('hour', ts) AS hour, city, count(*) AS n, sum(v)::BIGINT AS total
FROM silver.readings GROUP BY date_trunc('hour', ts), city`)},
	}, "readings")
}

// world is what outlives processes.
type world struct {
	pipeline   *smelt.Pipeline
	objects    *store.Memory
	catalog    *table.MemoryCatalog
	topic      *ingest.Log
	references *pipetest.References
	locks      *pipetest.Locks
	duck       *duck.DB
	dir        string // for local files

	clock   time.Time      // of the scenario: a process that dies and goes on takes longer
	records []smelt.Record // of the topic
	places  [][]string     // that the references were, one after the other
}

// moment is a world at one time, out of time: worlds that go on from there are made
// of it.
type moment struct {
	at       time.Time
	clock    time.Time
	pipeline *smelt.Pipeline
	objects  *store.Memory
	catalog  *table.MemoryCatalog
	records  []smelt.Record
	places   [][]string
}

// newWorld makes a world that goes on from a moment. It must be called in a bubble of
// its own, whose time it brings up to that of the moment.
func newWorld(m moment, db *duck.DB, dir string) *world {
	time.Sleep(time.Until(m.at))
	w := &world{
		pipeline: m.pipeline, objects: m.objects.Clone(), catalog: m.catalog.Clone(), topic: ingest.NewLog(partitions),
		references: pipetest.NewReferences(), locks: pipetest.NewLocks(), duck: db, dir: dir, clock: m.clock,
	}
	w.topic.Append(m.records...)
	w.records = slices.Clone(m.records)
	for _, places := range m.places {
		w.locate(places...)
	}
	return w
}

// moment keeps what the world is now.
func (w *world) moment() moment {
	return moment{
		at: time.Now(), clock: w.clock, pipeline: w.pipeline, objects: w.objects.Clone(), catalog: w.catalog.Clone(),
		records: slices.Clone(w.records), places: slices.Clone(w.places),
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.clock = w.clock.Add(d)
	time.Sleep(time.Until(w.clock))
}

// send adds readings: "a hel-001 7 -90m" has the id a and is one and a half hours old. "1/" selects partition 1. Other texts are
// values as they stand; "" is a tombstone.
func (w *world) send(readings ...string) {
	for _, text := range readings {
		text, second := strings.CutPrefix(text, "1/")
		r := smelt.Record{Timestamp: w.clock.UnixMilli()}
		if second {
			r.Partition = 1
		}
		var id, sensor, ago string
		var v int
		switch n, _ := fmt.Sscan(text, &id, &sensor, &v, &ago); {
		case n == 4:
			span, err := time.ParseDuration(ago)
			if err != nil {
				panic(err)
			}
			r.Value = fmt.Appendf(nil, `{"id":%q,"sensor_id":%q,"v":%d,"ts":%q}`, id, sensor, v, w.clock.Add(span).UTC().Format(time.RFC3339))
		case text != "":
			r.Value = []byte(text)
		}
		w.records = append(w.records, r)
		w.topic.Append(r)
	}
}

// locate replaces the reference table: "hel-001=Espoo".
func (w *world) locate(sensors ...string) {
	var columns []smelt.Column
	for _, name := range []string{"sensor_id", "city"} {
		columns = append(columns, smelt.Column{Name: name, Type: smelt.Type{Name: "varchar"}})
	}
	var rows [][]any
	for _, s := range sensors {
		sensor, city, _ := strings.Cut(s, "=")
		rows = append(rows, []any{sensor, city})
	}
	w.references.Set("locations", columns, rows)
	w.places = append(w.places, sensors)
}
