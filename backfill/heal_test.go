package backfill_test

import (
	"fmt"
	"testing"

	"smelt"
	"smelt/backfill"
	"smelt/internal/line"
)

// heal steps a healer, and gives what it did and how often it called the store.
func (w *world) heal(h *backfill.Healer, p *process) (smelt.Progress, int) {
	w.t.Helper()
	p.calls = nil
	progress, err := h.Step(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return progress, len(p.calls)
}

// Rows that found no reference row find it once it is there, without anybody's
// doing; the others stay as they are, and nobody looks at them again before a
// reference changes.
func TestHealer(t *testing.T) {
	t.Parallel()
	w := setup(t, pipeline(t))
	p := w.process()
	h := backfill.NewHealer(line.SilverConfig(p.pipeline, p.Parts))
	if h.Name() != "heal.readings" {
		t.Errorf("its name is %q", h.Name())
	}
	if got, _ := w.heal(h, p); got != (smelt.Progress{}) {
		t.Errorf("without a table: got %+v", got)
	}
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b new-001 2 2026-11-01T10:00:00Z")
	w.add("c zzz-001 3 2026-11-02T10:00:00Z")
	w.add("d hel-001 4 2026-11-02T11:00:00Z")
	before, files := w.all(silverName), w.files(silverName)

	got, _ := w.heal(h, p)
	if got != (smelt.Progress{}) {
		t.Errorf("with nothing to heal: got %+v", got)
	}
	same(t, "files read", p.keys("get", "silver/readings/data/"), keysOf(files[:2])...) // the third has no such row
	same(t, "objects read", p.keys("get", "bronze/"))
	if _, calls := w.heal(h, p); calls > 0 {
		t.Errorf("at the same version it calls the store %d times", calls)
	}

	w.locate("hel-001=Espoo", "new-001=Oulu")
	if got, _ = w.heal(h, p); got.Records != 1 || got.More {
		t.Errorf("got %+v", got)
	}
	same(t, "objects read", p.keys("get", "bronze/"), w.stored("bronze/")[0])
	same(t, "cities", w.rows(silverName, "id", "city", "_unmatched"), "a Espoo ", "b Oulu ", "c  locations", "d Espoo ")
	for i, row := range w.all(silverName) {
		if (row != before[i]) != (i == 1) {
			t.Errorf("row %d was\n  %s\nand is\n  %s", i, before[i], row)
		}
	}
	if refs := w.load(silverName).Refs(); len(refs) != 1 {
		t.Errorf("it has left the tags %v", refs)
	}
	w.whole()

	if _, calls := w.heal(h, p); calls > 0 {
		t.Errorf("when it is done it calls the store %d times", calls)
	}
	heads := w.heads()[silverName]
	w.locate("hel-001=Helsinki", "new-001=Oulu") // no row that it has to do with
	if got, _ := w.heal(h, p); got.Records != 0 || w.heads()[silverName] != heads {
		t.Errorf("after another change: got %+v", got)
	}
	w.locate("hel-001=Helsinki", "new-001=Oulu", "zzz-001=Turku")
	if got, _ := w.heal(h, p); got.Records != 1 {
		t.Errorf("after the last change: got %+v", got)
	}
	same(t, "cities", w.rows(silverName, "id", "city", "_unmatched"), "a Espoo ", "b Oulu ", "c Turku ", "d Espoo ")
	w.whole()
}

// A reference row that is there, but of which silver shows nothing, is found too.
func TestHealedToNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, pipeline(t))
	w.add("a new-001 1 2026-11-01T10:00:00Z")
	w.locate("new-001==a note")
	p := w.process()
	p.pipeline = w.pipeline
	h := backfill.NewHealer(line.SilverConfig(p.pipeline, p.Parts))
	if got, _ := w.heal(h, p); got.Records != 1 {
		t.Errorf("got %+v", got)
	}
	same(t, "silver", w.rows(silverName, "id", "city", "_unmatched"), "a  ")
	w.whole()
}

// A step of the healer is bounded: of much it heals the newest first, and says that
// there is more.
func TestHealerIsBounded(t *testing.T) {
	t.Parallel()
	const perDay, days = 30_000, 4 // two days are more than a step takes
	w := setup(t, pipeline(t))
	for d := range days {
		var readings []string
		for i := range perDay {
			readings = append(readings, fmt.Sprintf("r%d new-001 1 2026-11-%02dT%02d:00:00Z", i, d+1, i%24))
		}
		w.add(readings...)
	}
	w.locate("new-001=Oulu")
	p := w.process()
	h := backfill.NewHealer(line.SilverConfig(p.pipeline, p.Parts))
	for i, want := range []struct {
		records int64
		more    bool
		healed  []string
	}{
		{2 * perDay, true, []string{"01 0", "02 0", "03 30000", "04 30000"}},
		{2 * perDay, true, []string{"01 30000", "02 30000", "03 30000", "04 30000"}},
		{0, false, []string{"01 30000", "02 30000", "03 30000", "04 30000"}},
	} {
		got, _ := w.heal(h, p)
		if got.Records != want.records || got.More != want.more {
			t.Errorf("step %d: got %+v", i, got)
		}
		same(t, fmt.Sprintf("healed after step %d", i), w.healed(), want.healed...)
	}
	if _, calls := w.heal(h, p); calls > 0 {
		t.Errorf("when it is done it calls the store %d times", calls)
	}
}

// healed counts the rows with a city, by day.
func (w *world) healed() (counts []string) {
	w.t.Helper()
	byDay := map[string]int{}
	for _, row := range w.rows(silverName, "ts", "city") {
		if len(row) > len("2026-11-01 00:00:00+00 ") {
			byDay[row[8:10]]++
		}
	}
	for d := range 4 {
		day := fmt.Sprintf("%02d", d+1)
		counts = append(counts, fmt.Sprintf("%s %d", day, byDay[day]))
	}
	return counts
}
