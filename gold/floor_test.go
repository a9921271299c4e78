package gold_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"smelt/gold"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

func TestFloor(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, c := range []struct {
		name               string
		width              time.Duration
		silver, gold, want string
	}{
		{"none", time.Hour, "", "", ""},
		{"at a window's start", time.Hour, "2026-11-28T10:00:00Z", "", "2026-11-28T10:00:00Z"},
		{"within a window", time.Hour, "2026-11-28T10:00:00.000001Z", "", "2026-11-28T11:00:00Z"},
		{"of gold", time.Hour, "", "2026-11-28T10:30:00Z", "2026-11-28T11:00:00Z"},
		{"the later of the two", 24 * time.Hour, "2026-11-28T10:00:00Z", "2026-11-26T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"before 1970", time.Hour, "1969-12-31T22:30:00Z", "", "1969-12-31T23:00:00Z"},
	} {
		got := gold.Floor(c.width, ledger.Silver{Retained: at(c.silver)}, ledger.Gold{Retained: at(c.gold)})
		if !got.Equal(at(c.want)) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// retire takes files out of silver whose rows are all older than a time, as
// retention does.
func (l *lake) retire(cutoff string) {
	l.t.Helper()
	at, err := time.Parse(time.RFC3339, cutoff)
	if err != nil {
		l.t.Fatal(err)
	}
	tbl := l.load("silver.p")
	after, _, _, err := ledger.Read[ledger.Silver](tbl)
	if err != nil {
		l.t.Fatal(err)
	}
	var c table.Change
	for _, f := range l.files(tbl) {
		if _, newest, ok := f.Range("ts"); ok && newest.Before(at) {
			c.Remove = append(c.Remove, f)
			after.Retired += f.Rows
		}
	}
	after.Retained = at
	if err := ledger.Write(&c, after); err != nil {
		l.t.Fatal(err)
	}
	if _, err := tbl.Commit(l.t.Context(), c); err != nil {
		l.t.Fatal(err)
	}
}

// step refreshes the models, and returns the windows that were recomputed.
func (l *lake) step() (windows int64) {
	l.t.Helper()
	for _, g := range l.Line.Gold {
		p, err := g.Step(l.t.Context())
		if err != nil {
			l.t.Fatal(err)
		}
		windows += p.Records
	}
	return windows
}

// TestFrozen: silver was cut off. Windows that begin before that never change.
func TestFrozen(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("a 1 2026-11-27T10:00:00Z", "b 2 2026-11-27T11:00:00Z")
	l.add("a 3 2026-11-28T09:15:00Z", "a 4 2026-11-28T10:15:00Z", "a 5 2026-11-28T11:15:00Z")
	l.add("a 6 2026-11-29T10:00:00Z")
	l.refresh()
	whole := l.state("hourly")
	before, _ := l.load("silver.p").Current()

	l.retire("2026-11-28T10:30:00Z") // the day before goes; of the day after it no file may
	if got := l.step(); got != 0 {
		t.Errorf("after the cut %d windows were computed, want none", got)
	}
	same(t, "rows after the cut", changed(whole.rows, l.state("hourly").rows))

	l.add("a 7 2026-11-27T10:30:00Z", "a 8 2026-11-28T10:45:00Z", "a 9 2026-11-26T10:00:00Z")
	if got := l.step(); got != 0 {
		t.Errorf("of events of frozen windows %d were computed, want none", got)
	}
	l.add("a 10 2026-11-27T10:40:00Z", "a 11 2026-11-28T11:45:00Z", "a 12 2026-11-28T10:50:00Z")
	if got := l.step(); got != 1 {
		t.Errorf("an event of a window after the floor, and of ones before: %d windows were computed, want 1", got)
	}
	cut := l.state("hourly")
	same(t, "rows after late events", changed(whole.rows, cut.rows), "2026-11-28 11:00:00+00")
	same(t, "files after late events", changed(whole.files, cut.files), day("2026-11-28"))

	// Another model over the same table, and one that is new.
	const other = `SELECT date_trunc('hour', ts) AS hour, city, count(*) AS n, min(v) AS least FROM silver.p GROUP BY ALL`
	l.restart(model{"hourly", "1h", other}, model{"new", "1h", other})
	if got := l.step(); got != 4 {
		t.Errorf("after a change of the model %d windows were computed, want 2 a table", got)
	}
	restated := l.state("hourly")
	for window, row := range restated.rows {
		frozen := window < "2026-11-28 11"
		if want := strings.ReplaceAll(cut.rows[window], "\n", ",\n"); frozen && row != want {
			t.Errorf("window %s: got %s, want %s", window, row, want)
		}
		if !frozen && (strings.Contains(row, ",\n") || !strings.Contains(row, ",,")) {
			t.Errorf("window %s: %s has no least, or still a total", window, row)
		}
	}
	same(t, "windows after a change of the model", changed(keysOf(cut.rows), keysOf(restated.rows)))
	same(t, "windows of a new model", changed(map[string]string{}, keysOf(l.state("new").rows)), "2026-11-28 11:00:00+00", "2026-11-29 10:00:00+00")

	// Back to before the cut: nothing is frozen, and what was late is read again.
	l.restart(model{"hourly", "1h", hourly})
	tbl := l.load("silver.p")
	if _, err := tbl.Rollback(t.Context(), before.ID, ledger.Carry(tbl, before.ID), ""); err != nil {
		t.Fatal(err)
	}
	l.add("a 13 2026-11-29T11:00:00Z")
	if got := l.refresh(); got == 0 {
		t.Error("after a rollback nothing was computed")
	}
	if got := l.state("hourly").rows["2026-11-27 10:00:00+00"]; !strings.HasPrefix(got, "a,3,18,") {
		t.Errorf("after a rollback: %s, want the late events too", got)
	}
}

func keysOf(rows map[string]string) map[string]string {
	out := maps.Clone(rows)
	for k := range out {
		out[k] = "there"
	}
	return out
}

// TestRetainedInGold has windows gone from gold that silver still has the rows of.
func TestRetainedInGold(t *testing.T) {
	t.Parallel()
	l := open(t, model{"daily", "1d", daily})
	l.add("a 1 2026-11-27T10:00:00Z", "a 2 2026-11-28T10:00:00Z", "a 3 2026-11-29T10:00:00Z")
	l.refresh()
	tbl := l.load("gold.p_daily")
	after, _, _, err := ledger.Read[ledger.Gold](tbl)
	if err != nil {
		t.Fatal(err)
	}
	after.Retained = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	c := table.Change{Remove: l.files(tbl)[:0]}
	for _, f := range l.files(tbl) {
		if _, hi, _ := f.Range("hour"); hi.Before(after.Retained) {
			c.Remove = append(c.Remove, f)
		}
	}
	if err := ledger.Write(&c, after); err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, changed := range []string{daily, strings.Replace(daily, "max(v)", "min(v)", 1)} {
		l.restart(model{"daily", "1d", changed})
		l.add("b 4 2026-11-27T11:00:00Z", "b 5 2026-11-28T11:00:00Z")
		l.step()
		s := l.state("daily")
		if len(s.rows) != 2 || s.rows["2026-11-27"] != "" || !strings.Contains(s.rows["2026-11-28"], "b,5,") || !s.ledger.Retained.Equal(after.Retained) {
			t.Errorf("got %v, retained %s", s.rows, s.ledger.Retained)
		}
	}
}
