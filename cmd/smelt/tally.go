package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"smelt"
)

// tallyEvery is how often a running line logs what it did. A line a step would
// fill a disk in months.
const tallyEvery = time.Minute

// tally sums up what the stages do between two lines of the log. It is safe for
// concurrent use.
type tally struct {
	mu     sync.Mutex
	stages map[string]*tallied
}

type tallied struct{ steps, records int64 }

func newTally() *tally { return &tally{stages: map[string]*tallied{}} }

// observe notes a step that did something.
func (t *tally) observe(stage string, p smelt.Progress) {
	if p.Records == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.stages[stage]
	if !ok {
		s = new(tallied)
		t.stages[stage] = s
	}
	s.steps++
	s.records += p.Records
}

// log writes a line for each stage that did something, every so often and when
// ctx ends.
func (t *tally) log(ctx context.Context, log *slog.Logger) {
	for more := true; more; {
		more = pause(ctx, tallyEvery)
		t.mu.Lock()
		stages := t.stages
		t.stages = map[string]*tallied{}
		t.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(stages)) {
			log.Info("progress", "stage", name, "records", stages[name].records, "steps", stages[name].steps)
		}
	}
}
