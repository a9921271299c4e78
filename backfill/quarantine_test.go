package backfill_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/backfill"
)

// setAside is a lake whose pipeline expects too much, and a process that knows
// better: of the records in quarantine b is good, and c and d are not.
func setAside(t *testing.T, mended ...string) (*world, *process) {
	t.Helper()
	w := setup(t, newPipeline(t, "expect: {small: v < 5, early: ts < '2026-11-04'}"))
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 6 2026-11-03T10:00:00Z", `c hel-001 "hot" 2026-11-01T10:00:00Z`, "d hel-001 9 2026-11-02T10:00:00Z")
	w.add("e hel-001 2 2026-11-05T10:00:00Z", "f hel-001 3 2026-11-01T11:00:00Z")
	p := w.process()
	p.pipeline = newPipeline(t, mended...)
	return w, p
}

// What was set aside for a reason that is none any more comes in, and what is as
// bad as ever stays as it was, to the time at which it was set aside.
func TestQuarantined(t *testing.T) {
	t.Parallel()
	w, p := setAside(t, "expect: {small: v < 8, early: ts < '2026-11-04'}")
	before := w.all(quarantineName)
	r, err := w.open(p, backfill.Scope{Quarantined: true}).Run(t.Context(), nil)
	if err != nil || r.Replayed != 4 || r.Entered != 1 || r.Differing+r.Departed != 0 || r.RowsWere != 2 || r.Rows != 3 || r.Added != 1 || r.Removed != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	if !maps.Equal(r.Released, map[string]int64{"small": 1}) || len(r.Rejected) > 0 {
		t.Errorf("out of quarantine came %v, in %v", r.Released, r.Rejected)
	}
	same(t, "silver", w.rows(silverName, "id", "v", "city"), "a 1 Espoo", "b 6 New York", "f 3 Espoo")
	same(t, "quarantine", w.all(quarantineName), before[1], before[2], before[3])
	if rebuilt := w.rows(silverName, "_rebuilt_at"); rebuilt[0] != "" || rebuilt[1] == "" || rebuilt[2] != "" {
		t.Errorf("rebuilt at %q", rebuilt)
	}
	if got, want := w.ledger().Newest, at("2026-11-03T10:00:00Z"); !got.Equal(want) {
		t.Errorf("the newest event is of %v, want %v", got, want)
	}
	w.whole()
}

// A record that is bad for another reason now has that one.
func TestReasonChanges(t *testing.T) {
	t.Parallel()
	w, p := setAside(t, "expect: {tiny: v < 5, early: ts < '2026-11-04'}")
	files := keysOf(w.files(silverName))
	r, err := w.open(p, backfill.Scope{Quarantined: true}).Run(t.Context(), nil)
	if err != nil || !r.Differs || !r.Published || r.Entered+r.Departed != 0 || r.Added+r.Removed != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	if !maps.Equal(r.Released, map[string]int64{"small": 2}) || !maps.Equal(r.Rejected, map[string]int64{"tiny": 2}) {
		t.Errorf("out of quarantine came %v, in %v", r.Released, r.Rejected)
	}
	same(t, "silver's files", keysOf(w.files(silverName)), files...)
	same(t, "quarantine", w.rows(quarantineName, "_partition_offset", "reason", "field"), "1 tiny v", "2 wrong type v", "3 tiny v", "4 early ts")
	w.whole()
}

// Another backfill, which heeds no lock, is first to find that a reason is another now.
func TestReasonChangesMeanwhile(t *testing.T) {
	t.Parallel()
	w, p := setAside(t, "expect: {tiny: v < 5, early: ts < '2026-11-04'}")
	other := w.process()
	other.pipeline, other.Parts.Locker = p.pipeline, free{}
	done := false
	p.reach = func(step string) error {
		if step != "caught up" || done {
			return nil
		}
		done = true
		_, err := w.open(other, backfill.Scope{Quarantined: true}).Run(t.Context(), nil)
		return err
	}
	if r, err := w.open(p, backfill.Scope{Quarantined: true}).Run(t.Context(), nil); err != nil || r.Published {
		t.Errorf("there was nothing left to do: got %+v, %v", r, err)
	}
	same(t, "quarantine", w.rows(quarantineName, "_partition_offset", "reason", "field"), "1 tiny v", "2 wrong type v", "3 tiny v", "4 early ts")
	w.whole()
}

