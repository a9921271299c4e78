package backfill_test

import (
	"errors"
	"maps"
	"testing"

	"smelt"
	"smelt/backfill"
	"smelt/internal/pipetest"
)

// A stage or a backfill with older references than an earlier backfill, for example from a restored database, commits
// nothing.
func TestFloor(t *testing.T) {
	t.Parallel()
	w := history(t)
	behind := w.behind(1, "hel-001=Espoo", "nyc-001=New York")
	w.run(backfill.Scope{ReferenceChanges: true})
	if l := w.ledger(); l.ReferenceFloor != 2 || l.Corrected != 2 {
		t.Errorf("the ledger says %+v", l)
	}
	w.receive("h hel-001 8 2026-11-02T13:00:00Z")
	heads := w.heads()
	if _, err := behind.Step(t.Context()); !errors.Is(err, smelt.ErrDatabase) {
		t.Errorf("the stage: got %v, want an ErrDatabase", err)
	}
	p := w.process()
	restored := pipetest.NewReferences()
	locate(restored, "hel-001=Espoo", "nyc-001=New York")
	p.Parts.References = restored
	if _, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil); !errors.Is(err, smelt.ErrDatabase) {
		t.Errorf("a backfill: got %v, want an ErrDatabase", err)
	}
	if !maps.Equal(w.heads(), heads) {
		t.Error("something was committed")
	}
	w.add() // by a stage that is up to date
	same(t, "cities of hel-001", w.distinct("sensor_id", "city"), "hel-001 Helsinki", "nyc-001 New York")
	w.whole()
}

// A scope without references sets the floor, too, so that its result is never undone.
func TestFloorOfAnyScope(t *testing.T) {
	t.Parallel()
	w := history(t)
	behind := w.behind(1, "hel-001=Espoo", "nyc-001=New York")
	w.run(backfill.Scope{Where: "sensor_id = 'hel-001'"})
	if l := w.ledger(); l.ReferenceFloor != 2 || l.Corrected != 0 {
		t.Errorf("the ledger says %+v", l)
	}
	w.receive("h hel-001 8 2026-11-02T13:00:00Z")
	if _, err := behind.Step(t.Context()); !errors.Is(err, smelt.ErrDatabase) {
		t.Errorf("got %v, want an ErrDatabase", err)
	}
}
