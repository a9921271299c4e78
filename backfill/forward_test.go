package backfill_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/internal/table"
	"smelt/silver"
)

// back moves silver and quarantine to a snapshot of silver, as smelt rollback does.
func (w *world) back(to int64) {
	w.t.Helper()
	lake := w.eyes.Parts.Area.Lake
	pair, err := silver.LoadPair(w.t.Context(), lake, w.pipeline.Name)
	if err == nil {
		err = pair.Rollback(w.t.Context(), lake, to, "")
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// backAlone moves one table, as another engine does, and has silver's stage look.
func (w *world) backAlone(name string, to int64) {
	w.t.Helper()
	t := w.load(name)
	if _, err := t.Rollback(w.t.Context(), to, nil, ""); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.silver.Pair(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// A rollback of silver takes quarantine along, and so does one that undoes it. When
// another engine moves one of the two alone, quarantine is brought to where silver is.
func TestRollbackAndForward(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, newPipeline(t))
		w.add("a hel-001 1 2026-11-01T10:00:00Z", `b hel-001 "hot" 2026-11-01T10:00:00Z`)
		early, _ := w.load(silverName).Current()
		rejected, _ := w.load(quarantineName).Current()
		var middle table.Snapshot
		for i := range 60 {
			w.add(fmt.Sprintf(`c%d hel-001 "hot" 2026-11-01T10:00:00Z`, i))
			time.Sleep(time.Second)
			if i == 29 {
				middle, _ = w.load(silverName).Current()
			}
		}
		late, _ := w.load(silverName).Current()
		w.whole()
		for _, step := range []struct {
			to   int64
			sent int64
		}{{early.ID, 2}, {late.ID, 62}, {middle.ID, 32}, {early.ID, 2}, {middle.ID, 32}} {
			w.back(step.to)
			w.sent[0] = step.sent
			w.whole()
		}
		w.backAlone(silverName, late.ID)
		w.sent[0] = 62
		w.whole()
		w.backAlone(quarantineName, rejected.ID)
		w.whole()
		w.backAlone(silverName, early.ID)
		w.sent[0] = 2
		w.whole()
	})
}

// Where quarantine no longer has what belongs to silver, the stage says what to do.
func TestPartedForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, newPipeline(t))
		for i := range 60 {
			w.add(fmt.Sprintf(`c%d hel-001 "hot" 2026-11-01T10:00:00Z`, i))
			time.Sleep(time.Second)
		}
		then, newest := w.load(silverName).Ancestors()[50], w.load(silverName).Ancestors()[0]
		time.Sleep(time.Hour)
		policy := table.Retention{Last: 1, Hourly: time.Nanosecond, Daily: time.Nanosecond}
		if _, err := w.eyes.Parts.Area.Lake.Expire(t.Context(), quarantineName, policy); err != nil {
			t.Fatal(err)
		}
		if _, err := w.load(silverName).Rollback(t.Context(), then.ID, nil, ""); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("./bin/smelt rollback silver.readings %d takes both", newest.ID)
		_, err := w.silver.Step(t.Context())
		if !errors.Is(err, smelt.ErrStore) || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want %q", err, want)
		}
		w.back(newest.ID)
		w.add("a hel-001 1 2026-11-01T10:00:00Z")
		w.whole()
	})
}

// A table that another engine has dropped is not taken for an empty one: silver goes on
// only with the quarantine that belongs to it.
func TestDroppedAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
	w.add("a hel-001 1 2026-11-01T10:00:00Z", `b hel-001 "hot" 2026-11-01T10:00:00Z`)
	drop := func(name string) {
		if err := w.catalog.Drop(t.Context(), name, w.load(name).MetadataLocation()); err != nil {
			t.Fatal(err)
		}
	}
	drop(quarantineName)
	if _, err := w.silver.Step(t.Context()); !errors.Is(err, smelt.ErrStore) {
		t.Errorf("without quarantine: got %v", err)
	}
	drop(silverName)
	w.add("c hel-001 1 2026-11-01T10:00:00Z")
	w.whole()
}

// What quarantine was in a history that was given up is nothing to go back to, be
// its counts as they should.
func TestRollbackPastAnotherHistory(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t, "expect: {somewhere: \"city <> 'Nowhere'\"}"))
	w.locate("hel-001=Espoo", "nyc-001=Nowhere")
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 2 2026-11-01T10:00:00Z")
	first, _ := w.load(silverName).Current()
	w.locate("hel-001=Nowhere", "nyc-001=New York")
	w.run(backfill.Scope{All: true})
	w.run(backfill.Scope{Quarantined: true})
	same(t, "set aside", w.rows(quarantineName, "_partition_offset"), "0")
	w.backAlone(silverName, first.ID)
	w.locate("hel-001=Espoo", "nyc-001=Nowhere")
	w.add("c hel-001 3 2026-11-01T11:00:00Z")
	then, _ := w.load(silverName).Current()
	w.add(`d hel-001 "hot" 2026-11-01T12:00:00Z`)
	w.whole()

	w.backAlone(silverName, then.ID)
	w.sent[0]--
	w.whole()
	same(t, "set aside at last", w.rows(quarantineName, "_partition_offset"), "1")
}