// A reason limits the scope to what was set aside for it.
func TestReason(t *testing.T) {
	t.Parallel()
	w, p := setAside(t, "expect: {none: true OR v IS NULL}")
	r, err := w.open(p, backfill.Scope{Quarantined: true, Reason: "early"}).Run(t.Context(), nil)
	if err != nil || r.Replayed != 1 || r.Entered != 1 || !maps.Equal(r.Released, map[string]int64{"early": 1}) {
		t.Errorf("got %+v, %v", r, err)
	}
	same(t, "silver", w.rows(silverName, "id"), "a", "e", "f")
	if r, err := w.open(p, backfill.Scope{Quarantined: true, Reason: "no such"}).Run(t.Context(), nil); err != nil || r.Replayed != 0 || r.Published {
		t.Errorf("for a reason that there is not: got %+v, %v", r, err)
	}
	w.whole()
}

// Rows that no longer fit the declaration go to quarantine, with their raw values, and return once it is corrected.
func TestMendedTransform(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 1000 2026-11-01T10:00:00Z")
	w.add("c nyc-001 2000 2026-11-02T10:00:00Z") // a file of which nothing is left
	before := w.all(silverName, "_ingested_at", "_rebuilt_at")

	p := w.process()
	p.pipeline = newPipeline(t)
	p.pipeline.Events.Columns[2].Type = smelt.Type{Name: "tinyint"}
	r, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil)
	if err != nil || r.Departed != 2 || r.Differing+r.Entered != 0 || r.RowsWere != 3 || r.Rows != 1 || r.Removed != 2 || r.Added != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	if !maps.Equal(r.Rejected, map[string]int64{"out of range": 2}) || len(r.Released) > 0 {
		t.Errorf("into quarantine went %v, out %v", r.Rejected, r.Released)
	}
	same(t, "quarantine", w.rows(quarantineName, "_partition_offset", "reason", "field", "raw"),
		`1 out of range v {"id":"b","sensor_id":"nyc-001","v":1000,"ts":"2026-11-01T10:00:00Z"}`,
		`2 out of range v {"id":"c","sensor_id":"nyc-001","v":2000,"ts":"2026-11-02T10:00:00Z"}`)
	w.whole()

	if r := w.run(backfill.Scope{Quarantined: true}); r.Entered != 2 || !maps.Equal(r.Released, map[string]int64{"out of range": 2}) {
		t.Errorf("mended: got %+v", r)
	}
	same(t, "silver", w.all(silverName, "_ingested_at", "_rebuilt_at"), before...)
	same(t, "quarantine", w.rows(quarantineName, "reason"))
	w.whole()
}

// A table may lose all its rows to quarantine, and get them back.
func TestAllRowsGo(t *testing.T) {
	t.Parallel()
	w := history(t)
	before, newest := w.all(silverName, "_ingested_at", "_rebuilt_at", "_reference_version", "city"), w.ledger().Newest
	p := w.process()
	p.pipeline = newPipeline(t, "expect: {small: v < 0}")
	if r, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil); err != nil || r.Departed != 7 || r.Added != 0 || r.Rows != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	same(t, "silver", w.rows(silverName, "id"))
	w.whole()
	if r := w.run(backfill.Scope{Quarantined: true}); r.Entered != 7 || r.Rows != 7 {
		t.Errorf("mended: got %+v", r)
	}
	same(t, "silver", w.all(silverName, "_ingested_at", "_rebuilt_at", "_reference_version", "city"), before...)
	if got := w.ledger().Newest; !got.Equal(newest) {
		t.Errorf("the newest event is of %v, want %v", got, newest)
	}
	w.whole()
}

