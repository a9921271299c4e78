package smelt_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/upkeep"
)

var dayFlush = flag.Duration("day.flush", 20*time.Minute, "how long TestDay gathers events before each step of the line; smelt run does so for 2s")

// dayLength is a day, an hour to merge it, and the hour for which merged objects
// stay, with some time to spare.
const dayLength = 27 * time.Hour

// TestDay sends one event a second for a day, in fake time, with upkeep as in smelt run. It counts objects and files afterwards.
//
//	go test -run TestDay -day.flush=2s -timeout 2h -v .
func TestDay(t *testing.T) {
	t.Parallel()
	p, dir := sensors(t), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, p, dir)
		for range int(dayLength / *dayFlush) {
			d.pass(*dayFlush)
		}
		d.check()
		d.close()
	})
}

// day is a lake to which an event comes every second.
type day struct {
	t        *testing.T
	pipeline *smelt.Pipeline
	lake     *pipetest.Lake
	duck     *duck.DB
	line     *line.Line
	keepers  []*upkeep.Keeper
	events   int
	puts     int            // objects of bronze, before merging
	jobs     map[string]int // by kind
	written  map[string]int64
}

func newDay(t *testing.T, p *smelt.Pipeline, dir string) *day {
	t.Helper()
	d := &day{t: t, pipeline: p, jobs: map[string]int{}, written: map[string]int64{}}
	var err error
	if d.duck, err = duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: dir, Threads: 1}); err != nil {
		t.Fatal(err)
	}
	if d.lake, err = pipetest.NewLake(d.duck, 1, discard()); err != nil {
		t.Fatal(err)
	}
	text := smelt.Type{Name: "varchar"}
	d.lake.References.Set("locations", []smelt.Column{{Name: "sensor_id", Type: text}, {Name: "city", Type: text}, {Name: "country", Type: text}},
		[][]any{{"hel-001", "Helsinki", "Finland"}})
	parts := d.lake.Parts
	parts.Flush = *dayFlush / 2
	parts.Source = func(_ context.Context, _ *smelt.Pipeline, resume smelt.Resume) (smelt.Source, error) {
		source := d.lake.Topic.Open(resume)
		d.lake.Topic.Assign(0, source)
		return source, nil
	}
	if d.line, err = line.Open(t.Context(), p, parts); err != nil {
		t.Fatal(err)
	}
	d.keepers = upkeep.NewKeepers(upkeep.Config{
		Pipeline: p, Area: parts.Area, Duck: d.duck, Locker: parts.Locker, Log: parts.Log,
	}, func(j upkeep.Job, done upkeep.Done, _ time.Duration, err error) {
		if err == nil && done.Lost == "" {
			d.jobs[j.Kind]++
			d.written[j.Kind] += done.After.Bytes
		}
	})
	return d
}

// pass lets some time pass, and steps every stage.
func (d *day) pass(span time.Duration) {
	d.t.Helper()
	time.Sleep(span / 2) // the flush takes the other half
	for range int(span / time.Second) {
		at := time.Now()
		d.lake.Topic.Append(smelt.Record{
			Offset: int64(d.events), Timestamp: at.UnixMilli(), Key: []byte("hel-001"),
			Value: fmt.Appendf(nil, `{"sensor_id":"hel-001","temperature":%d.5,"unit":"C","event_time":%q}`, d.events%40, at.Format(time.RFC3339)),
		})
		d.events++
	}
	stages := []smelt.Stage{d.line.Bronze, d.line.Silver}
	for _, g := range d.line.Gold {
		stages = append(stages, g)
	}
	for _, k := range d.keepers {
		stages = append(stages, k)
	}
	for _, s := range stages {
		p, err := s.Step(d.t.Context())
		if err != nil {
			d.t.Fatalf("%s: %v", s.Name(), err)
		}
		if s == smelt.Stage(d.line.Bronze) && p.Records > 0 {
			d.puts++
		}
	}
}

// check counts what is in the lake, and recounts every layer.
func (d *day) check() {
	t := d.t
	t.Helper()
	status := inspect.Gather(t.Context(), inspect.Probe{
		Store: d.lake.Parts.Area.Store, Lake: d.lake.Parts.Area.Lake, CountObjects: true,
		Describe: func(context.Context, *smelt.Pipeline, map[int32]int32) (smelt.Description, error) {
			return smelt.Description{}, nil
		},
		Live: func(context.Context) error { return nil },
	}, d.pipeline, time.Now())
	for _, h := range status.Tables {
		if h.Health == nil {
			t.Errorf("%s: nothing is known of it", h.Table)
			continue
		}
		t.Logf("%-24s %4d files, %d bytes on average; %d snapshots, %d manifests, %d bytes of metadata",
			h.Table, h.DataFiles, h.Bytes/max(1, h.DataFiles), h.Snapshots, h.Manifests, h.MetadataBytes+h.ManifestBytes)
		layer, _, _ := strings.Cut(h.Table, ".")
		if most := map[string]int64{"bronze": 40, "silver": 40, "gold": 10, "quarantine": 10}[layer]; h.DataFiles > most {
			t.Errorf("%s has %d files after a day, want at most %d", h.Table, h.DataFiles, most)
		}
	}
	t.Logf("%d events, %d objects put in bronze; maintenance: %v jobs, %v bytes written", d.events, d.puts, d.jobs, d.written)
	verdict, err := inspect.Verifier{Area: d.lake.Parts.Area, Duck: d.duck, RecordMax: 8 << 20}.Verify(t.Context(), d.pipeline)
	if err != nil {
		t.Fatal(err)
	}
	if err := verdict.Err(); err != nil || verdict.Receipt.Silver != int64(d.events) {
		t.Errorf("%d events give %s, %v", d.events, verdict.Receipt, err)
	}
}

func (d *day) close() {
	d.t.Helper()
	if err := errors.Join(d.line.Close(), d.lake.Close(), d.duck.Close()); err != nil {
		d.t.Error(err)
	}
}
