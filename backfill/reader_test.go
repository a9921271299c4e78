package backfill_test

import (
	"slices"
	"strings"
	"testing"

	"smelt/backfill"
	"smelt/internal/store"
)

// reader looks at a table again and again, and notes each answer that differs
// from the one before.
type reader struct {
	w       *world
	table   string
	columns []string
	at      int64
	answers []string
}

func (r *reader) look() {
	r.w.t.Helper()
	current, _ := r.w.load(r.table).Current()
	if current.ID == r.at {
		return
	}
	r.at = current.ID
	rows := r.w.rows(r.table, r.columns...)
	slices.Sort(rows)
	if answer := strings.Join(rows, ", "); !slices.Contains(r.answers, answer) {
		r.answers = append(r.answers, answer)
	}
}

// One who reads while a backfill goes on sees the whole old answer or the whole
// new one, of silver and then of gold.
func TestReader(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
	for _, hour := range []string{"01T10", "01T11", "02T10", "03T10"} {
		w.add("a"+hour+" hel-001 1 2026-11-"+hour+":00:00Z", "b"+hour+" nyc-001 2 2026-11-"+hour+":30:00Z")
	}
	w.refresh()
	w.locate("hel-001=Helsinki", "nyc-001=New York")
	silver := &reader{w: w, table: silverName, columns: []string{"sensor_id", "city"}}
	gold := &reader{w: w, table: goldName, columns: []string{"city", "n", "total"}}

	p := w.process()
	p.fault = func(store.Op) store.Fault { // before each call
		silver.look()
		gold.look()
		return store.None
	}
	p.reach = func(string) error {
		silver.look()
		return nil
	}
	follower, err := backfill.NewFollower(t.Context(), p.Parts.Area.Lake, w.gold(p))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.open(p, backfill.Scope{ReferenceChanges: true}).Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	silver.look()
	gold.look()
	four := func(row string) string { return strings.TrimSuffix(strings.Repeat(row+", ", 4), ", ") }
	same(t, "silver", silver.answers,
		four("hel-001 Espoo")+", "+four("nyc-001 New York"),
		four("hel-001 Helsinki")+", "+four("nyc-001 New York"))
	same(t, "gold before it follows", gold.answers, four("Espoo 1 1")+", "+four("New York 1 2"))

	windows, err := follower.Follow(t.Context())
	if err != nil || !slices.Equal(windows, hourly(4)) {
		t.Errorf("the follower counts %v, %v", windows, err)
	}
	gold.look()
	same(t, "gold", gold.answers,
		four("Espoo 1 1")+", "+four("New York 1 2"),
		four("Helsinki 1 1")+", "+four("New York 1 2"))
	if again, err := follower.Follow(t.Context()); err != nil || !slices.Equal(again, hourly(4)) {
		t.Errorf("the follower counts again %v, %v", again, err)
	}
}

// The first refresh makes the table, and what another process has refreshed counts
// too.
func TestFollower(t *testing.T) {
	t.Parallel()
	w := history(t)
	p := w.process()
	follower, err := backfill.NewFollower(t.Context(), p.Parts.Area.Lake, w.gold(p))
	if err != nil {
		t.Fatal(err)
	}
	w.refresh()
	w.run(backfill.Scope{ReferenceChanges: true})
	windows, err := follower.Follow(t.Context())
	if err != nil || !slices.Equal(windows, hourly(5+2)) {
		t.Errorf("the follower counts %v, %v", windows, err)
	}
	same(t, "gold", w.rows(goldName, "hour", "city", "n"),
		"2026-11-01 10:00:00+00 Helsinki 1", "2026-11-01 10:00:00+00 New York 1", "2026-11-01 11:00:00+00 New York 1",
		"2026-11-02 10:00:00+00 Helsinki 1", "2026-11-02 10:00:00+00 New York 1", "2026-11-02 12:00:00+00 Helsinki 1",
		"2026-11-02 23:00:00+00 New York 1")
}