// A new column of silver.sql is added with the rows that have it.
func TestNewColumn(t *testing.T) {
	t.Parallel()
	w := history(t)
	p := w.process()
	p.pipeline = newPipeline(t)
	p.pipeline.Silver.SQL = "SELECT id, sensor_id, v::BIGINT AS v, ts, city, note, v * 2 AS twice, _partition_id, _partition_offset FROM bronze.readings LEFT JOIN reference.locations USING (sensor_id)"
	if r, err := w.open(p, day).Run(t.Context(), nil); err != nil || r.Differing != 3 {
		t.Errorf("got %+v, %v", r, err)
	}
	same(t, "silver", w.rows(silverName, "id", "twice"), "a 2", "b 4", "c 6", "d ", "e ", "f ", "g ")
	w.add("h hel-001 8 " + at("2026-11-02T13:00:00Z").Format(time.RFC3339)) // the stage does not know of it yet
	if r, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil); err != nil || r.Differing != 5 {
		t.Errorf("all: got %+v, %v", r, err)
	}
	same(t, "silver", w.rows(silverName, "id", "twice"), "a 2", "b 4", "c 6", "d 8", "e 10", "f 12", "g 14", "h 16")
	w.whole()
}

// Other rejects stay unchanged.
func TestHostileStays(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t, "unique: [id]"))
	for _, value := range []string{
		"no json", "[1]", "\xff\x00", `{"id":"a"}`, `{"id":"a","id":"b","sensor_id":"c","v":1,"ts":"2026-11-01T10:00:00Z"}`,
		`{"id":"a","sensor_id":"c","v":1,"ts":"yesterday"}`, `{"id":"a","sensor_id":"c","v":1,"ts":"1800-01-01T00:00:00Z"}`,
		`{"id":"a","sensor_id":"c","v":9999999999,"ts":"2026-11-01T10:00:00Z"}`, strings.Repeat("long", recordMax),
		`{"id":"a","sensor_id":"hel-001","v":1,"ts":"2026-11-01T10:00:00Z"}`, `{"id":"a","sensor_id":"hel-001","v":2,"ts":"2026-11-01T10:00:00Z"}`,
	} {
		w.topic.Append(smelt.Record{Timestamp: smelt.NoTimestamp, Value: []byte(value)})
		w.sent[0]++
	}
	w.topic.Append(smelt.Record{Timestamp: smelt.NoTimestamp}) // a tombstone
	w.add()
	heads := w.heads()
	for _, scope := range []backfill.Scope{{Quarantined: true}, {All: true}} {
		if r := w.run(scope); r.Differs || r.Published || scope.Quarantined && r.Replayed != w.ledger().Rejected() {
			t.Errorf("%s: got %+v", scope, r)
		}
	}
	if !maps.Equal(w.heads(), heads) || w.ledger().Rejected() < 9 {
		t.Errorf("the tables are at %v, and were at %v; the ledger says %+v", w.heads(), heads, w.ledger())
	}
}

// Quarantine too may be compacted or added to meanwhile.
func TestQuarantineMeanwhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step   string
		commit func(w *world)
		silver []string
	}{
		{"caught up", func(w *world) { w.compact(quarantineName, 0, 1) }, []string{"a", "b", "f"}},
		{"tagged", func(w *world) { w.compact(quarantineName, 0, 1) }, []string{"a", "b", "f"}},
		{"caught up", func(w *world) { w.add("g hel-001 7 2026-11-01T12:00:00Z") }, []string{"a", "b", "f", "g"}},
	} {
		w, p := setAside(t, "expect: {small: v < 8, early: ts < '2026-11-04'}")
		done := false
		p.reach = func(step string) error {
			if step == c.step && !done {
				done = true
				c.commit(w)
			}
			return nil
		}
		if r, err := w.open(p, backfill.Scope{Quarantined: true}).Run(t.Context(), nil); err != nil || r.Entered != int64(len(c.silver)-2) {
			t.Errorf("at %q: got %+v, %v", c.step, r, err)
		}
		same(t, "silver", w.rows(silverName, "id"), c.silver...)
		w.whole()
	}
}
