package pipetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"smelt"
)

// References is reference data in memory, with all that it ever was. It is safe
// for concurrent use.
type References struct {
	mu      sync.Mutex
	version int64
	tables  map[string][]content // the last is the current one
}

// content is what a table was from a version on.
type content struct {
	version int64
	columns []smelt.Column
	rows    [][]any
}

// NewReferences returns an empty one.
func NewReferences() *References { return &References{tables: map[string][]content{}} }

// Set replaces the content of a reference, and so its version.
func (r *References) Set(name string, columns []smelt.Column, rows [][]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	r.tables[name] = append(r.tables[name], content{r.version, columns, rows})
}

// Version counts the changes so far; 0 without references.
func (r *References) Version(_ context.Context, refs []smelt.Reference) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(refs) == 0 {
		return 0, nil
	}
	return r.version, nil
}

// Load returns the current tables.
func (r *References) Load(_ context.Context, refs []smelt.Reference) (smelt.ReferenceSet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(refs) == 0 {
		return smelt.ReferenceSet{}, nil
	}
	set := smelt.ReferenceSet{Version: r.version}
	for _, ref := range refs {
		history, err := r.history(ref)
		if err != nil {
			return set, err
		}
		now := history[len(history)-1]
		set.Tables = append(set.Tables, smelt.ReferenceTable{Reference: ref, Columns: now.columns, Rows: now.rows})
	}
	return set, nil
}

// Changes compares what the tables were, version by version. A table that is new
// or has other columns than before may have changed in any row.
func (r *References) Changes(_ context.Context, refs []smelt.Reference, since int64) ([]smelt.ReferenceChanges, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []smelt.ReferenceChanges
	for _, ref := range refs {
		history, err := r.history(ref)
		if err != nil {
			return nil, err
		}
		changes := smelt.ReferenceChanges{Reference: ref, Keys: map[string]int64{}}
		var before content
		for _, now := range history {
			key := slices.IndexFunc(now.columns, func(c smelt.Column) bool { return c.Name == ref.Key })
			switch {
			case now.version <= since:
			case key < 0 || !reflect.DeepEqual(before.columns, now.columns):
				changes.Whole = now.version
				clear(changes.Keys)
			default:
				for k := range changed(before, now, key) {
					changes.Keys[k] = now.version
				}
			}
			before = now
		}
		all = append(all, changes)
	}
	return all, nil
}

func (r *References) history(ref smelt.Reference) ([]content, error) {
	history, ok := r.tables[ref.Name]
	if !ok {
		return nil, smelt.Mark(smelt.ErrPipeline, fmt.Errorf("reference %s: the test has no reference/%s.csv", ref.Name, ref.Name))
	}
	return history, nil
}

// changed are the keys of the rows that only one of two contents has.
func changed(before, now content, key int) map[string]bool {
	surplus := map[[2]string]int{} // by key and row
	for i, c := range []content{before, now} {
		for _, row := range c.rows {
			if row[key] != nil {
				surplus[[2]string{text(c.columns[key], row[key]), fmt.Sprintf("%#v", row)}] += 2*i - 1
			}
		}
	}
	keys := map[string]bool{}
	for row, n := range surplus {
		if n != 0 {
			keys[row[0]] = true
		}
	}
	return keys
}

// text is a value of a column as PostgreSQL writes it; a double from 1e15 on it
// would write with an exponent.
func text(c smelt.Column, v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Time:
		if c.Type.Name == "date" {
			return v.Format(time.DateOnly)
		}
		return v.UTC().Format("2006-01-02 15:04:05.999999+00")
	}
	return fmt.Sprint(v)
}

// lockPoll is how often a lock that is waited for is looked at.
const lockPoll = 10 * time.Millisecond

// Locks are locks in memory. They are safe for concurrent use.
type Locks struct {
	mu      sync.Mutex
	held    map[string]bool
	waiting map[string]int
}

// NewLocks returns free locks.
func NewLocks() *Locks { return &Locks{held: map[string]bool{}, waiting: map[string]int{}} }

// TryLock takes a lock or returns ErrLocked.
func (l *Locks) TryLock(_ context.Context, name string) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[name] > 0 {
		return nil, fmt.Errorf("%s: %w", name, smelt.ErrLocked)
	}
	return l.take(name)
}

// Lock waits for a lock; those that wait are in no order.
func (l *Locks) Lock(ctx context.Context, name string) (func(), error) {
	l.wait(name, 1)
	defer l.wait(name, -1)
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		l.mu.Lock()
		unlock, err := l.take(name)
		l.mu.Unlock()
		if err == nil {
			return unlock, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *Locks) wait(name string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[name] += n
}

func (l *Locks) take(name string) (func(), error) {
	if l.held[name] {
		return nil, fmt.Errorf("%s: %w", name, smelt.ErrLocked)
	}
	l.held[name] = true
	return sync.OnceFunc(func() { // a second call would release another holder's lock
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, name)
	}), nil
}
