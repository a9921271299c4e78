package upkeep

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"smelt"
)

// jitter is the random part of a task's interval, so that tables which were created together are not worked on together.
const jitter = 0.1

// Keeper runs the tasks of one table when they are due. It is a [smelt.Stage]. Of
// several processes the one that holds the lock of the table's maintenance runs
// them.
type Keeper struct {
	cfg     Config
	table   string
	tasks   []Task
	observe Observe

	mu   sync.Mutex
	next []time.Time // by task
}

// NewKeepers makes one keeper per table of the pipeline. observe is called after each job, perhaps
// concurrently.
func NewKeepers(cfg Config, observe Observe) []*Keeper {
	var keepers []*Keeper
	for _, t := range Tasks(cfg) {
		i := slices.IndexFunc(keepers, func(k *Keeper) bool { return k.table == t.Table })
		if i < 0 {
			i = len(keepers)
			keepers = append(keepers, &Keeper{cfg: cfg, table: t.Table, observe: observe})
		}
		k := keepers[i]
		k.tasks = append(k.tasks, t)
		k.next = append(k.next, time.Now().Add(first(t.Every)))
	}
	return keepers
}

// longestFirst bounds when a rare task first runs after a start, so that it runs at all if smelt is
// restarted daily.
const longestFirst = time.Hour

// first is when a task comes first after the start: at some time within its Every.
func first(every time.Duration) time.Duration {
	return time.Duration(rand.Float64() * float64(min(every, longestFirst)))
}

// spread is how long after it was done a task comes next, by where it lies in the range
// of the jitter, from -1 to 1.
func spread(every time.Duration, at float64) time.Duration {
	return time.Duration(float64(every) * (1 + jitter*at))
}

// GoOn schedules the tasks for when an earlier process would have run them, according to its Due. So they
// run even if each process ends before they are due. It ignores times that are too far off, from
// another clock or another Every.
func (k *Keeper) GoOn(noted []Due) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, t := range k.tasks {
		for _, d := range noted {
			if d.Table == t.Table && d.Kind == t.Kind && time.Until(d.Next) <= spread(t.Every, 1) {
				k.next[i] = d.Next
			}
		}
	}
}

// Name tells the keeper from the stage that writes the table.
func (k *Keeper) Name() string { return "keep." + k.table }

// Due is when a task comes next.
type Due struct {
	Table string    `json:"table"`
	Kind  string    `json:"kind"`
	Next  time.Time `json:"next"`
}

// Due says when the tasks come next.
func (k *Keeper) Due() []Due {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]Due, len(k.tasks))
	for i, t := range k.tasks {
		out[i] = Due{t.Table, t.Kind, k.next[i]}
	}
	return out
}

// Step runs the tasks that are due. When another process keeps the table it does
// nothing.
func (k *Keeper) Step(ctx context.Context) (smelt.Progress, error) {
	due := k.due(time.Now())
	if len(due) == 0 {
		return smelt.Progress{}, nil
	}
	unlock, err := k.cfg.Locker.TryLock(ctx, Lock(k.table))
	if errors.Is(err, smelt.ErrLocked) {
		return smelt.Progress{}, nil
	}
	if err != nil {
		return smelt.Progress{}, err
	}
	defer unlock()
	var errs []error
	for _, i := range due {
		if err := k.tasks[i].Do(ctx, k.tell); err != nil {
			errs = append(errs, err)
			continue // it stays due
		}
		k.mu.Lock()
		k.next[i] = time.Now().Add(spread(k.tasks[i].Every, 2*rand.Float64()-1))
		k.mu.Unlock()
	}
	return smelt.Progress{}, errors.Join(errs...)
}

// due are the tasks whose time has come.
func (k *Keeper) due(now time.Time) (due []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, next := range k.next {
		if !now.Before(next) {
			due = append(due, i)
		}
	}
	return due
}

// tell logs what a job has done. Errors are logged by who steps the keeper.
func (k *Keeper) tell(j Job, d Done, took time.Duration, err error) {
	k.observe(j, d, took, err)
	log := k.cfg.Log.With("table", j.Table, "kind", j.Kind, "what", j.What)
	switch {
	case err != nil:
	case d.Lost != "":
		log.Debug("maintenance gave way", "reason", d.Lost)
	default:
		log.Info("maintained", "files_before", d.Before.Files, "files_after", d.After.Files,
			"bytes_before", d.Before.Bytes, "bytes_after", d.After.Bytes, "took", took.Round(time.Millisecond).String())
	}
}

// Lock is the name of the lock for maintaining a table.
func Lock(table string) string { return "maintain." + table }
