package main

import (
	"fmt"
	"slices"
	"testing"

	"smelt"
)

// TestOwners tells whose gold tables are whose names do not say so for certain.
func TestOwners(t *testing.T) {
	t.Parallel()
	pipelines := []*smelt.Pipeline{
		{Name: "a", Gold: []smelt.Model{{Name: "x"}, {Name: "b_y"}}},
		{Name: "a_b", Gold: []smelt.Model{{Name: "c"}}},
	}
	tables := []string{
		"demo.other", "gold.a_b_c", "gold.a_b_old", "gold.a_b_y", "gold.a_x", "gold.a_z", "gold.gone_m", "gold.lost_m",
		"quarantine.a", "quarantine.gone", "quarantine.half", "silver.a", "silver.a_b", "silver.gone",
	}
	o := newOwners(pipelines, tables)
	for _, c := range []struct{ pipeline, own, unsure string }{
		{"a", "[silver.a quarantine.a gold.a_b_y gold.a_x gold.a_z]", "[gold.a_b_old]"},
		{"a_b", "[silver.a_b gold.a_b_c]", "[gold.a_b_old]"},
		{"gone", "[silver.gone quarantine.gone gold.gone_m]", "[]"},
		{"half", "[quarantine.half]", "[]"},
		{"lost", "[gold.lost_m]", "[]"}, // only the command's argument says that there was one
		{"none", "[]", "[]"},
	} {
		own, unsure := o.tablesOf(c.pipeline, slices.Clone(tables))
		if got := fmt.Sprint(own); got != c.own {
			t.Errorf("of %s: got %s, want %s", c.pipeline, got, c.own)
		}
		if got := fmt.Sprint(unsure); got != c.unsure {
			t.Errorf("perhaps of %s: got %s, want %s", c.pipeline, got, c.unsure)
		}
	}
	left, drops := o.unowned(tables)
	if got, want := fmt.Sprint(left), "[gold.a_b_old gold.a_z gold.gone_m gold.lost_m quarantine.gone quarantine.half silver.gone]"; got != want {
		t.Errorf("of no pipeline: got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(drops), "[gold.a_b_old gold.a_z gold.lost_m gone half]"; got != want {
		t.Errorf("to drop: got %s, want %s", got, want)
	}
}
