package main

import (
	"maps"
	"strings"
	"testing"
)

// record is a record of a topic.
func record(offset int64, k kind, value string) held {
	h := held{lineage: lineage{1, offset}, millis: 1000, key: "k", kind: k, value: []byte(value)}
	if k == kindTombstone {
		h.value = nil
	}
	return h
}

func check(t *testing.T, name string, got, want table) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

func TestTruthOfReadings(t *testing.T) {
	t.Parallel()
	records := []held{
		record(0, kindFine, `{"id":"a","sensor_id":"s-01","temperature":50,"unit":"F","event_time":"2026-11-30T10:20:30Z"}`),
		record(1, kindFine, `{"id":"b","sensor_id":"s-99","temperature":-0.25,"unit":"C","event_time":"2026-11-30T10:20:31.5Z"}`),
		record(2, kindTombstone, ""),
		record(3, kindCut, `{"id":`),
		record(4, kindType, `{"temperature":"1"}`),
		record(5, kindLarge, strings.Repeat("x", recordMax)),
	}
	got, err := workOut(readings, records, map[string]place{"s-01": {"Espoo", "Finland"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "silver", got.silver, table{
		"1:0": "a | s-01 | 1796034030000000 | 10 | Espoo | Finland | ∅",
		"1:1": "b | s-99 | 1796034031500000 | -0.25 | ∅ | ∅ | locations",
	})
	check(t, "quarantine", got.quarantine, table{
		"1:3": "not json |  | ", "1:4": "wrong type | temperature | ", "1:5": "too large |  | ",
	})
	check(t, "hourly", got.gold[0], table{
		"1796032800000000 | Espoo | Finland": "1 | 10000 | 10 | 10",
		"1796032800000000 | ∅ | ∅":           "1 | -250 | -0.25 | -0.25",
	})
	check(t, "minutely", got.gold[1], table{"1796034000000000": "2 | 2"})
	if len(got.bronze) != len(records) {
		t.Errorf("bronze: got %d records, want %d", len(got.bronze), len(records))
	}
	if want := "1000 | k | tombstone | " + digest(none); got.bronze["1:2"] != want {
		t.Errorf("bronze of the tombstone: got %s, want %s", got.bronze["1:2"], want)
	}
}

// TestTruthOfVisits has three records of one visit, one of the same name at another
// time, and one that is nowhere.
func TestTruthOfVisits(t *testing.T) {
	t.Parallel()
	visit := func(offset int64, id, sensor, at string) held {
		return record(offset, kindFine, `{"visit":"`+id+`","sensor_id":"`+sensor+`","amount":5,"visited_at":"`+at+`"}`)
	}
	records := []held{
		visit(0, "v", "s-01", "2026-11-30T10:00:00Z"), visit(1, "v", "s-01", "2026-11-30T10:00:00Z"), visit(2, "v", "s-01", "2026-11-30T10:00:00Z"),
		visit(3, "v", "s-01", "2026-11-30T07:00:00Z"),
		visit(4, "w", "s-02", "2026-11-30T10:00:00Z"),
	}
	places := map[string]place{"s-01": {"Espoo", "Finland"}, "s-02": {nowhere, "None"}}
	for name, tt := range map[string]struct {
		silver table // what smelt has chosen
		stays  string
	}{
		"the first, when silver has none": {nil, "1:0"},
		"the one that silver has":         {table{"1:1": "…"}, "1:1"},
		"the first of two that it has":    {table{"1:2": "…", "1:1": "…"}, "1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := workOut(visits, records, places, tt.silver)
			if err != nil {
				t.Fatal(err)
			}
			row := "v | s-01 | 5 | 1796032800000000 | Espoo | ∅"
			check(t, "silver", got.silver, table{tt.stays: row, "1:3": "v | s-01 | 5 | 1796022000000000 | Espoo | ∅"})
			rejects := table{"1:4": "somewhere | city | "}
			for _, at := range []string{"1:0", "1:1", "1:2"} {
				if at != tt.stays {
					rejects[at] = "duplicate |  | " + tt.stays
				}
			}
			check(t, "quarantine", got.quarantine, rejects)
			check(t, "daily", got.gold[0], table{"1795996800000000 | Espoo": "2 | 10"})
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	got := rows{table: table{}}
	for _, cells := range [][]string{{"same", "1"}, {"other", "1"}, {"more", "1"}, {"same", "1"}} {
		got.add(cells, 1)
	}
	told, n := compare("silver.x", table{"same": "1", "other": "2", "lost": "3"}, got)
	want := []string{
		"silver.x: missing: lost (3)", "silver.x: otherwise: other is 1, not 2", "silver.x: too many: more (1)", "silver.x: twice: same",
	}
	if n != 4 || strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %d:\n%s\nwant:\n%s", n, strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	if told, n := compare("x", table{"same": "1"}, rows{table: table{"same": "1"}}); n != 0 || len(told) != 0 {
		t.Errorf("of equal tables it told %v", told)
	}
	if told, n := compare("x", table{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": ""}, rows{}); n != 7 || len(told) != detailed+1 {
		t.Errorf("of seven missing rows it counted %d and told %v", n, told)
	}
}
