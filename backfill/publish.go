package backfill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"smelt"
	"smelt/gold"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
	"smelt/silver"
)

// publish audits what was rebuilt and commits it, when something differs. open is
// as in last.
func (j *Job) publish(ctx context.Context, t *table.Table, open bool) (Result, bool, error) {
	before, _, _, err := ledger.Read[ledger.Silver](t)
	if err != nil {
		return Result{}, open, err
	}
	j.tell("publishing", 0)
	if err := j.audit(ctx); err != nil {
		return Result{}, open, err
	}
	if err := j.reach("audited"); err != nil {
		return Result{}, open, err
	}
	after := j.account(before)
	handed, err := j.handOver(ctx, &after)
	if err != nil {
		return Result{}, open, err
	}
	change, staged := table.Change{Columns: j.refiner.Columns(), Named: staging.Files(handed)}, []staging.Staged(nil)
	for _, p := range j.pieces {
		change.Remove = append(change.Remove, p.remove...)
		staged = append(staged, p.staged...)
	}
	change.Add = staging.Files(staged)
	j.result = resultOf(t, j.counts(), before, after, change)
	j.result.More = j.scope.Most > 0 && j.found >= j.scope.Most
	j.result.Differs = len(change.Add)+len(change.Remove) > 0 || after.Rejects != nil || after.Released != nil
	// Rows that come out the same stay as they are. That they are right with the
	// changed reference has to be noted all the same, or they would be looked for, and
	// replayed, for ever.
	note := j.chosen.latest > before.Corrected && after.Corrected > before.Corrected
	if !j.result.Differs && !note {
		return j.result, false, nil
	}
	if err := checkRows(change, before, after); err != nil {
		return Result{}, open, err
	}
	if !j.scope.Unmatched { // healing goes on all the time, and takes nothing away
		if change.Tag, err = j.tag(ctx); err != nil {
			return Result{}, open, errors.Join(err, j.Area.Discard(ctx, handed))
		}
	}
	j.result.Tag = change.Tag
	if err := ledger.Write(&change, after); err != nil {
		return Result{}, open, err
	}
	change.Summary[ledger.BackfillID], change.Summary[ledger.BackfillScope] = j.id, j.scope.String()
	if err := j.reach("tagged"); err != nil {
		return Result{}, open, err
	}
	committed, err := t.Commit(ctx, change)
	if errors.Is(err, table.ErrOld) {
		err = fmt.Errorf("the backfill has taken too long: run it again, with a smaller scope (%w)", err)
		return Result{}, open, errors.Join(err, j.Area.Discard(ctx, handed))
	}
	if errors.Is(err, table.ErrConflict) {
		return Result{}, open, errors.Join(err, j.Area.Discard(ctx, handed))
	}
	if err != nil {
		return Result{}, true, err
	}
	head, _ := committed.Current()
	j.result.Published, j.result.After = true, head.ID
	if err := j.Area.Keep(staged); err != nil {
		j.Log.Warn("keep files in the cache", "pipeline", j.Pipeline.Name, "error", err)
	}
	return j.result, false, j.reach("committed")
}

// account works out the ledger after the commit, but for what is handed over.
func (j *Job) account(before ledger.Silver) ledger.Silver {
	after := before
	after.Rejects, after.Released = nil, nil
	after.ReferenceVersion = max(before.ReferenceVersion, j.refiner.ReferenceSet().Version)
	after.ReferenceFloor = max(before.ReferenceFloor, j.version)
	if (j.scope.ReferenceChanges || j.scope.All) && j.scope.Most == 0 {
		after.Corrected = max(before.Corrected, j.version)
	}
	after.Unmatched += j.counts().Unmatched
	for _, p := range j.pieces {
		for _, f := range staging.Files(p.staged) {
			if _, newest, ok := f.Range(j.Pipeline.Events.Time); ok && newest.After(after.Newest) {
				after.Newest = newest
			}
		}
	}
	after.Quarantined = maps.Clone(before.Quarantined)
	if after.Quarantined == nil {
		after.Quarantined = map[string]int64{}
	}
	return after
}

// handOver uploads what goes into quarantine and what comes out, and notes it in
// the ledger.
func (j *Job) handOver(ctx context.Context, after *ledger.Silver) (staged []staging.Staged, err error) {
	j.tries++
	dir := func(name string) string { return filepath.Join(j.dir, fmt.Sprintf("%s-%d", name, j.tries)) }
	after.Rejects, staged, err = j.outbox.Upload(ctx, "work.rejected", rejectColumns, dir("rejected"))
	if err != nil {
		return nil, err
	}
	released, more, err := j.outbox.Upload(ctx, "work.released", releasedColumns, dir("released"))
	if err != nil {
		return nil, errors.Join(err, j.Area.Discard(ctx, staged))
	}
	after.Released = released
	silver.Handover{Rejects: after.Rejects, Released: after.Released}.Count(after.Quarantined)
	return append(staged, more...), nil
}

// releasedColumns are those of work.released.
var releasedColumns = []smelt.Column{
	{Name: "_partition_id", Type: smelt.Type{Name: "integer"}},
	{Name: "_partition_offset", Type: smelt.Type{Name: "bigint"}},
	{Name: "reason", Type: smelt.Type{Name: "varchar"}},
}

// checkRows holds the files against the ledgers: a difference would lose records,
// or have them twice.
func checkRows(change table.Change, before, after ledger.Silver) error {
	var n int64
	for _, f := range change.Add {
		n += f.Rows
	}
	for _, f := range change.Remove {
		n -= f.Rows
	}
	if want := after.Rows() - before.Rows(); n != want {
		return fmt.Errorf("the files have %+d rows, but the ledger %+d: this is a bug in smelt, and nothing was published", n, want)
	}
	return nil
}

// tag gives a name to the state of quarantine and gold before, by which they
// stay readable; silver gets it with the commit.
func (j *Job) tag(ctx context.Context) (string, error) {
	tag := fmt.Sprintf("smelt-backfill-%s-%.4s", j.now.Format("20060102T150405Z"), j.id)
	names := []string{silver.QuarantineName(j.Pipeline.Name)}
	for _, m := range j.Pipeline.Gold {
		names = append(names, gold.TableName(j.Pipeline.Name, m.Name))
	}
	for _, name := range names {
		t, err := j.Area.Lake.Load(ctx, name)
		if errors.Is(err, smelt.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		current, ok := t.Current()
		if _, tagged := t.Refs()[tag]; !ok || tagged {
			continue
		}
		if err := j.Area.Lake.Tag(ctx, name, tag, current.ID, table.TagAge); err != nil {
			return "", err
		}
	}
	return tag, nil
}

// resultOf tells what a change does.
func resultOf(t *table.Table, counts Counts, before, after ledger.Silver, change table.Change) Result {
	r := Result{
		Counts: counts, RowsWere: before.Rows(), Rows: after.Rows(), Removed: len(change.Remove), Added: len(change.Add),
		Rejected: map[string]int64{}, Released: map[string]int64{},
	}
	if current, ok := t.Current(); ok {
		r.Before = current.ID
	}
	if after.Rejects != nil {
		r.Rejected = after.Rejects.Reasons
	}
	if after.Released != nil {
		r.Released = after.Released.Reasons
	}
	return r
}
