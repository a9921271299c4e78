package backfill_test

import (
	"maps"
	"strings"
	"testing"

	"smelt/backfill"
)

// repeated is a lake in which a has two twins, and one far away in time.
func repeated(t *testing.T, lines ...string) *world {
	t.Helper()
	w := setup(t, newPipeline(t, append(lines, "unique: [id]")...))
	w.add("1/a hel-001 9 2026-11-01T10:00:00Z", "1/b nyc-001 2 2026-11-01T10:00:00Z") // first, though its partition is not
	w.add("a hel-001 1 2026-11-01T10:04:00Z")
	w.add("a hel-001 2 2026-11-01T10:08:00Z", "a hel-001 3 2026-11-02T10:00:00Z")
	same(t, "silver", w.rows(silverName, "id", "_partition_id", "_partition_offset"), "a 0 2", "a 1 0", "b 1 1")
	same(t, "quarantine", w.rows(quarantineName, "_partition_id", "_partition_offset", "detail"), "0 0 1:0", "0 1 1:0")
	return w
}

// The same rows survive any replay.
func TestSurvivors(t *testing.T) {
	t.Parallel()
	w := repeated(t)
	heads := w.heads()
	for _, scope := range []backfill.Scope{{All: true}, {Quarantined: true}, {Where: "id = 'a'"}} {
		if r := w.run(scope); r.Differs || r.Published {
			t.Errorf("%s: got %+v", scope, r)
		}
	}
	if !maps.Equal(w.heads(), heads) {
		t.Error("something was committed")
	}
	w.locate("hel-001=Helsinki", "nyc-001=New York")
	if r := w.run(backfill.Scope{ReferenceChanges: true}); r.Differing != 2 || r.Entered+r.Departed != 0 || len(r.Released)+len(r.Rejected) > 0 {
		t.Errorf("corrected: got %+v", r)
	}
	same(t, "silver", w.rows(silverName, "id", "v", "city"), "a 3 Helsinki", "a 9 Helsinki", "b 2 New York")
	w.whole()
}

// When a row leaves silver, its first duplicate takes its place, and the other duplicates then name that one.
func TestTwinComesBack(t *testing.T) {
	t.Parallel()
	w := repeated(t)
	p := w.process()
	p.pipeline = newPipeline(t, "expect: {small: v < 5}", "unique: [id]")
	r, err := w.open(p, backfill.Scope{Where: "v = 9"}).Run(t.Context(), nil)
	if err != nil || r.Departed != 1 || r.Entered != 1 || r.Rows != 3 || r.RowsWere != 3 {
		t.Errorf("got %+v, %v", r, err)
	}
	if !maps.Equal(r.Released, map[string]int64{"duplicate": 2}) || !maps.Equal(r.Rejected, map[string]int64{"duplicate": 1, "small": 1}) {
		t.Errorf("out of quarantine came %v, in %v", r.Released, r.Rejected)
	}
	same(t, "silver", w.rows(silverName, "id", "v"), "a 1", "a 3", "b 2")
	same(t, "quarantine", w.rows(quarantineName, "_partition_id", "_partition_offset", "reason", "detail"), "0 1 duplicate 0:0", "1 0 small ")
	w.whole()

	// Once corrected, it does not replace the row that has taken its place.
	if r := w.run(backfill.Scope{Quarantined: true}); r.Entered+r.Departed != 0 || !maps.Equal(r.Rejected, map[string]int64{"duplicate": 1}) {
		t.Errorf("mended: got %+v", r)
	}
	same(t, "silver", w.rows(silverName, "id", "v"), "a 1", "a 3", "b 2")
	same(t, "quarantine", w.rows(quarantineName, "_partition_id", "_partition_offset", "reason", "detail"), "0 1 duplicate 0:0", "1 0 duplicate 0:0")
	w.whole()
}

// When the twins are as bad, the next one that is not takes the place.
func TestTwinsOfTwins(t *testing.T) {
	t.Parallel()
	w := repeated(t)
	p := w.process()
	p.pipeline = newPipeline(t, "expect: {even: v % 2 = 0}", "unique: [id]")
	r, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil)
	if err != nil || r.Departed != 2 || r.Entered != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	same(t, "silver", w.rows(silverName, "id", "v"), "a 2", "b 2")
	same(t, "quarantine", w.rows(quarantineName, "_partition_id", "_partition_offset", "reason", "detail"), "0 0 even ", "0 2 even ", "1 0 even ")
	w.whole()
	if r, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil); err != nil || r.Differs {
		t.Errorf("again: got %+v, %v", r, err)
	}
}

