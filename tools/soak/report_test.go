package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	t.Parallel()
	s := &soak{options: options{lasting: 30 * time.Minute, seed: 42, commit: "abc", dir: "/secret/place"}, t: newTally(io.Discard), striker: &striker{gaps: 3, moved: 2}}
	s.t.count(groupKills, string(killRun), 2)
	s.t.count(groupKills, string(killStack), 1)
	s.t.recovered(4 * time.Second)
	s.t.recovered(2 * time.Second)
	s.t.recovered(9 * time.Second)
	s.layers = []layerCount{{"silver.readings", 10, 9, 1}}
	s.t.differences([]string{"silver.readings: missing: 0:1"}, 1)
	got := s.markdown(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	for _, want := range []string{
		"| date | 30 November 2026, 12:00 UTC |", "| seed | 42 |", "| commit | abc |", "| minutes | 30 |", "| kills | 3 |",
		"| **discrepancies** | **1** |", "4.0 s (median), 9.0 s (at the longest), of 3", "| silver.readings | 9 | 10 | 1 |",
		"| kill -9 of a pipeline process | 2 |", "silver.readings: missing: 0:1", "2 of 3",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "/secret") {
		t.Errorf("the report names a path:\n%s", got)
	}
}

func TestOnlyFollows(t *testing.T) {
	t.Parallel()
	follows := "readings  bronze 1\n  ✗ silver.readings was rolled back, and quarantine.readings follows with the pipeline's next step\n"
	for text, want := range map[string]bool{
		follows:                             true,
		follows + "  ✗ gold.x is missing\n": false,
	} {
		if got := onlyFollows(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
