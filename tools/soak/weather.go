package main

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// fault is one kind of trouble on the wire.
type fault string

const (
	faultNone    fault = ""
	faultLatency fault = "latency"
	faultReset   fault = "resets"
	faultHole    fault = "black hole"
	faultBusy    fault = "503 and 429"  // S3
	faultLost    fault = "lost replies" // S3: to puts; PostgreSQL: to the catalog's swaps; Kafka: to offset commits
	faultTorn    fault = "torn replies" // S3, Kafka: cut off in the middle
)

// A wire is a proxy through which smelt reaches a service, and on which there may be
// a fault.
type wire struct {
	name    string // of the service
	faults  []fault
	current atomic.Pointer[spell]
}

// spell is a fault for as long as it lasts.
type spell struct {
	fault fault
	over  chan struct{} // closed when it ends
}

// calm is a spell without a fault.
var calm = &spell{fault: faultNone, over: make(chan struct{})}

// now is the current fault of the wire.
func (w *wire) now() *spell {
	if s := w.current.Load(); s != nil {
		return s
	}
	return calm
}

// front is a future fault on one of the wires.
type front struct {
	wire    int
	fault   fault
	after   time.Duration // since the one before ended
	lasting time.Duration
}

const (
	leastCalm, mostCalm   = 8 * time.Second, 30 * time.Second
	leastSpell, mostSpell = 3 * time.Second, 12 * time.Second
	mostHole              = 30 * time.Second
)

// forecast draws the next fault.
func forecast(rng *rand.Rand, wires []*wire) front {
	f := front{wire: rng.IntN(len(wires)), after: between(rng, leastCalm, mostCalm), lasting: between(rng, leastSpell, mostSpell)}
	f.fault = wires[f.wire].faults[rng.IntN(len(wires[f.wire].faults))]
	if f.fault == faultHole {
		f.lasting = between(rng, leastSpell, mostHole)
	}
	return f
}

// between draws a duration.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)))
}

// blow brings one fault after the other over the wires, until ctx ends; then they are
// calm.
func blow(ctx context.Context, rng *rand.Rand, wires []*wire, t *tally) {
	for {
		f := forecast(rng, wires)
		if !sleep(ctx, f.after) {
			return
		}
		w, s := wires[f.wire], &spell{fault: f.fault, over: make(chan struct{})}
		t.say("~ %s on the wire to %s for %s", f.fault, w.name, f.lasting.Round(time.Second))
		t.count(groupFaults, w.name+": "+string(f.fault), 1)
		w.current.Store(s)
		goOn := sleep(ctx, f.lasting)
		w.current.Store(calm)
		close(s.over)
		if !goOn {
			return
		}
	}
}

// sleep waits, or returns false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
