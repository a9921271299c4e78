package main

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

func TestPlanGoesByTheSeed(t *testing.T) {
	t.Parallel()
	plan := func(seed uint64) (strikes []strike, fronts []front) {
		strikeRandom, weatherRandom := random(seed, "strikes"), random(seed, "weather")
		wires := []*wire{{name: "a", faults: []fault{faultReset, faultHole}}, {name: "b", faults: []fault{faultLatency}}}
		for range 1000 {
			strikes = append(strikes, nextStrike(strikeRandom))
			fronts = append(fronts, forecast(weatherRandom, wires))
		}
		return strikes, fronts
	}
	strikes, fronts := plan(7)
	again, frontsAgain := plan(7)
	if !slices.Equal(strikes, again) || !slices.Equal(fronts, frontsAgain) {
		t.Error("one seed gave two plans")
	}
	if other, _ := plan(8); slices.Equal(strikes, other) {
		t.Error("two seeds gave one plan")
	}
	kills := 0
	seen := map[strikeKind]bool{}
	for _, s := range strikes {
		seen[s.kind] = true
		if s.kind.kills() {
			kills++
		}
	}
	if len(seen) != len(strikeWeights) {
		t.Errorf("of %d kinds of strikes %d came in 1,000", len(strikeWeights), len(seen))
	}
	if kills < 700 || kills > 830 {
		t.Errorf("%d of 1,000 strikes kill, want about 770", kills)
	}
}

// TestEventsGoByTheSeed makes the events of two runs at one time: they are the same,
// and of all kinds.
func TestEventsGoByTheSeed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, p := range pipelines() {
		one, two, kinds := newMaker(3, p.name), newMaker(3, p.name), map[kind]bool{}
		for range 3000 {
			a, b := p.make(one, now), p.make(two, now)
			if a.key != b.key || a.kind != b.kind || a.kind != kindFuture && !bytes.Equal(a.value, b.value) {
				t.Fatalf("%s: one seed gave %s %s and %s %s", p.name, a.key, a.value, b.key, b.value)
			}
			if kinds[a.kind] = true; a.kind == kindFine {
				if _, err := p.parse(a.value); err != nil {
					t.Fatalf("%s: %s: %v", p.name, a.value, err)
				}
			}
		}
		want := 10
		if p.name == readings.name {
			want++ // units
		}
		if len(kinds) != want {
			t.Errorf("%s: %d kinds of events, want %d: %v", p.name, len(kinds), want, kinds)
		}
	}
}
