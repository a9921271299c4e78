package backfill_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"smelt/backfill"
	"smelt/internal/table"
)

// history is two days of readings in five objects, each with one file; the last one after hel-001 moved to Helsinki.
func history(t *testing.T) *world {
	t.Helper()
	w := setup(t, newPipeline(t))
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 2 2026-11-01T10:30:00Z")
	w.add("c nyc-001 3 2026-11-01T11:00:00Z")
	w.add("d hel-001 4 2026-11-02T10:00:00Z", "e nyc-001 5 2026-11-02T10:00:00Z")
	w.add("f nyc-001 6 2026-11-02T23:59:59Z")
	w.locate("hel-001=Helsinki", "nyc-001=New York")
	w.add("g hel-001 7 2026-11-02T12:00:00Z")
	return w
}

var day = backfill.Scope{From: at("2026-11-01T00:00:00Z"), To: at("2026-11-02T00:00:00Z")}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// A backfill reads the files that may have rows in scope and the objects with their records. It writes the files in
// which a row differs. All other rows keep all their columns.
func TestCost(t *testing.T) {
	t.Parallel()
	w := history(t)
	objects := w.stored("bronze/")
	for _, c := range []struct {
		name     string
		scope    backfill.Scope
		read     []int // files of silver, by the order of their records
		got      []int // objects of bronze
		replaced []int // files
		differ   []int // rows
	}{
		{"a day", day, []int{0, 1}, []int{0, 1}, []int{0}, []int{0}},
		// What was enriched with the newest version is not even looked at; of the rest
		// the rows tell.
		{"what has changed", backfill.Scope{ReferenceChanges: true}, []int{0, 1, 2, 3}, []int{2}, []int{2}, []int{3}},
		{"where", backfill.Scope{Where: "v = 6"}, []int{3}, []int{3}, nil, nil},
	} {
		files, before := w.files(silverName), w.all(silverName)
		p := w.process()
		r, err := w.open(p, c.scope).Run(t.Context(), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		same(t, c.name+": files read", p.keys("get", "silver/readings/data/"), keysOf(pick(files, c.read))...)
		same(t, c.name+": objects read", p.keys("get", "bronze/"), pick(objects, c.got)...)
		if r.Objects != len(c.got) || r.Removed != len(c.replaced) || r.Added != len(c.replaced) || r.Differing != int64(len(c.differ)) {
			t.Errorf("%s: got %+v", c.name, r)
		}
		after := w.files(silverName)
		gone := slices.DeleteFunc(slices.Clone(files), func(f table.File) bool {
			return slices.ContainsFunc(after, func(a table.File) bool { return a.Key == f.Key })
		})
		same(t, c.name+": files replaced", keysOf(gone), keysOf(pick(files, c.replaced))...)
		for i, row := range w.all(silverName) {
			if (row != before[i]) != slices.Contains(c.differ, i) {
				t.Errorf("%s: row %d was\n  %s\nand is\n  %s", c.name, i, before[i], row)
			}
		}
		w.whole()
	}
	same(t, "silver", w.rows(silverName, "id", "city", "_reference_version"),
		"a Helsinki 2", "b New York 1", "c New York 1", "d Helsinki 2", "e New York 1", "f New York 1", "g Helsinki 2")
	for i, row := range w.rows(silverName, "_rebuilt_at") {
		if (row != "") != (i == 0 || i == 3) {
			t.Errorf("row %d was rebuilt at %q", i, row)
		}
	}
}

// A row that is rebuilt tells still when it came in.
func TestIngestedAt(t *testing.T) {
	t.Parallel()
	w := history(t)
	before := w.rows(silverName, "_ingested_at")
	if r := w.run(backfill.Scope{All: true}); r.Differing != 2 || r.Replayed != 7 {
		t.Errorf("got %+v", r)
	}
	same(t, "_ingested_at", w.rows(silverName, "_ingested_at"), before...)
	if strings.TrimSpace(before[0]) == "" {
		t.Error("no row says when it came in")
	}
}

func pick[E any](all []E, places []int) []E {
	out := make([]E, len(places))
	for i, p := range places {
		out[i] = all[p]
	}
	return out
}
