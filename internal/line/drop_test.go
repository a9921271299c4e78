package line_test

import (
	"fmt"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/line"
	"smelt/internal/pipetest"
)

// TestDropped drops some tables of a line at a time. The line creates them again as they were.
func TestDropped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		drop []string
	}{
		{"gold", []string{"gold.p_m0"}},
		{"all", []string{"silver.p", "quarantine.p", "gold.p_m0", "gold.p_m1"}},
		{"silver alone, as when a drop dies", []string{"silver.p"}},
		{"silver and quarantine, as when a drop dies", []string{"silver.p", "quarantine.p"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLake(t)
			ln := l.prepared("day(ts), unique: [id, n]", "n", "hour: count(*) AS c", "hour: sum(n) AS total, max(size) AS top")
			for hour := range 6 {
				for n := range 4 {
					l.Topic.Append(event("a", n/2, hour), event("b", n, hour)) // every other one of a is a duplicate
				}
				l.Topic.Append(smelt.Record{Timestamp: smelt.NoTimestamp, Value: []byte("no JSON")}, smelt.Record{Timestamp: smelt.NoTimestamp})
				l.drain(ln)
			}
			before := l.all()
			if !strings.Contains(before, "duplicate") || !strings.Contains(before, "not json") {
				t.Fatalf("quarantine lacks what it is to have:\n%s", before)
			}
			for _, name := range c.drop {
				if _, err := l.Parts.Area.Lake.Drop(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			l.drain(ln) // a stage that has not heard of it
			if got := l.all(); got != before {
				t.Errorf("made anew:\n%s\nit was:\n%s", got, before)
			}
			l.verify(ln)
			l.Topic.Append(event("c", 1, 3))
			l.drain(ln)
			l.verify(ln)
		})
	}
}

func event(id string, n, hour int) smelt.Record {
	return smelt.Record{Timestamp: smelt.NoTimestamp, Value: fmt.Appendf(nil, `{"id":%q,"n":%d,"ts":"2026-11-29T%02d:00:00Z"}`, id, n, hour)}
}

func (l *lake) drain(ln *line.Line) {
	l.t.Helper()
	if err := pipetest.Drain(l.t.Context(), ln); err != nil {
		l.t.Fatal(err)
	}
}

// all are the rows of the line's tables, without what says when they were made.
func (l *lake) all() string {
	l.t.Helper()
	return strings.Join([]string{
		l.rows("silver.p", "_partition_offset", "id", "ts", "size", "n"),
		l.rows("quarantine.p", "_partition_offset", "reason", "detail", "raw"),
		l.rows("gold.p_m0", "hour", "c"),
		l.rows("gold.p_m1", "hour", "total", "top"),
	}, "\n")
}
