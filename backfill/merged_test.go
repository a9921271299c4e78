package backfill_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/bronze"
	"smelt/internal/store"
)

var allRead = map[int32]int64{0: math.MaxInt64, 1: math.MaxInt64}

// merge merges bronze as if an hour had passed. clean says which merged objects are deleted.
func (w *world) merge(t *testing.T, clean func(key string) bool) {
	t.Helper()
	m := bronze.NewMerger(bronze.MergerConfig{Pipeline: w.pipeline.Name, Store: w.objects, Dir: t.TempDir()})
	plan, err := m.Plan(t.Context(), allRead, time.Now().Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range plan.Runs {
		if _, err := m.Merge(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	if plan, err = m.Plan(t.Context(), allRead, time.Now().Add(2*time.Hour)); err != nil || len(plan.Leftovers) == 0 {
		t.Fatalf("nothing was merged: %+v, %v", plan, err)
	}
	for _, l := range plan.Leftovers {
		for _, key := range l.Keys {
			if clean(key) {
				if err := w.objects.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestMergedBronze backfills from bronze that was merged: cleaned, cleaned in part,
// and while the backfill reads it.
func TestMergedBronze(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	past := eventful(t)
	for _, more := range []string{"e hel-001 1 2026-11-04T10:00:00Z", "f hel-001 1 2026-11-04T11:00:00Z", "g hel-001 1 2026-11-04T12:00:00Z"} {
		past.add(more)
	}
	past.locate("hel-001=Vantaa", "nyc-001=Nowhere", "out-001=Turku", "zzz-001=Oulu")
	scope := backfill.Scope{All: true}
	undisturbed := past.clone(t)
	undisturbed.run(scope)
	want := undisturbed.state()
	for n := range 5 {
		w := past.clone(t)
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		w.merge(t, func(string) bool { return n == 0 || rng.IntN(2) == 0 })
		w.run(scope)
		w.is(want)
	}
	w, once := past.clone(t), sync.Once{}
	p := w.process()
	p.fault = func(op store.Op) store.Fault {
		if op.Name == "get" && strings.HasPrefix(op.Key, "bronze/") {
			once.Do(func() { w.merge(t, func(string) bool { return true }) })
		}
		return store.None
	}
	if _, err := w.open(p, scope).Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w.is(want)
}

// TestStaleObject has a writer that was held up for long put an object under a name
// that is free again, since what had it was merged and deleted. The object reaches
// over the beginning of the next one: no record of it is replayed twice.
func TestStaleObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, newPipeline(t))
		var readings []string
		for i := range 7 {
			readings = append(readings, fmt.Sprintf("%d hel-001 %[1]d 2026-11-01T10:00:00Z", i))
		}
		w.add(readings[:2]...)
		held := w.clone(t)
		held.receive(readings[2:6]...)
		w.add(readings[2:4]...)
		time.Sleep(time.Hour) // so that these are merged, and the next ones are not
		w.add(readings[4:6]...)
		w.add(readings[6])
		w.merge(t, func(string) bool { return true })
		key := bronze.Name{Pipeline: w.pipeline.Name, Start: 2, Codec: bronze.Zstd}.Key()
		body, o, err := held.objects.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.objects.Put(t.Context(), key, bytes.NewReader(data), smelt.PutOptions{IfAbsent: true, Meta: o.Meta}); err != nil {
			t.Fatal(err)
		}
		w.locate("hel-001=Helsinki")
		r := w.run(backfill.Scope{Where: "v >= 2"})
		if r.Replayed != 5 || r.Differing != 5 || r.Rows != 7 {
			t.Errorf("got %+v, want 5 rows of 7 replayed", r)
		}
	})
}

// TestRetiredBronze backfills rows whose records were retired. They do not change; the others are corrected.
func TestRetiredBronze(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
	for _, r := range []string{"a hel-001 1 2026-11-01T10:00:00Z", "b hel-001 2 2026-11-02T10:00:00Z", "c hel-001 3 2026-11-03T10:00:00Z", "d hel-001 4 2026-11-04T10:00:00Z"} {
		w.add(r)
	}
	m := bronze.NewMerger(bronze.MergerConfig{Pipeline: w.pipeline.Name, Store: w.objects, Dir: t.TempDir()})
	runs, err := m.PlanRetire(t.Context(), allRead, time.Now().Add(time.Hour))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%+v, %v", runs, err)
	}
	if _, _, err := m.Retire(t.Context(), runs[0], []int64{1}); err != nil {
		t.Fatal(err)
	}
	w.locate("hel-001=Helsinki")
	r := w.run(backfill.Scope{ReferenceChanges: true})
	if r.Differing != 2 || r.Retired != 2 || r.Replayed != 2 || r.Departed != 0 {
		t.Errorf("got %+v", r)
	}
	same(t, "silver", w.rows(silverName, "_partition_offset", "city"), "0 Espoo", "1 Helsinki", "2 Espoo", "3 Helsinki")
}

// TestRetiredReject replays quarantine although one of its records was retired, as happens when a backfill turns a row
// into a reject right afterwards. That reject stays; others are released.
func TestRetiredReject(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t, "expect: {known: city IS NOT NULL}"))
	for _, r := range []string{"a new-001 1 2026-11-01T10:00:00Z", "b new-001 2 2026-11-02T10:00:00Z", "c hel-001 3 2026-11-03T10:00:00Z"} {
		w.add(r)
	}
	m := bronze.NewMerger(bronze.MergerConfig{Pipeline: w.pipeline.Name, Store: w.objects, Dir: t.TempDir()})
	runs, err := m.PlanRetire(t.Context(), allRead, time.Now().Add(time.Hour))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%+v, %v", runs, err)
	}
	if _, _, err := m.Retire(t.Context(), runs[0], []int64{1}); err != nil {
		t.Fatal(err)
	}
	w.locate("hel-001=Espoo", "new-001=Oulu")
	r := w.run(backfill.Scope{Quarantined: true})
	if r.Entered != 1 || r.Retired != 1 {
		t.Errorf("got %+v, want one record of two", r)
	}
	w.refresh()
	same(t, "silver", w.rows(silverName, "_partition_offset", "city"), "1 Oulu", "2 Espoo")
	same(t, "quarantine", w.rows(quarantineName, "_partition_offset", "reason"), "0 known")
	if r := w.run(backfill.Scope{All: true}); r.Differs {
		t.Errorf("a second backfill changes something: %+v", r)
	}
}
