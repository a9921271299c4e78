// Package sourcetest is the contract that every [smelt.Source] passes.
package sourcetest

import (
	"context"
	"testing"
	"time"

	"smelt"
)

// patience bounds the wait for what must come: far above what a slow machine
// takes for a group to share out its partitions.
const patience = 30 * time.Second

// pollBytes is what the tests poll at a time: small, so that they poll often.
const pollBytes = 1 << 10

// Topic is a topic of the kind under test, with nothing in it.
type Topic struct {
	// Append adds records, in their order, to the partitions that they name.
	Append func(t testing.TB, records ...smelt.Record)

	// Skip leaves a hole in a partition's offsets.
	Skip func(t testing.TB, partition int32)

	// Open opens an instance of the source.
	Open func(t testing.TB, resume smelt.Resume) smelt.Source

	// Share brings about that each of two instances has one or more of the
	// partitions, while both are polled. It is nil for a source whose instances
	// share by themselves.
	Share func(t testing.TB, first, second smelt.Source)

	// Committed returns what was committed for a partition.
	Committed func(t testing.TB, partition int32) int64
}

// Run tests the source of the topics that open makes.
func Run(t *testing.T, open func(t testing.TB, partitions int) Topic) {
	for _, c := range []struct {
		name string
		test func(*testing.T, func(testing.TB, int) Topic)
	}{
		{"order", testOrder},
		{"resume", testResume},
		{"resume fails", testResumeFails},
		{"stopped", testStopped},
		{"share", testShare},
		{"round trip", testRoundTrip},
		{"end of context", testEndOfContext},
		{"size", testSize},
		{"describe", testDescribe},
		{"commit", testCommit},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open)
		})
	}
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// openSource opens an instance and closes it when the test ends.
func openSource(t testing.TB, topic Topic, resume smelt.Resume) smelt.Source {
	t.Helper()
	source := topic.Open(t, resume)
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return source
}
