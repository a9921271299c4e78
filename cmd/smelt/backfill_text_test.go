package main

import (
	"strings"
	"testing"

	"smelt/backfill"
)

// Every summary reports retired records.
func TestSummaryOfRetired(t *testing.T) {
	t.Parallel()
	const says = "1,204 rows can no longer be replayed: their records were retired (retain: bronze)"
	for _, c := range []struct {
		name   string
		result backfill.Result
		want   string
	}{
		{"some differ", backfill.Result{Counts: backfill.Counts{Replayed: 5, Differing: 5, Retired: 1204}, Differs: true, Published: true}, "  retired     " + says + "\n"},
		{"none differs", backfill.Result{Counts: backfill.Counts{Replayed: 5, Retired: 1204}}, "nothing was committed. " + says + ".\n"},
		{"none is left", backfill.Result{Counts: backfill.Counts{Retired: 1204}, Published: true, After: 7}, "all is corrected. " + says + ".\n"},
	} {
		var cmd backfillCmd
		cmd.ReferenceChanges = true
		got := cmd.summary(outcome{Plan: backfill.Plan{Pipeline: "sensors", Records: 1209}, Result: &c.result})
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s", c.name, got)
		}
	}
}
