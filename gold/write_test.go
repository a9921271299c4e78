package gold_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"smelt/internal/table"
)

// TestFilesOfADay makes a day of many rows, which lies in several files: a refresh
// replaces those alone whose windows change, each with all rows of a window.
func TestFilesOfADay(t *testing.T) {
	t.Parallel()
	const perMinute, minutes = 25, 800 // 20,000 rows
	l := open(t, model{"each", "1m", "SELECT time_bucket(INTERVAL 1 MINUTE, ts) AS hour, city, v FROM silver.p"})
	l.add("Espoo 0 2026-11-28T00:00:00Z")
	l.refresh()
	begin := time.Date(2026, time.November, 28, 0, 0, 0, 0, time.UTC)
	var readings []string
	for i := range perMinute * minutes {
		at := begin.Add(time.Duration(i) * time.Minute / perMinute)
		readings = append(readings, fmt.Sprintf("Oulu %d %s", i, at.Format(time.RFC3339Nano)))
	}
	l.add(readings...)
	l.refresh()
	before := l.ranges("gold.p_each")
	if len(before) != 3 {
		t.Fatalf("got the files %v, want three", before)
	}

	// A last window again, and the next: the last file alone.
	l.add("Oulu 1 2026-11-28T13:19:30Z", "Oulu 2 2026-11-28T13:20:30Z")
	l.refresh()
	after := l.ranges("gold.p_each")
	kept := 0
	for key, r := range before {
		if after[key] == r {
			kept++
		} else if r[1] != begin.Add((minutes-1)*time.Minute) {
			t.Errorf("the file of %v was replaced", r)
		}
	}
	if kept != 2 || len(after) != 3 {
		t.Errorf("got the files %v after %v", after, before)
	}

	// Late, in the middle: its file alone. No window is in two files.
	l.add("Oulu 3 2026-11-28T06:40:00Z")
	l.refresh()
	last := time.Time{}
	for _, r := range l.ordered("gold.p_each") {
		if !r[0].After(last) {
			t.Errorf("a file of %v after one that ends with %v", r, last)
		}
		last = r[1]
	}
}

// ranges gives the first and the last window of each file of a table, by key.
func (l *lake) ranges(name string) map[string][2]time.Time {
	l.t.Helper()
	out := map[string][2]time.Time{}
	for _, f := range l.files(l.load(name)) {
		out[f.Key] = l.span(f)
	}
	return out
}

func (l *lake) span(f table.File) [2]time.Time {
	l.t.Helper()
	lo, hi, ok := f.Range("hour")
	if !ok {
		l.t.Errorf("%s has no range", f.Key)
	}
	return [2]time.Time{lo, hi}
}

// ordered gives the ranges in the order of their starts.
func (l *lake) ordered(name string) [][2]time.Time {
	out := slices.Collect(maps.Values(l.ranges(name)))
	slices.SortFunc(out, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	return out
}
