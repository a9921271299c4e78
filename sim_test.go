package smelt_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt/ingest"
	"smelt/internal/duck"
	"smelt/internal/pipetest"
	"smelt/internal/store"
	"smelt/internal/table"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run the simulation with this seed alone")
	simSteps = flag.Int("sim.steps", 0, "how many events a simulation has")
)

// TestSimulation runs the whole line in a world that is drawn from a seed: three
// processes that do the same work, records that repeat and come late, partitions
// that change hands, processes that freeze, stop, crash and come back, calls that
// fail and replies that are lost, at any call to the outside. All along, and at
// the end, it checks what smelt promises.
//
//	go test -run TestSimulation -sim.seed=17 -sim.steps=20000 .
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds, events := []uint64{1, 2, 3}, 1500
	if testing.Short() {
		seeds, events = seeds[:2], 800
	}
	if *simSeed != 0 {
		seeds = []uint64{*simSeed}
	}
	if *simSteps != 0 {
		events = *simSteps
	}
	hostile := hostileRecords(t)
	loads := []workload{
		{pipeline: orders(t), make: (*maker).order, id: "id", at: "placed_at", number: "amount"},
		{pipeline: sensors(t), make: (*maker).sensor, id: "sensor_id", at: "event_time", number: "temperature_celsius", enriched: true},
		{pipeline: visits(t), make: (*maker).visit, id: "visit", at: "visited_at", number: "amount", enriched: true, moody: true},
	}
	for _, seed := range seeds {
		load := loads[seed%3]
		t.Run(fmt.Sprintf("%s/%d", load.pipeline.Name, seed), func(t *testing.T) {
			t.Parallel()
			dir, began := t.TempDir(), time.Now()
			synctest.Test(t, func(t *testing.T) { simulate(t, load, hostile, seed, events, dir) })
			t.Logf("seed %d: %d events in %s", seed, events, time.Since(began).Round(time.Millisecond))
		})
	}
}

func simulate(t *testing.T, load workload, hostile []made, seed uint64, events int, dir string) {
	w, err := newWorld(load, hostile, seed, dir)
	if err != nil {
		t.Fatal(err)
	}
	err = w.run(events)
	trace := strings.Join(w.trace[max(0, len(w.trace)-simTrace):], "\n")
	if err != nil {
		t.Errorf("seed %d, event %d: %v\n%s", seed, w.events, err, trace)
	}
	if err := w.close(); err != nil {
		t.Errorf("seed %d: close: %v", seed, err)
	}
	t.Logf("%d events, %d records, %d backfills published, steps: %v, maintenance: %v", w.events, len(w.sent[0])+len(w.sent[1])+len(w.sent[2]), w.published, w.steps, w.jobs)
}

func newWorld(load workload, hostile []made, seed uint64, dir string) (*world, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		load: load, rng: rng, dir: dir, steps: map[string]int{}, jobs: map[string]int{},
		maker:      &maker{rng: rng, now: start, hostile: hostile},
		topic:      ingest.NewLog(simPartitions),
		objects:    store.NewMemory(),
		catalog:    table.NewMemoryCatalog(),
		references: pipetest.NewReferences(),
		places:     []map[string]string{{}}, // version 0 has no rows
		locks:      pipetest.NewLocks(),
		cacheBytes: []int64{1 << 10, 1 << 30}[rng.IntN(2)],
		batchBytes: []int{0, 0, 300, 2000}[rng.IntN(4)], // often in the middle of an object
		faults:     []float64{0, 0.008, 0.016}[rng.IntN(3)],
		rollbacks:  rng.IntN(2) == 0,
	}
	var err error
	if w.duck, err = duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: filepath.Join(dir, "duck"), Threads: 1}); err != nil {
		return nil, err
	}
	w.locate(map[string]string{"hel-001": "Espoo", "nyc-001": "New York"})
	if w.check, err = newChecker(context.Background(), w); err != nil {
		return nil, err
	}
	for i := range simProcesses {
		p, err := w.open(fmt.Sprintf("%c0", 'A'+i), fmt.Sprintf("%c", 'A'+i))
		if err != nil {
			return nil, err
		}
		w.processes = append(w.processes, p)
	}
	return w, nil
}
