package upkeep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
	"smelt/silver"
)

// bronzeRetention removes records from bronze that were written longer ago than retain: says, unless one
// of these still needs them:
//
//   - silver: only records below every position that silver may be at are removed. These are the
//     positions of all its snapshots, whether expiry is late or a tag or branch keeps them, because a
//     rollback may go there and read on. Daily tags usually keep a month;
//   - quarantine: the records that it has, or had in a snapshot that still exists, stay, so that they
//     can be replayed;
//   - a backfill: while one of the pipeline runs, nothing is removed.
//
// Rows of silver stay after their records were removed. A backfill leaves them unchanged.
type bronzeRetention struct {
	Config
	merger *bronze.Merger
}

func retainBronze(cfg Config) Task {
	r := bronzeRetention{cfg, newMerger(cfg)}
	return Task{Table: "bronze." + cfg.Pipeline.Name, Kind: KindRetain, Every: retainEvery, Plan: r.plan}
}

func (r bronzeRetention) plan(ctx context.Context, now time.Time) ([]Job, error) {
	below, err := r.positions(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := r.merger.PlanRetire(ctx, below, now.Add(-r.Pipeline.Retain.Bronze))
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for _, run := range runs {
		jobs = append(jobs, Job{
			Table: "bronze." + r.Pipeline.Name, Kind: KindRetain, Before: Size{run.Objects, run.Bytes}, After: Size{Files: 1},
			What: fmt.Sprintf("records of partition %d below offset %d, written before %s", run.Partition, run.End, run.When.UTC().Format(time.DateTime)),
			Run:  func(ctx context.Context) (Done, error) { return r.run(ctx, run) },
		})
	}
	return jobs, nil
}

// run lets the records of a run go. The objects that had them are deleted after the
// grace period, with what merges leave.
func (r bronzeRetention) run(ctx context.Context, run bronze.Run) (Done, error) {
	unlock, err := r.Locker.TryLock(ctx, "backfill."+r.Pipeline.Name)
	if errors.Is(err, smelt.ErrLocked) {
		return Done{Lost: "a backfill is under way"}, nil
	}
	if err != nil {
		return Done{}, err
	}
	defer unlock()
	// A position that was planned with holds: a rollback goes to a snapshot that was
	// there, or to one that has been built on such a one since.
	keep, err := r.quarantined(ctx, run)
	if errors.Is(err, smelt.ErrNotFound) {
		return Done{Lost: "a snapshot of quarantine has expired meanwhile"}, nil
	}
	if err != nil {
		return Done{}, fmt.Errorf("retain bronze.%s: %w", r.Pipeline.Name, err)
	}
	o, meta, err := r.merger.Retire(ctx, run, keep)
	if errors.Is(err, smelt.ErrNotFound) {
		return Done{Lost: "others have merged or retired its objects"}, nil
	}
	if err != nil {
		return Done{}, err
	}
	r.Log.Info("retired", "table", "bronze."+r.Pipeline.Name, "partition", run.Partition, "below", run.End, "kept", meta.Count)
	return Done{Before: Size{run.Objects, run.Bytes}, After: Size{1, o.Size}}, nil
}

// positions returns, by partition, the lowest position that silver may be at or go back to. Without a table
// or a ledger there is none, and nothing may be removed.
func (r bronzeRetention) positions(ctx context.Context) (map[int32]int64, error) {
	t, err := r.Area.Lake.Load(ctx, silver.TableName(r.Pipeline.Name))
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	current, _, ok, err := ledger.Read[ledger.Silver](t)
	if err != nil || !ok {
		return nil, err
	}
	least := current.Position
	for _, s := range t.Snapshots() {
		then, ok, err := ledger.Of[ledger.Silver](s)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // it has the ledger of one before it, or cannot be gone back to
		}
		for id := range least {
			least[id] = min(least[id], then.Position[id]) // 0: it had nothing of it yet
		}
	}
	return least, nil
}

// quarantined gives the offsets of a run that quarantine has, in order.
func (r bronzeRetention) quarantined(ctx context.Context, run bronze.Run) (offsets []int64, err error) {
	files, err := r.rejects(ctx)
	files = slices.DeleteFunc(files, func(f table.File) bool { return !mayHold(f, run) })
	if err != nil || len(files) == 0 {
		return nil, err
	}
	session, err := r.Duck.Session(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	columns := []smelt.Column{
		{Name: "_partition_id", Type: smelt.Type{Name: "bigint"}},
		{Name: "_partition_offset", Type: smelt.Type{Name: "bigint"}},
	}
	for _, batch := range staging.Batches(files, staging.FileSize, batchFiles, batchBytes) {
		paths, release, err := r.Area.Fetch(ctx, batch)
		if err != nil {
			return nil, err
		}
		found, err := session.Query(ctx, fmt.Sprintf("SELECT DISTINCT _partition_offset FROM %s WHERE _partition_id = %d AND _partition_offset < %d",
			duck.ReadParquet(columns, paths), run.Partition, run.End))
		release()
		if err != nil {
			return nil, err
		}
		for found.Next() {
			var offset int64
			if err := found.Scan(&offset); err != nil {
				return nil, errors.Join(err, found.Close())
			}
			offsets = append(offsets, offset)
		}
		if err := errors.Join(found.Err(), found.Close()); err != nil {
			return nil, err
		}
	}
	slices.Sort(offsets)
	return slices.Compact(offsets), nil
}

// mayHold says whether a file of quarantine may have records of a run.
func mayHold(f table.File, run bronze.Run) bool {
	first, last, known := f.IntRange("_partition_id")
	if id := int64(run.Partition); known && (id < first || last < id) {
		return false
	}
	least, _, known := f.IntRange("_partition_offset")
	return !known || least < run.End
}

// rejects are the files of all that quarantine has and had.
func (r bronzeRetention) rejects(ctx context.Context) ([]table.File, error) {
	q, err := r.Area.Lake.Load(ctx, silver.QuarantineName(r.Pipeline.Name))
	if err != nil {
		return nil, err
	}
	found := map[string]table.File{}
	for _, id := range fullest(q.Snapshots()) {
		files, err := q.Files(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			found[f.Key] = f
		}
	}
	return slices.Collect(maps.Values(found)), nil
}

// fullest are the snapshots that together have all rows that any snapshot of a table has. The snapshot before an append or a
// compaction adds no row to them.
func fullest(snapshots []table.Snapshot) (ids []int64) {
	grown := map[int64]bool{}
	for _, s := range snapshots {
		if s.Operation == "append" || s.Operation == "replace" {
			grown[s.Parent] = true
		}
	}
	for _, s := range snapshots {
		if !grown[s.ID] {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
