package upkeep

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"smelt"
	"smelt/gold"
	"smelt/internal/human"
	"smelt/internal/table"
	"smelt/silver"
)

// compactEvery is how often a table is looked at. At a commit every two seconds
// some sixty files have come by then.
const compactEvery = 2 * time.Minute

// compactTries is how often a merge is committed while other engines, who heed
// no lock, commit as well and leave its files alone.
const compactTries = 5

// regain is the share by which the size of merged files grows at each look, after it was halved for
// lack of memory. It doubles in one and a half hours.
const regain = 64

// appendedProperty, in a compaction's snapshot, is when rows were last added to the partition. The
// files that were added then no longer exist.
const appendedProperty = "smelt.appended"

// compactor merges small data files of a table. The rows stay the same, in the order of their event
// time. Readers of snapshots see a replace, which changes no row.
type compactor struct {
	Config
	table, lock string
	sort        []string      // columns
	corrects    string        // the lock that a backfill of the table holds; "" for none
	kept        time.Duration // how long retain: keeps its rows; 0: without limit
	told        sync.Map      // why it cannot be done, as was said
	refused     sync.Map      // keys of files that cannot be merged
	failed      sync.Map      // keys of partitions whose last merge failed
	fits        atomic.Int64  // bytes of files that DuckDB's memory takes, as far as is known; 0: any
}

// compaction is the task that merges small data files of a table, whose writers
// hold a lock when they commit.
func compaction(cfg Config, name, lock string) Task {
	c := &compactor{Config: cfg, table: name, lock: lock}
	switch name {
	case silver.TableName(cfg.Pipeline.Name):
		c.sort, c.corrects, c.kept = []string{cfg.Pipeline.Events.Time}, "backfill."+cfg.Pipeline.Name, cfg.Pipeline.Retain.Silver
	case silver.QuarantineName(cfg.Pipeline.Name):
		c.sort, c.corrects = []string{"_partition_id", "_partition_offset"}, "backfill."+cfg.Pipeline.Name
	}
	for _, m := range cfg.Pipeline.Gold {
		if name == gold.TableName(cfg.Pipeline.Name, m.Name) {
			c.sort, c.kept = []string{m.Column}, cfg.Pipeline.Retain.Gold
		}
	}
	return Task{Table: name, Kind: KindCompact, Every: compactEvery, Plan: c.plan}
}

// plan finds what to merge.
func (c *compactor) plan(ctx context.Context, now time.Time) ([]Job, error) {
	if busy, err := c.corrected(ctx); busy || err != nil {
		return nil, err
	}
	t, files, err := c.load(ctx)
	if err != nil || len(files) < 2 {
		return nil, err
	}
	if err := checkColumns(t); err != nil {
		c.tell(err)
		return nil, nil
	}
	files = slices.DeleteFunc(files, func(f table.File) bool { _, no := c.refused.Load(f.Key); return no })
	p := tiers{
		target:   c.target(),
		appended: func(f table.File) time.Time { return appended(t, f) },
		within:   func(f table.File) (lo, hi time.Time, ok bool) { return f.Range(c.sort[0]) },
		span:     spanOf(c.kept),
		now:      now,
	}
	var jobs []Job
	for _, m := range c.failedLast(p.plan(files)) {
		before := m.size()
		jobs = append(jobs, Job{
			Table: c.table, Kind: KindCompact, Before: before, After: Size{1, before.Bytes},
			What: partitionText(m.files[0].Partition) + human.Count(int64(before.Files), "small file"),
			Run:  func(ctx context.Context) (Done, error) { return c.note(ctx, m) },
		})
	}
	return jobs, nil
}

// failedLast puts the merges of partitions that failed last time behind the others:
// a Do gives up after some that fail, and damaged files stay damaged. Of all merges the
// first mostMerges are for now.
func (c *compactor) failedLast(merges []merge) []merge {
	slices.SortStableFunc(merges, func(a, b merge) int {
		_, before := c.failed.Load(partitionKey(a.files[0]))
		_, after := c.failed.Load(partitionKey(b.files[0]))
		switch {
		case before == after:
			return 0
		case before:
			return 1
		}
		return -1
	})
	return merges[:min(len(merges), mostMerges)]
}

// note runs a merge, and remembers whether it failed.
func (c *compactor) note(ctx context.Context, m merge) (Done, error) {
	done, err := c.run(ctx, m)
	if err == nil {
		c.failed.Delete(partitionKey(m.files[0]))
	} else if ctx.Err() == nil {
		c.failed.Store(partitionKey(m.files[0]), true)
	}
	return done, err
}

// target is how large files get: what the policy says, or less where that much does
// not fit into DuckDB's memory.
func (c *compactor) target() int64 {
	target := cmp.Or(c.Policy.FileBytes, DefaultFileBytes)
	fits := c.fits.Load()
	if fits == 0 {
		return target
	}
	c.fits.Store(fits + fits/regain)
	return min(target, fits)
}

// load gives the table and its files; none when there is nothing that could be
// merged.
func (c *compactor) load(ctx context.Context) (*table.Table, []table.File, error) {
	t, err := c.Area.Lake.Load(ctx, c.table)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	current, ok := t.Current()
	if !ok {
		return t, nil, nil
	}
	files, err := t.Files(ctx, current.ID)
	if errors.Is(err, table.ErrRowDeletes) {
		c.tell(table.ErrRowDeletes) // to merge the files would bring the deleted rows back
		return t, nil, nil
	}
	return t, files, err
}

// tell logs why a table, or some of its files, are not compacted, once.
func (c *compactor) tell(reason error) {
	if _, said := c.told.LoadOrStore(reason.Error(), true); !said {
		c.Log.Warn("not compacted", "table", c.table, "reason", reason)
	}
}

// corrected says whether a backfill of the table is under way: it would have to do
// again what it did with the files that a merge takes away.
func (c *compactor) corrected(ctx context.Context) (bool, error) {
	if c.corrects == "" {
		return false, nil
	}
	unlock, err := c.Locker.TryLock(ctx, c.corrects)
	if errors.Is(err, smelt.ErrLocked) {
		return true, nil
	}
	if err == nil {
		unlock()
	}
	return false, err
}

// appended says when rows last came into a file, as far as is known.
func appended(t *table.Table, f table.File) (at time.Time) {
	s, ok := t.Snapshot(f.Snapshot)
	if !ok || s.Operation != "replace" {
		return s.Time
	}
	if err := at.UnmarshalText([]byte(s.Summary[appendedProperty])); err != nil {
		return time.Time{} // another engine's
	}
	return at
}
