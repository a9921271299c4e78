package backfill_test

import (
	"slices"
	"testing"

	"smelt/backfill"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// compact merges files of a table, as another engine does.
func (w *world) compact(name string, places ...int) {
	w.t.Helper()
	ctx, t, area := w.t.Context(), w.load(name), w.eyes.Parts.Area
	files := pick(w.files(name), places)
	paths, release, err := area.Fetch(ctx, files)
	if err != nil {
		w.t.Fatal(err)
	}
	defer release()
	written, err := w.session.WriteParquet(ctx, duck.ReadParquet(t.Columns(), paths), w.t.TempDir(), duck.Layout{
		FieldIDs: t.FieldIDs(), Partition: duck.PartitionValues(t.Partition()), Sort: "_partition_offset",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	staged, err := area.Upload(ctx, t, written)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := t.Commit(ctx, table.Change{Remove: files, Add: staging.Files(staged), Replace: true}); err != nil {
		w.t.Fatal(err)
	}
}

// Commits during a backfill repeat only the part whose files were replaced. New rows in scope are included.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	past := history(t)
	for _, c := range []struct {
		name     string
		step     string // when it happens
		commit   func(w *world)
		replaced []int // objects that are read from then on
	}{
		{"the first part's file is merged", "caught up", func(w *world) { w.compact(silverName, 0, 1) }, []int{0, 2}},
		{"other files are merged", "caught up", func(w *world) { w.compact(silverName, 1, 3) }, nil},
		{"all files are merged", "locked", func(w *world) { w.compact(silverName, 0, 1, 2, 3, 4, 5) }, []int{0, 2, 5}},
		{"the last part's file is merged at the last moment", "tagged", func(w *world) { w.compact(silverName, 3, 5) }, []int{5}},
		{"rows are appended under the lock", "locked", func(w *world) { w.appendOld() }, []int{6}},
		{"rows are appended at the last moment", "tagged", func(w *world) { w.appendOld() }, []int{6}},
		{"rows are appended that are right", "tagged", func(w *world) { w.appendNew() }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := past.clone(t)
			behind := w.behind(1, "hel-001=Espoo", "nyc-001=New York")
			p, parts, before := w.process(), 0, 0
			done := false
			p.reach = func(step string) error {
				if step == "rebuilt" {
					if parts++; parts == 1 { // rows in scope, which the next round finds
						w.take(behind, "h hel-001 8 2026-11-02T13:00:00Z")
					}
				}
				if step == c.step && !done {
					done, before = true, len(p.calls)
					c.commit(w)
				}
				return nil
			}
			r, err := w.open(p, backfill.Scope{ReferenceChanges: true}).Run(t.Context(), nil)
			if err != nil || !r.Published || !done {
				t.Fatalf("got %+v, %v", r, err)
			}
			p.calls = p.calls[before:]
			same(t, "objects read again", p.keys("get", "bronze/"), pick(w.stored("bronze/"), c.replaced)...)
			same(t, "cities by sensor", w.distinct("sensor_id", "city"), "hel-001 Helsinki", "nyc-001 New York")
			w.whole()
		})
	}
}

// appendOld has a stage append a reading with the city of old.
func (w *world) appendOld() {
	w.t.Helper()
	w.take(w.behind(1, "hel-001=Espoo", "nyc-001=New York"), "i hel-001 9 2026-11-01T10:15:00Z")
}

// appendNew has a stage append a reading with the city of now.
func (w *world) appendNew() {
	w.t.Helper()
	w.take(w.behind(2, "hel-001=Helsinki"), "i hel-001 9 2026-11-01T10:15:00Z")
}

// distinct reads columns of silver, without what repeats.
func (w *world) distinct(columns ...string) []string {
	w.t.Helper()
	rows := w.rows(silverName, columns...)
	slices.Sort(rows)
	return slices.Compact(rows)
}
