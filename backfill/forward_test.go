package backfill_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"smelt/backfill"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// back moves silver to a snapshot, as smelt rollback does.
func (w *world) back(to int64, tag string) {
	w.t.Helper()
	silver := w.load(silverName)
	if _, err := silver.Rollback(w.t.Context(), to, ledger.Carry(silver, to), tag); err != nil {
		w.t.Fatal(err)
	}
}

// A rollback that is undone once the snapshots in between have expired finds what
// had been set aside. One to a snapshot of which quarantine has no state any more takes
// out what was set aside since, to the very record.
func TestRollbackAndForward(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, pipeline(t))
		w.add("a hel-001 1 2026-11-01T10:00:00Z", `b hel-001 "hot" 2026-11-01T10:00:00Z`)
		early, _ := w.load(silverName).Current()
		var middle table.Snapshot
		for i := range 60 {
			w.add(fmt.Sprintf(`c%d hel-001 "hot" 2026-11-01T10:00:00Z`, i))
			time.Sleep(time.Second)
			if i == 29 {
				middle, _ = w.load(silverName).Current()
			}
		}
		if err := w.eyes.Parts.Area.Lake.Tag(t.Context(), silverName, "middle", middle.ID, 0); err != nil {
			t.Fatal(err)
		}
		late, _ := w.load(silverName).Current()
		w.whole()
		sent := w.sent[0]

		w.back(early.ID, "smelt-rollback-1")
		p := w.process()
		outbox := w.stage(p).Refiner.Outbox()
		if err := outbox.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.sent[0] = 2
		w.whole()
		time.Sleep(time.Hour)
		w.expire(p.Parts)
		if n := len(w.load(quarantineName).Snapshots()); n > 10 {
			t.Fatalf("%d snapshots of quarantine are left: nothing has expired", n)
		}

		w.back(late.ID, "")
		if err := outbox.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.sent[0] = sent
		w.whole()

		w.back(middle.ID, "")
		if err := outbox.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.sent[0] = 2 + 30
		w.whole()
	})
}

// What quarantine was in a history that was given up is nothing to go back to, be
// its counts as they should.
func TestRollbackPastAnotherHistory(t *testing.T) {
	t.Parallel()
	w := setup(t, pipeline(t, "expect: {somewhere: \"city <> 'Nowhere'\"}"))
	w.locate("hel-001=Espoo", "nyc-001=Nowhere")
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 2 2026-11-01T10:00:00Z")
	first, _ := w.load(silverName).Current()
	w.locate("hel-001=Nowhere", "nyc-001=New York")
	w.run(backfill.Scope{All: true})
	w.run(backfill.Scope{Quarantined: true})
	same(t, "set aside", w.rows(quarantineName, "_partition_offset"), "0")
	w.back(first.ID, "")
	w.locate("hel-001=Espoo", "nyc-001=Nowhere")
	w.add("c hel-001 3 2026-11-01T11:00:00Z")
	then, _ := w.load(silverName).Current()
	w.add(`d hel-001 "hot" 2026-11-01T12:00:00Z`)
	w.whole()

	w.back(then.ID, "")
	if err := w.silver.Refiner.Outbox().Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.sent[0]--
	w.whole()
	same(t, "set aside at last", w.rows(quarantineName, "_partition_offset"), "1")
}
