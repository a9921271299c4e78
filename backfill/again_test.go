package backfill_test

import (
	"maps"
	"slices"
	"testing"

	"smelt/backfill"
)

// What was done once is done: again nothing is written.
func TestAgain(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.add(`x hel-001 "hot" 2026-11-02T12:00:00Z`)
	for _, c := range []struct {
		scope  backfill.Scope
		differ int64 // rows, the first time
	}{
		{backfill.Scope{Where: "v = 4"}, 1},
		{backfill.Scope{ReferenceChanges: true}, 1},
		{backfill.Scope{All: true}, 0},
		{backfill.Scope{Quarantined: true}, 0},
	} {
		scope := c.scope
		if first := w.run(scope); first.Differing != c.differ || first.Published != (c.differ > 0) {
			t.Errorf("%s: got %+v", scope, first)
		}
		heads, stored := w.heads(), w.stored("")
		r := w.run(scope)
		if r.Differs || r.Published || r.After != 0 || r.Differing+r.Entered+r.Departed != 0 || r.Added+r.Removed != 0 || r.Tag != "" {
			t.Errorf("%s again: got %+v", scope, r)
		}
		if !maps.Equal(w.heads(), heads) || !slices.Equal(w.stored(""), stored) {
			t.Errorf("%s again: something was written", scope)
		}
		w.whole()
	}
}

// A change that no row shows is noted, once, so that its rows are not replayed for
// ever.
func TestNote(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.run(backfill.Scope{ReferenceChanges: true})
	w.locate("hel-001=Helsinki=by the sea", "nyc-001=New York")
	before, snapshots := w.all(silverName), len(w.load(silverName).Ancestors())
	r := w.run(backfill.Scope{ReferenceChanges: true})
	if r.Differs || !r.Published || r.Replayed != 3 || r.Differing != 0 || r.Added+r.Removed != 0 {
		t.Errorf("got %+v", r)
	}
	same(t, "silver", w.all(silverName), before...)
	if n := len(w.load(silverName).Ancestors()); n != snapshots+1 {
		t.Errorf("there are %d snapshots, want one more than %d", n, snapshots)
	}
	if l := w.ledger(); l.Corrected != 3 || l.ReferenceFloor != 3 {
		t.Errorf("the ledger says %+v", l)
	}
	if r := w.run(backfill.Scope{ReferenceChanges: true}); r.Published || r.Replayed != 0 {
		t.Errorf("the next run: got %+v", r)
	}
	w.whole()
}

// What a backfill was is in its snapshot, and what was there before has a name in
// every table.
func TestTag(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.add(`x hel-001 "hot" 2026-11-02T12:00:00Z`)
	w.refresh()
	before := map[string]int64{}
	for _, name := range []string{silverName, quarantineName, goldName} {
		current, _ := w.load(name).Current()
		before[name] = current.ID
	}
	r := w.run(backfill.Scope{ReferenceChanges: true})
	for name, id := range before {
		if got := w.load(name).Refs()[r.Tag]; got != id || r.Tag == "" {
			t.Errorf("%s has tag %q at %d, want %d", name, r.Tag, got, id)
		}
	}
	current, _ := w.load(silverName).Current()
	if r.Before != before[silverName] || r.After != current.ID {
		t.Errorf("from %d to %d, want %d to %d", r.Before, r.After, before[silverName], current.ID)
	}
	if got := current.Summary["smelt.backfill-scope"]; got != "--reference-changes" || current.Summary["smelt.backfill"] == "" {
		t.Errorf("the snapshot says %v", current.Summary)
	}
	if r.RowsWere != 7 || r.Rows != 7 || r.Pause <= 0 {
		t.Errorf("got %+v", r)
	}
}
