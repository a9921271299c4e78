package silver_test

import (
	"testing"
	"time"

	"smelt"
	"smelt/internal/line"
)

// TestWalk follows the chains by name once they have been listed.
func TestWalk(t *testing.T) {
	t.Parallel()
	l := open(t, sensors(t), func(p *line.Parts) { p.ListEvery = time.Hour })
	l.drain(t, value(good, 1795953601000)) // lists: there was no partition before
	for i := range 12 {
		l.drain(t, value(good, 1795953601000))
		if got := len(l.rows(t, "silver.sensors", "_partition_offset")); got != i+2 {
			t.Fatalf("%d rows after %d records", got, i+2)
		}
	}
	// The backlog is larger than what a step requests by name.
	for range 9 {
		l.Topic.Append(value(good, 1795953601000))
		if _, err := l.Bronze.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.drain(t)
	if got := len(l.rows(t, "silver.sensors", "_partition_offset")); got != 22 {
		t.Errorf("%d rows, want 22", got)
	}
	// A partition that is new is found when bronze is listed again, not before.
	l.drain(t, smelt.Record{Partition: 1, Timestamp: 1795953601000, Value: []byte(good)})
	if got := len(l.rows(t, "silver.sensors", "_partition_offset")); got != 22 {
		t.Errorf("%d rows, want 22 until the next listing", got)
	}
}
