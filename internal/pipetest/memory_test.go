package pipetest_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"smelt"
	"smelt/internal/pipetest"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	columns := func(key string) []smelt.Column {
		return []smelt.Column{{Name: "sensor", Type: smelt.Type{Name: key}}, {Name: "city", Type: smelt.Type{Name: "varchar"}}}
	}
	instant := time.Date(2026, 11, 29, 15, 4, 5, 500_000_000, time.UTC)
	sets := []struct {
		key  string
		rows [][]any
	}{
		1: {"varchar", [][]any{{"a", "Espoo"}, {"b", nil}}},
		2: {"varchar", [][]any{{"b", nil}, {"a", "Helsinki"}}},                                  // a updated
		3: {"varchar", [][]any{{"b", ""}, {"c", "Oulu"}, {nil, "x"}, {"a", "Helsinki"}}},        // b updated, c inserted
		4: {"varchar", [][]any{{"b", ""}, {"c", "Oulu"}, {nil, "y"}, {"a", "Helsinki"}}},        // nothing that has a key
		5: {"varchar", [][]any{{"a", "Oulu"}, {"c", "Helsinki"}, {"b", ""}}},                    // a and c swapped
		6: {"varchar", nil},                                                                     // all deleted
		7: {"timestamptz", [][]any{{instant, "Oulu"}}},                                          // another type
		8: {"timestamptz", [][]any{{instant, "Espoo"}, {instant.Add(time.Second / 2), "Oulu"}}}, // as text
	}
	tests := []struct {
		upTo, since, whole int64
		keys               map[string]int64
	}{
		{1, 0, 1, map[string]int64{}},
		{1, 1, 0, map[string]int64{}},
		{2, 1, 0, map[string]int64{"a": 2}},
		{3, 1, 0, map[string]int64{"a": 2, "b": 3, "c": 3}},
		{3, 2, 0, map[string]int64{"b": 3, "c": 3}},
		{4, 3, 0, map[string]int64{}},
		{5, 0, 1, map[string]int64{"a": 5, "b": 3, "c": 5}},
		{6, 4, 0, map[string]int64{"a": 6, "b": 6, "c": 6}},
		{7, 1, 7, map[string]int64{}},
		{8, 7, 0, map[string]int64{"2026-11-29 15:04:05.5+00": 8, "2026-11-29 15:04:06+00": 8}},
	}
	refs := []smelt.Reference{{Name: "places", Key: "sensor"}}
	for _, test := range tests {
		r := pipetest.NewReferences()
		for _, s := range sets[1 : test.upTo+1] {
			r.Set("places", columns(s.key), s.rows)
		}
		got, err := r.Changes(t.Context(), refs, test.since)
		want := []smelt.ReferenceChanges{{Reference: refs[0], Whole: test.whole, Keys: test.keys}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("version %d since %d: got %v, %v, want %v", test.upTo, test.since, got, err, want)
		}
	}
	if _, err := pipetest.NewReferences().Changes(t.Context(), refs, 0); !errors.Is(err, smelt.ErrPipeline) {
		t.Errorf("of no table: got %v, want an ErrPipeline", err)
	}
}
