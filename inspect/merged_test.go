package inspect_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"smelt/bronze"
	"smelt/inspect"
	"smelt/internal/ledger"
	"smelt/internal/line"
	"smelt/internal/table"
)

// read are positions beyond every chain.
var read = map[int32]int64{0: math.MaxInt64, 1: math.MaxInt64}

func (w *world) merger(t *testing.T) *bronze.Merger {
	return bronze.NewMerger(bronze.MergerConfig{Pipeline: "readings", Store: w.Parts.Area.Store, Dir: t.TempDir()})
}

// merge merges and cleans all of bronze, as if days had passed.
func (w *world) merge(t *testing.T, m *bronze.Merger) {
	t.Helper()
	for range 3 { // hours, days, leftovers
		plan, err := m.Plan(t.Context(), read, time.Now().Add(72*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range plan.Runs {
			if _, err := m.Merge(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
		for _, leftovers := range plan.Leftovers {
			if err := m.Clean(t.Context(), leftovers); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// retire lets all of partition 0 go but its last object and some records.
func (w *world) retire(t *testing.T, m *bronze.Merger, keep ...int64) {
	t.Helper()
	runs, err := m.PlanRetire(t.Context(), map[int32]int64{0: math.MaxInt64}, time.Now().Add(time.Hour))
	if err != nil || len(runs) != 1 {
		t.Fatalf("to retire: %+v, %v", runs, err)
	}
	if _, _, err := m.Retire(t.Context(), runs[0], keep); err != nil {
		t.Fatal(err)
	}
	w.merge(t, m)
}

// long is a healthy lake with more objects in partition 0.
func long(t *testing.T) *world {
	w := healthy(t)
	for range 3 {
		w.send(0, "a")
		w.drain(t)
	}
	return w
}

// has wants a recount without mismatches, and its receipt.
func (w *world) has(t *testing.T, when, want string) {
	t.Helper()
	v := w.verify(t)
	if got := receipt(v.Receipt); got != want || v.Err() != nil {
		t.Errorf("%s: got  %s %+v\nwant %s", when, got, v.Mismatches, want)
	}
	r, err := inspect.Count(t.Context(), w.Parts.Area.Store, w.Parts.Area.Lake, w.pipeline, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := receipt(r); got != want {
		t.Errorf("%s: the receipt that is read: got  %s\nwant %s", when, got, want)
	}
}

func TestVerifyMergedAndRetired(t *testing.T) {
	t.Parallel()
	w := long(t)
	const want = "bronze 14 = silver 10 + quarantine 2 + tombstones 2 ✓  gold 10 ✓"
	m := w.merger(t)
	w.merge(t, m)
	if objects := w.objects(t, 0); len(objects) != 2 {
		t.Fatalf("the chain is not merged: %v", objects)
	}
	w.has(t, "merged", want)
	w.retire(t, m, 3) // what is in quarantine
	w.has(t, "retired", want)
	w.send(0, "aa")
	w.drain(t)
	const more = "bronze 16 = silver 12 + quarantine 2 + tombstones 2 ✓  gold 12 ✓"
	w.has(t, "and more", more)
	w.retire(t, m)
	w.has(t, "retired to the last", more)

	// A retired record is traced by its row.
	text := w.trace(t, 0, 1).Text(false)
	for _, want := range []string{"readings 0:1  is in silver and gold\n", "bronze  retired: records below offset 10 were removed", "  sensor              a\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if _, err := w.tracer().Trace(t.Context(), w.pipeline, 0, 4); !errors.Is(err, inspect.ErrNoRecord) || !strings.Contains(err.Error(), "below offset 10") {
		t.Errorf("a tombstone that was let go: %v", err)
	}

	// A row that something else takes out of silver is missed, by the number.
	w.rewrite(t, "silver.readings", "FROM work.t WHERE NOT (_partition_id = 0 AND _partition_offset = 5)")
	v := w.verify(t)
	i := slices.IndexFunc(v.Mismatches, func(m inspect.Mismatch) bool { return m.Check == "retired" })
	if i < 0 || v.Mismatches[i].Count != 1 || !strings.HasPrefix(v.Mismatches[i].Message, "Of partition 0 retention has let 9 records with a value go from bronze, up to offset 10: silver and quarantine have 8 of them.") {
		t.Errorf("got %+v", v.Mismatches)
	}
}

// TestVerifyInsideMerged rolls silver back into what is one object by now.
func TestVerifyInsideMerged(t *testing.T) {
	t.Parallel()
	w := long(t)
	silver := w.load(t, "silver.readings")
	m := w.merger(t)
	w.merge(t, m)
	back := silver.Ancestors()[2] // the last two records are to be read again
	l, _, err := ledger.Of[ledger.Silver](back)
	if err != nil || l.Position[0] != 8 {
		t.Fatalf("the position is %v, %v", l.Position, err)
	}
	if _, err := silver.Rollback(t.Context(), back.ID, ledger.Carry(silver, back.ID), ""); err != nil {
		t.Fatal(err)
	}
	if v := w.verify(t); v.Bronze != 12 || v.OnTheirWay != 2 || slices.ContainsFunc(v.Mismatches, func(m inspect.Mismatch) bool { return m.Check == "chain" }) {
		t.Errorf("got %+v", v)
	}
	if _, err := w.line.Silver.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.drain(t)
	w.has(t, "read again", "bronze 14 = silver 10 + quarantine 2 + tombstones 2 ✓  gold 10 ✓")

	// For retired records it says so.
	silver = w.load(t, "silver.readings")
	w.retire(t, m)
	if _, err := silver.Rollback(t.Context(), back.ID, ledger.Carry(silver, back.ID), ""); err != nil {
		t.Fatal(err)
	}
	if v := w.verify(t); !slices.ContainsFunc(v.Mismatches, func(m inspect.Mismatch) bool {
		return m.Check == "chain" && strings.HasPrefix(m.Message, "Silver is at offset 8 of partition 0, but bronze has let records go up to 9")
	}) {
		t.Errorf("got %+v", v.Mismatches)
	}
}

// TestVerifyNewTable: a re-created table begins where records were retired.
func TestVerifyNewTable(t *testing.T) {
	t.Parallel()
	w := long(t)
	w.retire(t, w.merger(t), 3)
	ctx := t.Context()
	w.Parts.Area.Lake = table.Open(w.Parts.Area.Store, table.NewMemoryCatalog(), "s3://again")
	l, err := line.Open(ctx, w.pipeline, w.Parts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w.line = l
	w.drain(t)
	w.has(t, "made anew", "bronze 14 = silver 3 + quarantine 2 + tombstones 2 + retired 7 ✓  gold 3 ✓")
}
