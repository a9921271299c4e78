package backfill_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/backfill"
)

// A condition that is none is said to be so before anything is read, and one that
// fails on a row when it does.
func TestBadWhere(t *testing.T) {
	t.Parallel()
	w := history(t)
	heads, stored := w.heads(), w.stored("")
	for _, c := range []struct{ where, says string }{
		{"city =", "syntax error"},
		{"citi = 'Espoo'", `there is no column "citi": did you mean "city"`},
		{"v", "it must be a condition"},
		{"v > 1; DROP TABLE silver.readings", "a semicolon"},
		{"v > 1) OR (true", "syntax error"},
		{"random() > 0.5", "random"},
		{"v IN (SELECT 1)", "a subquery"},
		{"true", "it looks at no column"},
		{"city::INTEGER > 0", "Conversion Error: Could not convert string"},
		{"v > 1 -- a comment", "syntax error"},
	} {
		scope := backfill.Scope{Where: c.where}
		_, err := w.open(w.process(), scope).Plan(t.Context())
		_, runErr := w.open(w.process(), scope).Run(t.Context(), nil)
		for _, err := range []error{err, runErr} {
			if !errors.Is(err, backfill.ErrScope) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "--where") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: got %v, want an ErrScope that says %q", c.where, err, c.says)
			}
		}
	}
	if !maps.Equal(w.heads(), heads) || !slices.Equal(w.stored(""), stored) {
		t.Error("something was written")
	}
}

// Conditions on any column, or on none, choose exactly their rows.
func TestWhere(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.add("h zzz-001 null 2026-11-03T10:00:00Z")
	for _, c := range []struct {
		where string
		rows  int64
	}{
		{"city = 'Espoo'", 2},
		{"city IS NULL OR v = 7", 2},
		{"v IS NULL", 1},
		{"NOT v > 3", 3},
		{"v > 100", 0},
		{"ts::DATE = DATE '2026-11-02'", 4},
		{"_partition_offset % 2 = 0", 4},
		{"_reference_version < 2", 6},
		{"_rebuilt_at IS NOT NULL", 0},
		{"_unmatched = 'locations'", 1},
		{"sensor_id LIKE 'h%'", 3},
	} {
		p, err := w.open(w.process(), backfill.Scope{Where: c.where}).Plan(t.Context())
		if err != nil || p.Records != c.rows {
			t.Errorf("%s: got %+v, %v, want %d rows", c.where, p, err, c.rows)
		}
	}
}

// The first time of a scope is in it, the last is not, also where a file begins or ends.
func TestTimes(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b hel-001 2 2026-11-01T11:00:00Z")
	at := func(hour, second int) time.Time { return time.Date(2026, 11, 1, hour, 0, second, 0, time.UTC) }
	for _, c := range []struct {
		from, to time.Time
		rows     int64
	}{
		{at(11, 0), time.Time{}, 1},
		{at(11, 1), time.Time{}, 0},
		{time.Time{}, at(10, 0), 0},
		{time.Time{}, at(10, 1), 1},
		{at(10, 0), at(11, 0), 1},
	} {
		p, err := w.open(w.process(), backfill.Scope{From: c.from, To: c.to}).Plan(t.Context())
		if err != nil || p.Records != c.rows {
			t.Errorf("from %v to %v: got %+v, %v, want %d rows", c.from, c.to, p, err, c.rows)
		}
	}
}

// byAlias joins the reference under another name.
const byAlias = "SELECT id, %s.sensor_id, v::BIGINT AS v, ts, city, _partition_id, _partition_offset FROM bronze.readings AS b LEFT JOIN reference.locations AS l ON b.sensor_id = l.sensor_id"

// A condition of a list as long as a command line holds is shown by its beginning.
func TestLongWhere(t *testing.T) {
	t.Parallel()
	w := history(t)
	where := "city = 'Espoo'" + strings.Repeat(" OR city = 'no such city'", 2000)
	plan, err := w.open(w.process(), backfill.Scope{Where: where}).Plan(t.Context())
	if err != nil || plan.Records != 2 || len(plan.Scope) > 600 {
		t.Errorf("got %d records by a scope of %d bytes, %v", plan.Records, len(plan.Scope), err)
	}
}

// The rows of a changed reference row are found by the event's key, if silver has it unchanged. Otherwise all older rows
// are replayed.
func TestReferenceKey(t *testing.T) {
	t.Parallel()
	w := history(t)
	for _, c := range []struct {
		name string
		sql  string
		key  string // the plan's
		rows int64
	}{
		{"as it is", silverSQL, "sensor_id", 2},
		{"qualified", fmt.Sprintf(byAlias, "b"), "sensor_id", 2},
		{"the reference's", strings.Replace(silverSQL, "sensor_id,", "locations.sensor_id,", 1), "", 6},
		{"the reference's by an alias", fmt.Sprintf(byAlias, "l"), "", 6},
		{"changed", strings.Replace(silverSQL, "sensor_id,", "upper(sensor_id) AS sensor_id,", 1), "", 6},
		{"left out", strings.Replace(silverSQL, "sensor_id,", "", 1), "", 6},
	} {
		p := w.process()
		p.pipeline = newPipeline(t)
		p.pipeline.Silver.SQL = c.sql
		plan, err := w.open(p, backfill.Scope{ReferenceChanges: true}).Plan(t.Context())
		if err != nil || plan.Records != c.rows || plan.KeyName != c.key {
			t.Errorf("%s: got %+v, %v, want %d rows by %q", c.name, plan, err, c.rows, c.key)
		}
	}
}

// If silver has the reference's key, which is NULL without a row, those rows are found, too.
func TestReferenceKeyIsNull(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.Silver.SQL = fmt.Sprintf(byAlias, "l")
	w := setup(t, p)
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 2 2026-11-01T10:00:00Z", "c zzz-001 3 2026-11-01T10:00:00Z")
	w.locate("hel-001=Helsinki", "nyc-001=New York", "zzz-001=Oulu")
	healed := w.clone(t)
	healed.run(backfill.Scope{Unmatched: true})
	same(t, "cities, healed", healed.rows(silverName, "id", "city"), "a Espoo", "b New York", "c Oulu")
	w.run(backfill.Scope{ReferenceChanges: true})
	same(t, "cities, corrected", w.rows(silverName, "id", "city"), "a Helsinki", "b New York", "c Oulu")
}

// Without a table there is nothing to correct, and it says so.
func TestNoTable(t *testing.T) {
	t.Parallel()
	w := setup(t, newPipeline(t))
	for _, scope := range []backfill.Scope{{All: true}, {Quarantined: true}} {
		_, err := w.open(w.process(), scope).Run(t.Context(), nil)
		if !errors.Is(err, smelt.ErrPipeline) || !strings.Contains(err.Error(), "there is no table silver.readings yet") {
			t.Errorf("%s: got %v", scope, err)
		}
	}
	// A table that has no snapshot yet has no rows either.
	if err := w.stage(w.process()).Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.run(backfill.Scope{All: true}); r.Published || r.Replayed > 0 {
		t.Errorf("of an empty table: got %+v", r)
	}
}
