package backfill_test

import (
	"testing"

	"smelt/backfill"
)

// Columns that others add while a backfill is under way, in another order, have
// other ids than those of the files that it has written by then.
func TestColumnsMeanwhile(t *testing.T) {
	t.Parallel()
	w := history(t)
	sql := func(columns string) string {
		return "SELECT id, sensor_id, v::BIGINT AS v, ts, city, " + columns + ", _partition_id, _partition_offset\nFROM bronze.readings LEFT JOIN reference.locations USING (sensor_id)"
	}
	changed := newPipeline(t)
	changed.Silver.SQL = sql("'is x' AS x, 'is y' AS y")
	p := w.process()
	p.pipeline = changed
	p.reach = func(step string) error {
		if step == "caught up" {
			other := w.process()
			other.pipeline = newPipeline(t)
			other.pipeline.Silver.SQL = sql("'is y' AS y")
			w.take(w.stage(other), "h hel-001 8 2026-11-03T13:00:00Z")
		}
		return nil
	}
	if _, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, f := range w.files(silverName) {
		for _, c := range []string{"x", "y"} {
			if lo, _, ok := f.Bounds(c); !ok || lo != "is "+c {
				t.Errorf("%s of %s: %v, %v", c, f.Key, lo, ok)
			}
		}
	}
	w.whole()
}

// A bounded backfill whose file is replaced meanwhile searches its rows again. Otherwise the healer would believe that
// nothing is left.
func TestBoundedMeanwhile(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
	w.add("a new-001 1 2026-11-01T10:00:00Z")
	w.add("b hel-001 2 2026-11-01T11:00:00Z")
	w.locate("hel-001=Espoo", "new-001=Oulu")
	p := w.process()
	p.reach = func(step string) error {
		if step == "caught up" {
			w.compact(silverName, 0, 1)
		}
		return nil
	}
	r, err := w.open(p, backfill.Scope{Unmatched: true, Most: 1}).Run(t.Context(), nil)
	if err != nil || r.Differing != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	same(t, "cities", w.rows(silverName, "city"), "Oulu", "Espoo")
}
