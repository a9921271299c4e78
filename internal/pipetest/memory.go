package pipetest

import (
	"context"
	"fmt"
	"sync"

	"smelt"
)

// References is reference data in memory. It is safe for concurrent use.
type References struct {
	mu      sync.Mutex
	version int64
	tables  map[string]smelt.ReferenceTable
}

// NewReferences returns an empty one.
func NewReferences() *References { return &References{tables: map[string]smelt.ReferenceTable{}} }

// Set replaces the content of a reference, and so its version.
func (r *References) Set(name string, columns []smelt.Column, rows [][]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	r.tables[name] = smelt.ReferenceTable{Columns: columns, Rows: rows}
}

// Version counts the changes so far.
func (r *References) Version(context.Context, []smelt.Reference) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version, nil
}

// Load returns the tables as they are now.
func (r *References) Load(_ context.Context, refs []smelt.Reference) (smelt.ReferenceSet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := smelt.ReferenceSet{Version: r.version}
	for _, ref := range refs {
		t, ok := r.tables[ref.Name]
		if !ok {
			return set, smelt.Mark(smelt.ErrPipeline, fmt.Errorf("reference %s: the test has no reference/%s.csv", ref.Name, ref.Name))
		}
		t.Reference = ref
		set.Tables = append(set.Tables, t)
	}
	return set, nil
}

// Locks are locks in memory. They are safe for concurrent use.
type Locks struct {
	mu   sync.Mutex
	held map[string]bool
}

// NewLocks returns locks that nobody holds.
func NewLocks() *Locks { return &Locks{held: map[string]bool{}} }

// TryLock takes a lock or returns ErrLocked.
func (l *Locks) TryLock(_ context.Context, name string) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return nil, fmt.Errorf("%s: %w", name, smelt.ErrLocked)
	}
	l.held[name] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, name)
	}, nil
}
