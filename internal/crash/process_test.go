package crash_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"smelt"
	"smelt/ingest"
	"smelt/internal/line"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
)

const (
	lakeRoot   = "s3://lake"
	cacheBytes = 64 << 20 // more than any run has
	never      = -1
)

// process is one smelt over a world. Its visible effects are recorded, and it may die before or after any of them. A dead process
// has no effects, and its locks are free, as a database frees those of a closed connection.
type process struct {
	*world
	parts  line.Parts
	free   bool              // a lock that another has counts for nothing
	by     string            // what it is at: the first word of what it does
	at     func(n int) dying // whether it dies of the n-th thing that it does; nil: of none
	before func(did string)  // the others' doing; nil: nothing

	mu    sync.Mutex
	did   []string // what others can see, in order
	dead  bool
	locks []func()
}

// dying says whether a process dies at the next effect.
type dying int

const (
	lives dying = iota
	diesBefore
	diesAfter
)

// process starts one. Its local files begin empty, as on a new machine.
func (w *world) process(by string) (*process, error) {
	p := &process{world: w, by: by}
	objects := store.NewFaulty(w.objects, func(op store.Op) store.Fault {
		if op.Name == "put" || op.Name == "delete" {
			return fault(p.does(op.Name + " " + op.Key))
		}
		return fault(p.reads())
	})
	dir, err := os.MkdirTemp(w.dir, "cache-")
	if err != nil {
		return nil, err
	}
	cache, err := store.NewCache(objects, filepath.Join(dir, "cache"), cacheBytes)
	if err != nil {
		return nil, err
	}
	p.parts = line.Parts{
		Area:       staging.Area{Store: objects, Lake: table.Open(objects, &catalog{p}, lakeRoot), Cache: cache},
		Duck:       w.duck,
		References: &references{p},
		Locker:     &locker{p},
		Log:        slog.New(slog.DiscardHandler),
		Flush:      flush,
		Source: func(_ context.Context, _ *smelt.Pipeline, resume smelt.Resume) (smelt.Source, error) {
			if p.reads() != lives {
				return nil, store.ErrCrash
			}
			s := w.topic.Open(resume)
			for i := range int32(partitions) {
				w.topic.Assign(i, s) // the group takes them from who is gone
			}
			return &source{p, s}, nil
		},
	}
	return p, nil
}

func fault(d dying) store.Fault {
	return map[dying]store.Fault{lives: store.None, diesBefore: store.Crash, diesAfter: store.CrashAfter}[d]
}

// names are the parts of names that differ from run to run, and numbers.
var names = regexp.MustCompile(`(\d{5}-|snap-\d+-\d+-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}`)

// does notes what the process is about to do, and says whether it dies of it.
func (p *process) does(what string) dying {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return diesBefore
	}
	did := p.by + " " + names.ReplaceAllStringFunc(what, func(name string) string {
		switch {
		case strings.HasPrefix(name, "snap-"):
			return "snap-"
		case strings.HasPrefix(name, "00000-"): // the first metadata file of a table
			return "new"
		}
		return ""
	})
	n := len(p.did)
	p.did = append(p.did, did)
	d := lives
	if p.at != nil {
		d = p.at(n)
	}
	p.dead = d != lives
	p.mu.Unlock()
	if p.before != nil && d == lives {
		p.before(did)
	}
	return d
}

// reads says whether the process is alive to read.
func (p *process) reads() dying {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return diesBefore
	}
	return lives
}

// bury frees the locks that a dead process held.
func (p *process) bury() {
	for _, unlock := range p.locks {
		unlock()
	}
}

// call does something that others can see.
func (p *process) call(what string, do func() error) error {
	d := p.does(what)
	if d == diesBefore {
		return fmt.Errorf("%s: %w", what, store.ErrCrash)
	}
	err := do()
	if d == diesAfter {
		return fmt.Errorf("%s: %w", what, store.ErrCrash)
	}
	return err
}

// read makes a read call.
func read[T any](p *process, ask func() (T, error)) (got T, err error) {
	if p.reads() != lives {
		return got, store.ErrCrash
	}
	return ask()
}

type catalog struct{ p *process }

func (c *catalog) Current(ctx context.Context, names ...string) ([]string, error) {
	return read(c.p, func() ([]string, error) { return c.p.catalog.Current(ctx, names...) })
}

func (c *catalog) List(ctx context.Context) ([]string, error) {
	return read(c.p, func() ([]string, error) { return c.p.catalog.List(ctx) })
}

func (c *catalog) Swap(ctx context.Context, moves ...smelt.Move) error {
	var names []string
	for _, m := range moves {
		names = append(names, m.Table)
	}
	slices.Sort(names)
	return c.p.call("swap "+strings.Join(names, "+"), func() error { return c.p.catalog.Swap(ctx, moves...) })
}

func (c *catalog) Drop(ctx context.Context, name, location string) error {
	return c.p.call("drop "+name, func() error { return c.p.catalog.Drop(ctx, name, location) })
}

type references struct{ p *process }

func (r *references) Version(ctx context.Context, refs []smelt.Reference) (int64, error) {
	return read(r.p, func() (int64, error) { return r.p.references.Version(ctx, refs) })
}

func (r *references) Load(ctx context.Context, refs []smelt.Reference) (smelt.ReferenceSet, error) {
	return read(r.p, func() (smelt.ReferenceSet, error) { return r.p.references.Load(ctx, refs) })
}

func (r *references) Changes(ctx context.Context, refs []smelt.Reference, since int64) ([]smelt.ReferenceChanges, error) {
	return read(r.p, func() ([]smelt.ReferenceChanges, error) { return r.p.references.Changes(ctx, refs, since) })
}

type locker struct{ p *process }

func (l *locker) TryLock(ctx context.Context, name string) (func(), error) {
	return l.take(name, func() (func(), error) { return l.p.world.locks.TryLock(ctx, name) })
}

func (l *locker) Lock(ctx context.Context, name string) (func(), error) {
	return l.take(name, func() (func(), error) { return l.p.world.locks.Lock(ctx, name) })
}

func (l *locker) take(name string, take func() (func(), error)) (unlock func(), err error) {
	if l.p.free {
		return func() {}, nil
	}
	err = l.p.call("lock "+name, func() (err error) {
		if unlock, err = take(); err == nil {
			l.p.locks = append(l.p.locks, unlock)
		}
		return err
	})
	return unlock, err
}

// source is the topic as a process reads it.
type source struct {
	p *process
	*ingest.LogSource
}

func (s *source) Poll(ctx context.Context, max int) ([]smelt.Record, error) {
	return read(s.p, func() ([]smelt.Record, error) { return s.LogSource.Poll(ctx, max) })
}

func (s *source) Commit(ctx context.Context, next map[int32]int64) error {
	return s.p.call("commit", func() error { return s.LogSource.Commit(ctx, next) })
}

func (s *source) Describe(ctx context.Context) (smelt.Description, error) {
	return read(s.p, func() (smelt.Description, error) { return s.LogSource.Describe(ctx) })
}
