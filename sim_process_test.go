package smelt_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/gold"
	"smelt/ingest"
	"smelt/internal/ledger"
	"smelt/internal/line"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
	"smelt/silver"
	"smelt/upkeep"
)

const (
	simRoot = "s3://lake"
	// simFlush is the flush interval of bronze, in the bubble's time.
	simFlush = 20 * time.Millisecond
)

// process is one running smelt: a line of its own over the world's store,
// catalog, topic and references, with its own caches. Each of its calls to the
// outside goes through the gate, where the world lets it wait, fail or die.
type process struct {
	w      *world
	name   string
	dir    string // of its cache, which outlives it
	line   *line.Line
	lake   *table.Lake
	ctx    context.Context
	cancel context.CancelFunc
	source *ingest.LogSource // nil while it polls none
	healer *backfill.Healer
	upkeep upkeep.Config

	prepared bool // its tables are what its pipeline says

	favoured bool // its backfill meets less trouble: a long piece of work would never end

	dead    bool            // it crashed: no call of its does anything any more
	stopped bool            // it was told to stop
	frozen  bool            // none of its calls goes on for now
	more    bool            // the last step has left some work
	running map[string]bool // by the stage that is being stepped
}

// open starts a process.
func (w *world) open(name, dir string) (*process, error) {
	p := &process{w: w, name: name, dir: dir, running: map[string]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	objects := store.NewFaulty(w.objects, func(op store.Op) store.Fault {
		return p.gate(op.Name + " " + op.Key).fault
	})
	cache, err := store.NewCache(objects, filepath.Join(w.dir, dir), w.cacheBytes)
	if err != nil {
		return nil, err
	}
	p.lake = table.Open(objects, &catalog{p, w.catalog}, simRoot)
	area := staging.Area{Store: objects, Lake: p.lake, Cache: cache}
	p.upkeep = w.upkeep(area, &locker{p}, w.policy())
	p.line, err = line.Open(p.ctx, w.deployed(), line.Parts{
		Area:       area,
		Duck:       w.duck,
		References: &references{p},
		Locker:     &locker{p},
		Log:        discard(),
		Flush:      simFlush,
		RecordMax:  recordMax,
		BatchBytes: w.batchBytes,
		Source: func(_ context.Context, _ *smelt.Pipeline, resume smelt.Resume) (smelt.Source, error) {
			if err := p.call("open the topic", func() error { return nil }); err != nil {
				return nil, err
			}
			p.source = w.topic.Open(resume)
			return &source{p, p.source}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	p.healer = backfill.NewHealer(p.line.Silver.Config)
	return p, nil
}

// discard is a log without readers.
func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// stages are what a process steps.
func (p *process) stages() []smelt.Stage {
	out := []smelt.Stage{p.line.Bronze, p.line.Silver, p.healer}
	for _, g := range p.line.Gold {
		out = append(out, g)
	}
	return out
}

// call is a call of a process that waits at the gate.
type call struct {
	p     *process
	op    string
	reply chan verdict
}

// verdict is what the world does with a call.
type verdict struct {
	fault store.Fault
	lost  bool // a lock that another holds counts for nothing
}

// gate waits until the world lets a call go on.
func (p *process) gate(op string) verdict {
	p.w.mu.Lock()
	if p.dead {
		p.w.mu.Unlock()
		return verdict{fault: store.Crash}
	}
	c := &call{p, random.ReplaceAllString(op, "*"), make(chan verdict, 1)}
	p.w.waiting = append(p.w.waiting, c)
	p.w.mu.Unlock()
	return <-c.reply
}

// random are the parts of names that differ from run to run.
var random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|snap-[0-9]+`)

// call takes a call through the gate.
func (p *process) call(op string, do func() error) error {
	_, err := p.ask(op, func(verdict) error { return do() })
	return err
}

func (p *process) ask(op string, do func(verdict) error) (verdict, error) {
	v := p.gate(op)
	switch v.fault {
	case store.FailBefore:
		return v, fmt.Errorf("%s: %w", op, store.ErrInjected)
	case store.Crash:
		return v, fmt.Errorf("%s: %w", op, store.ErrCrash)
	}
	err := do(v)
	switch v.fault {
	case store.FailAfter:
		return v, fmt.Errorf("%s: reply lost: %w", op, store.ErrInjected)
	case store.CrashAfter:
		return v, fmt.Errorf("%s: %w", op, store.ErrCrash)
	}
	return v, err
}

// catalog is the catalog as a process reaches it.
type catalog struct {
	p     *process
	inner table.Catalog
}

func (c *catalog) Current(ctx context.Context, names ...string) (locations []string, err error) {
	err = c.p.call("current "+strings.Join(names, "+"), func() (err error) {
		locations, err = c.inner.Current(ctx, names...)
		return err
	})
	return locations, err
}

func (c *catalog) Swap(ctx context.Context, moves ...smelt.Move) error {
	var names []string
	for _, m := range moves {
		names = append(names, m.Table)
	}
	slices.Sort(names)
	return c.p.call("swap "+strings.Join(names, "+"), func() error { return c.inner.Swap(ctx, moves...) })
}

func (c *catalog) Drop(ctx context.Context, name, location string) error {
	return c.p.call("drop "+name, func() error { return c.inner.Drop(ctx, name, location) })
}

func (c *catalog) List(ctx context.Context) (names []string, err error) {
	err = c.p.call("list tables", func() (err error) {
		names, err = c.inner.List(ctx)
		return err
	})
	return names, err
}

// references are the references as a process reaches them.
type references struct{ p *process }

func (r *references) Version(ctx context.Context, refs []smelt.Reference) (version int64, err error) {
	err = r.p.call("reference version", func() (err error) {
		version, err = r.p.w.references.Version(ctx, refs)
		return err
	})
	return version, err
}

func (r *references) Load(ctx context.Context, refs []smelt.Reference) (set smelt.ReferenceSet, err error) {
	err = r.p.call("load references", func() (err error) {
		set, err = r.p.w.references.Load(ctx, refs)
		return err
	})
	return set, err
}

func (r *references) Changes(ctx context.Context, refs []smelt.Reference, since int64) (changes []smelt.ReferenceChanges, err error) {
	err = r.p.call("reference changes", func() (err error) {
		changes, err = r.p.w.references.Changes(ctx, refs, since)
		return err
	})
	return changes, err
}

// needed are the silver snapshots that must not expire: those from which
// quarantine goes on and, if gold's are spared, those from which gold does.
func (w *world) needed(p *process, name string, spare bool) ([]int64, error) {
	pipeline := w.load.pipeline
	if name != silver.TableName(pipeline.Name) {
		return nil, nil
	}
	t, err := p.lake.Load(p.ctx, name)
	if err != nil {
		return nil, err
	}
	_, at, _, err := ledger.Read[ledger.Silver](t)
	if err != nil {
		return nil, err
	}
	needed := []int64{at.ID} // silver publishes all earlier rejects before it goes on
	for _, m := range pipeline.Gold {
		if !spare {
			continue
		}
		g, err := p.lake.Load(p.ctx, gold.TableName(pipeline.Name, m.Name))
		if errors.Is(err, smelt.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l, _, _, err := ledger.Read[ledger.Gold](g)
		if err != nil {
			return nil, err
		}
		needed = append(needed, l.SilverSnapshot)
	}
	return needed, nil
}

// locker is the locks as a process reaches them. A lock is lost at times: its
// holder works on, and so does another.
type locker struct{ p *process }

func (l *locker) TryLock(ctx context.Context, name string) (unlock func(), err error) {
	_, err = l.p.ask("lock "+name, func(v verdict) (err error) {
		unlock, err = l.p.w.locks.TryLock(ctx, name)
		if errors.Is(err, smelt.ErrLocked) && v.lost {
			unlock, err = func() {}, nil
		}
		return err
	})
	if err != nil && unlock != nil { // taken, but nobody knows: the database frees it with the connection
		unlock()
	}
	return unlock, err
}

// Lock waits for a lock, trying again and again.
func (l *locker) Lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		if unlock, err = l.TryLock(ctx, name); !errors.Is(err, smelt.ErrLocked) {
			return unlock, err
		}
		time.Sleep(simFlush)
	}
}

// source is the topic as a process reads it.
type source struct {
	p     *process
	inner *ingest.LogSource
}

func (s *source) Poll(ctx context.Context, max int) (records []smelt.Record, err error) {
	err = s.p.call("poll", func() (err error) {
		records, err = s.inner.Poll(ctx, max)
		return err
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

func (s *source) Commit(ctx context.Context, next map[int32]int64) error {
	return s.p.call("commit offsets", func() error { return s.inner.Commit(ctx, next) })
}

func (s *source) Describe(ctx context.Context) (d smelt.Description, err error) {
	err = s.p.call("describe the topic", func() (err error) {
		d, err = s.inner.Describe(ctx)
		return err
	})
	return d, err
}

// Close leaves the group. Who is dead does not say so: its partitions stay with
// it until the group gives them to another.
func (s *source) Close() error {
	s.p.source = nil
	if s.p.dead {
		return nil
	}
	return s.inner.Close()
}
