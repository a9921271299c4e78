package backfill_test

import (
	"fmt"
	"strings"
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

// Rows without a reference row are corrected once it exists. The others do not change, and are not examined again
// before a reference changes.
func TestHealer(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
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

// A step of the stage that began before the reference row was there may come after a
// look that found nothing: its rows are healed too.
func TestHealsWhatComesLate(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
	w.add("a zzz-001 1 2026-11-01T10:00:00Z")
	behind := w.behind(1, "hel-001=Espoo", "nyc-001=New York")
	w.locate("hel-001=Espoo", "new-001=Oulu")
	p := w.process()
	h := backfill.NewHealer(line.SilverConfig(p.pipeline, p.Parts))
	if got, _ := w.heal(h, p); got.Records != 0 {
		t.Errorf("with nothing to heal: got %+v", got)
	}
	w.take(behind, "b new-001 2 2026-11-01T10:00:00Z")
	if got, _ := w.heal(h, p); got.Records != 1 {
		t.Errorf("of the step that came late: got %+v", got)
	}
	same(t, "cities", w.rows(silverName, "id", "city", "_unmatched"), "a  locations", "b Oulu ")
	w.whole()
}

// A reference row is found even if silver has no column of it.
func TestHealedToNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
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
	w := setup(t, newPipeline(t))
	for day := range 4 {
		w.add(fmt.Sprintf("a new-001 1 2026-11-0%dT10:00:00Z", day+1), fmt.Sprintf("b new-001 2 2026-11-0%dT11:00:00Z", day+1))
	}
	w.locate("new-001=Oulu")
	p := w.process()
	h := backfill.NewHealer(line.SilverConfig(p.pipeline, p.Parts))
	h.SetRows(3)
	for i, want := range []struct {
		records int64
		more    bool
		cities  string // of the eight readings
	}{
		{4, true, "    Oulu Oulu Oulu Oulu"},
		{4, true, "Oulu Oulu Oulu Oulu Oulu Oulu Oulu Oulu"},
		{0, false, "Oulu Oulu Oulu Oulu Oulu Oulu Oulu Oulu"},
	} {
		got, _ := w.heal(h, p)
		if got.Records != want.records || got.More != want.more {
			t.Errorf("step %d: got %+v", i, got)
		}
		if cities := strings.Join(w.rows(silverName, "city"), " "); cities != want.cities {
			t.Errorf("after step %d the cities are %q", i, cities)
		}
	}
	if _, calls := w.heal(h, p); calls > 0 {
		t.Errorf("when it is done it calls the store %d times", calls)
	}
}
