//go:build bench

package main

import (
	"encoding/json"
	"testing"
	"time"
)

func TestFleetEvents(t *testing.T) {
	t.Parallel()
	const n = 100_000
	type event struct {
		TenantID, DeviceID, EventID, Metric, Severity string

		RecordedAt time.Time
		Value      float64
	}
	seen, bytes := map[string]string{}, 0
	partitions, vehicles := map[string]int{}, map[string]int{}
	for i := range int64(n) {
		text := fleetEvent(1, i)
		bytes += len(text)
		var e event
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(e.EventID) != 26 || e.RecordedAt.IsZero() {
			t.Fatalf("%s: what is its id, and its time?", text)
		}
		first, twin := seen[e.EventID]
		if twin != (i%fleetTwins == fleetTwins-1) {
			t.Errorf("event %d, %s: a duplicate: %v", i, text, twin)
		}
		if twin && first != string(text) {
			t.Errorf("event %d, %s, is not the same as %s", i, text, first)
		}
		seen[e.EventID] = string(text)
		partitions[e.TenantID+e.Metric]++
		vehicles[e.TenantID+e.DeviceID]++
	}
	if want := n - n/fleetTwins; len(seen) != want {
		t.Errorf("%d unique events, want %d", len(seen), want)
	}
	if len(partitions) != 12 || len(vehicles) != 100 {
		t.Errorf("%d tenants' metrics and %d vehicles, want 12 and 100", len(partitions), len(vehicles))
	}
	if mean := float64(bytes) / n; mean < 180 || mean > 184 {
		t.Errorf("an event has %.1f bytes, want about 182", mean)
	}
	if string(fleetEvent(1, 5)) == string(fleetEvent(2, 5)) {
		t.Error("another seed gives the same event")
	}
}

func BenchmarkFleetEvents(b *testing.B) {
	for i := range b.N {
		fleetEvent(1, int64(i))
	}
}
