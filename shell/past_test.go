package shell_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/table"
	"smelt/shell"
)

// openAt opens a shell on the lake as it was.
func (l *lake) openAt(at string) (*shell.Shell, error) {
	l.t.Helper()
	config := l.config
	config.At = at
	s, err := shell.Open(l.t.Context(), config)
	if err == nil {
		l.t.Cleanup(func() { l.must(s.Close()) })
	}
	return s, err
}

// load loads a table and its newest snapshot.
func (l *lake) load(name string) (*table.Table, table.Snapshot) {
	l.t.Helper()
	t, err := l.config.Tables.Load(l.t.Context(), name)
	l.must(err)
	current, _ := t.Current()
	return t, current
}

// threeStates is a lake that was drained three times; the second silver snapshot
// has the tag "before".
func threeStates(t *testing.T, name string) (l *lake, silver, gold [3]table.Snapshot) {
	l = newLake(t, name)
	for i, values := range [][]string{
		{espoo, reading("nyc-001", "50", "F", "2026-11-29T12:59:59Z")},
		{reading("hel-001", "20", "C", "2026-11-29T12:30:00Z")},
		{reading("hel-001", "1", "C", "2026-11-30T12:00:00Z"), "!"},
	} {
		l.send(1-int32(i)/2, values...) // the last ones to a partition of their own
		l.drain()
		_, silver[i] = l.load("silver." + name)
		_, gold[i] = l.load("gold." + name + "_hourly")
	}
	l.must(l.config.Tables.Tag(t.Context(), "silver."+name, "before", silver[1].ID, 0))
	return l, silver, gold
}

func TestPast(t *testing.T) {
	t.Parallel()
	l, silver, gold := threeStates(t, "past")
	const (
		counts = "SELECT (SELECT count(*) FROM bronze), (SELECT count(*) FROM silver), (SELECT coalesce(sum(readings), 0) FROM gold), (SELECT count(*) FROM quarantine.past), (SELECT count(*) FROM reference.locations)"
		final  = "SELECT readings, _final FROM gold WHERE city = 'Espoo' AND hour < '2026-11-30'"
	)
	for _, c := range []struct{ at, counts, final string }{
		{"", "5,4,4,1,2", "2,true"},
		{"before", "3,3,2,0,2", "1,false"},
		{silver[1].Time.Format(time.RFC3339Nano), "3,3,2,0,2", "1,false"},
		{fmt.Sprint(silver[0].ID), "2,2,0,0,2", ""},
		{fmt.Sprint(gold[1].ID), "3,3,3,0,2", "2,false"},
		{"main", "5,4,4,1,2", "2,true"},
		{"0s", "5,4,4,1,2", "2,true"},
		{"2020-01-01", "0,0,0,0,2", ""},
	} {
		s, err := l.openAt(c.at)
		l.must(err)
		if got := l.query(s, counts); got != c.counts {
			t.Errorf("at %q: %s, want %s", c.at, got, c.counts)
		}
		if got := l.query(s, final); got != c.final {
			t.Errorf("at %q: gold %q, want %q", c.at, got, c.final)
		}
	}

	// Later rows and columns do not show.
	s, err := l.openAt("before")
	l.must(err)
	columns := func(s *shell.Shell) string { return l.query(s, "SELECT count(*) FROM (DESCRIBE silver)") }
	before := columns(s)
	l.send(0, espoo)
	l.drain()
	current, _ := l.load("silver.past")
	_, err = current.Commit(t.Context(), table.Change{Columns: []smelt.Column{{Name: "extra", Type: smelt.Type{Name: "double"}}}})
	l.must(err)
	if got := l.query(s, counts); got != "3,3,2,0,2" || columns(s) != before || columns(l.open()) == before {
		t.Errorf("later: %s, %s columns; %s before and %s now", got, columns(s), before, columns(l.open()))
	}
	var banner strings.Builder
	l.must(s.Greet(t.Context(), &banner))
	for _, want := range []string{
		"the lake as of " + silver[1].Time.Format("2006-01-02 15:04:05.999 UTC") + " (tag before). Reference tables are as they are now.",
		"bronze.past 3 records also bronze", "silver.past 3 rows also silver", "quarantine.past no data yet", "gold.past_hourly 2 rows also gold",
	} {
		if got := strings.Join(strings.Fields(banner.String()), " "); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, &banner)
		}
	}
}

func TestNoPast(t *testing.T) {
	t.Parallel()
	l, silver, _ := threeStates(t, "nopast")
	for at, want := range map[string]string{
		"befor":                          `did you mean "before"?`,
		"17":                             "nor a tag or snapshot of any table",
		"2999-01-01":                     "2999-01-01 00:00:00 UTC is yet to come",
		"-2h":                            `"-2h" is neither a time`,
		"2026-13-01":                     `"2026-13-01" is neither a time`,
		fmt.Sprint(silver[0].ID) + "000": "neither a time",
	} {
		if _, err := l.openAt(at); !errors.Is(err, shell.ErrNoPast) || !strings.Contains(err.Error(), want) {
			t.Errorf("at %q: %v, want %q", at, err, want)
		}
	}
}

// A table of whose past nothing is left says so, and the others are shown.
func TestPastExpired(t *testing.T) {
	t.Parallel()
	l, silver, gold := threeStates(t, "expired")
	s, err := l.openAt(fmt.Sprint(silver[2].ID))
	l.must(err)
	if got := l.query(s, "SELECT count(*) FROM silver"); got != "4" {
		t.Errorf("before it expires: %s", got)
	}
	const commits = 60 // enough for an expiry to be worth its while
	current, _ := l.load("silver.expired")
	for range commits {
		current, err = current.Commit(t.Context(), table.Change{})
		l.must(err)
	}
	done, err := l.config.Tables.Expire(t.Context(), "silver.expired", table.Retention{Last: 1, Grace: 1})
	l.must(err)
	if done.Snapshots < commits-1 {
		t.Fatalf("%d snapshots expired", done.Snapshots)
	}
	wants := func(s *shell.Shell, sql, want string) {
		t.Helper()
		if out, err := run(t.Context(), s, shell.CSV, sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", sql, out, err, want)
		}
	}
	wants(s, "SELECT count(*) FROM silver", fmt.Sprintf("snapshot %d of silver.expired has expired by now", silver[2].ID))
	if got := l.query(s, "SELECT count(*) FROM bronze"); got != "5" {
		t.Errorf("bronze: %s", got)
	}
	s, err = l.openAt(gold[2].Time.Format(time.RFC3339Nano))
	l.must(err)
	wants(s, "FROM silver.expired", "silver.expired has no snapshot of")
	wants(s, "FROM silver", "of before, tags keep before (")
	if got := l.query(s, "SELECT sum(readings) FROM gold"); got != "4" {
		t.Errorf("gold: %s", got)
	}
	if s, err = l.openAt("before"); err != nil || l.query(s, "SELECT count(*) FROM silver") != "3" {
		t.Errorf("what is tagged: %v", err)
	}
	if _, err := l.openAt("2020-01-01"); !errors.Is(err, shell.ErrNoPast) || !strings.Contains(err.Error(), "silver.expired has no snapshot of") {
		t.Errorf("before all there is: %v", err)
	}
}
