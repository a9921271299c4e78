package backfill_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/backfill"
)

// A row whose partition is another now moves to a file of that one.
func TestPartitions(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.Silver.Partition = append(p.Silver.Partition, smelt.PartitionField{Transform: "identity", Column: "city"})
	w := setup(t, p)
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 2 2026-11-01T10:00:00Z", "c zzz-001 3 2026-11-01T10:00:00Z", "d hel-001 4 2026-11-02T10:00:00Z")
	same(t, "partitions", w.partitions(), "20758 <nil> 1", "20758 Espoo 1", "20758 New York 1", "20759 Espoo 1")
	w.locate("hel-001=Helsinki", "zzz-001=New York")
	if r := w.run(backfill.Scope{ReferenceChanges: true}); r.Differing != 4 || r.Unmatched != 0 || r.Removed != 4 || r.Added != 4 {
		t.Errorf("got %+v", r)
	}
	same(t, "partitions", w.partitions(), "20758 <nil> 1", "20758 Helsinki 1", "20758 New York 1", "20759 Helsinki 1")
	same(t, "silver", w.rows(silverName, "id", "city", "_unmatched"), "a Helsinki ", "b  locations", "c New York ", "d Helsinki ")
	w.whole()
	if r := w.run(backfill.Scope{All: true}); r.Published {
		t.Errorf("again: got %+v", r)
	}
}

// A transform that moves events in time moves their rows and their windows.
func TestTimeMoves(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.refresh()
	p := w.process()
	p.pipeline = newPipeline(t)
	p.pipeline.Silver.SQL = strings.Replace(silverSQL, "ts,", "ts + INTERVAL 1 DAY AS ts,", 1)
	follower, err := backfill.NewFollower(t.Context(), p.Parts.Area.Lake, w.gold(p))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil); err != nil || r.Differing != 7 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := follower.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "partitions", w.partitions(), "20759 3", "20760 4")
	same(t, "gold", w.rows(goldName, "hour", "city", "n"),
		"2026-11-02 10:00:00+00 Helsinki 1", "2026-11-02 10:00:00+00 New York 1", "2026-11-02 11:00:00+00 New York 1",
		"2026-11-03 10:00:00+00 Helsinki 1", "2026-11-03 10:00:00+00 New York 1", "2026-11-03 12:00:00+00 Helsinki 1",
		"2026-11-03 23:00:00+00 New York 1")
	if got, want := w.ledger().Newest, at("2026-11-03T23:59:59Z"); !got.Equal(want) {
		t.Errorf("the newest event is of %v, want %v", got, want)
	}
	w.whole()
}

// A reference row that is deleted leaves its rows without one, and they find it
// again when it is back.
func TestDeletedReference(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.locate("nyc-001=New York")
	if r := w.run(backfill.Scope{ReferenceChanges: true}); r.Differing != 3 || r.Unmatched != 3 {
		t.Errorf("deleted: got %+v", r)
	}
	same(t, "silver", w.distinct("sensor_id", "city", "_unmatched"), "hel-001  locations", "nyc-001 New York ")
	w.whole()
	w.locate("hel-001=Espoo", "nyc-001=New York")
	if r := w.run(backfill.Scope{Unmatched: true}); r.Differing != 3 || r.Unmatched != -3 || r.Tag != "" {
		t.Errorf("back: got %+v", r)
	}
	same(t, "silver", w.distinct("sensor_id", "city", "_unmatched"), "hel-001 Espoo ", "nyc-001 New York ")
	w.whole()
}

// partitions are those of silver's files, with their rows.
func (w *world) partitions() []string {
	w.t.Helper()
	var out []string
	for _, f := range w.files(silverName) {
		text := fmt.Sprint(f.Partition["ts_day"])
		if city, ok := f.Partition["city"]; ok {
			text += fmt.Sprintf(" %v", city)
		}
		out = append(out, fmt.Sprintf("%s %d", text, f.Rows))
	}
	slices.Sort(out)
	return out
}