// A key that another transform makes another joins what was apart, and parts what
// was joined.
func TestKeyChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		id         string // in silver.sql
		silver     []string
		quarantine []string
	}{
		{"joined", "lower(id)", []string{"a 2", "c 3", "c 6"}, []string{"0:0 0:1", "0:3 0:2", "0:4 0:2"}},
		{"parted", "id || v", []string{"A1 1", "a2 2", "c3 3", "c4 4", "c5 5", "c6 6"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, newPipeline(t, "unique: [id]"))
			w.add("A hel-001 1 2026-11-01T10:00:00Z", "a hel-001 2 2026-11-01T10:01:00Z", "c hel-001 3 2026-11-01T10:02:00Z")
			w.add("c hel-001 4 2026-11-01T10:03:00Z", "c hel-001 5 2026-11-01T10:04:00Z", "c hel-001 6 2026-11-01T11:00:00Z")
			p := w.process()
			p.pipeline = newPipeline(t, "unique: [id]")
			p.pipeline.Silver.SQL = strings.Replace(silverSQL, "id,", c.id+" AS id,", 1)
			if _, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			same(t, "silver", w.rows(silverName, "id", "v"), c.silver...)
			var quarantine []string
			for _, row := range w.rows(quarantineName, "_partition_id", "_partition_offset", "detail") {
				f := strings.Fields(row)
				quarantine = append(quarantine, f[0]+":"+f[1]+" "+f[2])
			}
			same(t, "quarantine", quarantine, c.quarantine...)
			w.whole()
			if r, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil); err != nil || r.Differs {
				t.Errorf("again: got %+v, %v", r, err)
			}
		})
	}
}

// A row that the stage takes in while its twin is on the way out of quarantine
// stays, and the twin does not come: also where silver had no rows before.
func TestTwinMeanwhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ when, there string }{
		{"rebuilt", ""}, {"tagged", "z hel-001 -1 2026-11-01T10:00:00Z"},
	} {
		t.Run(c.when+" "+c.there, func(t *testing.T) {
			t.Parallel()
			w := setup(t, newPipeline(t, "unique: [id]", "expect: {small: v < 0}"))
			w.add("a hel-001 1 2026-11-01T10:00:00Z")
			want := []string{"a 2"}
			if c.there != "" {
				w.add("1/" + c.there)
				want = append(want, "z -1")
			}
			p := w.process()
			p.pipeline = newPipeline(t, "unique: [id]")
			other := w.process()
			other.pipeline, other.Parts.Locker = p.pipeline, free{}
			stage, done := w.stage(other), false
			p.reach = func(step string) error {
				if step == c.when && !done {
					done = true
					w.take(stage, "a hel-001 2 2026-11-01T10:01:00Z")
				}
				return nil
			}
			if _, err := w.open(p, backfill.Scope{Quarantined: true}).Run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			same(t, "silver", w.rows(silverName, "id", "v"), want...)
			same(t, "quarantine", w.rows(quarantineName, "_partition_offset", "reason", "detail"), "0 duplicate 0:1")
			w.whole()
		})
	}
}

// The event time may be a part of the key.
func TestTimeInKey(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t, "expect: {small: v < 5}", "unique: [id, ts]"))
	w.add("a hel-001 9 2026-11-01T10:00:00Z", "a hel-001 1 2026-11-01T10:01:00Z", "a hel-001 2 2026-11-01T10:01:00Z")
	p := w.process()
	p.pipeline = newPipeline(t, "unique: [id, ts]")
	r, err := w.open(p, backfill.Scope{Quarantined: true}).Run(t.Context(), nil)
	if err != nil || r.Entered != 1 || !maps.Equal(r.Released, map[string]int64{"small": 1}) {
		t.Errorf("got %+v, %v", r, err)
	}
	same(t, "silver", w.rows(silverName, "id", "v"), "a 9", "a 1")
	same(t, "quarantine", w.rows(quarantineName, "_partition_id", "_partition_offset", "detail"), "0 2 0:1")
	w.whole()
}
