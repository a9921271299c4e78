package backfill

import (
	"context"
	"errors"
	"fmt"
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
	before := j.pair.Ledger
	j.tell("publishing", 0)
	if err := j.audit(ctx); err != nil {
		return Result{}, open, err
	}
	if err := j.reach("audited"); err != nil {
		return Result{}, open, err
	}
	after := j.account(before)
	moved, err := j.moved(ctx)
	if err != nil {
		return Result{}, open, err
	}
	moved.Count(&after)
	change, staged := table.Change{Columns: j.refiner.Columns()}, []staging.Staged(nil)
	for _, p := range j.pieces {
		change.Remove = append(change.Remove, p.remove...)
		staged = append(staged, p.staged...)
	}
	change.Add = staging.Files(staged)
	j.result = resultOf(t, j.counts(), before, after, change)
	j.result.Rejected, j.result.Released = moved.Rejected, moved.Released
	j.result.More = j.scope.Most > 0 && j.found >= j.scope.Most
	j.result.Differs = len(change.Add)+len(change.Remove) > 0 || !moved.Empty()
	// Equal rows stay. But the ledger must record that they are right with the changed
	// reference. Otherwise each backfill would find and replay them again.
	note := j.chosen.latest > before.Corrected && after.Corrected > before.Corrected
	if !j.result.Differs && !note {
		return j.result, false, nil
	}
	if err := checkRows(change, before, after); err != nil {
		return Result{}, open, err
	}
	if !j.scope.Unmatched { // healing goes on all the time, and takes nothing away
		if change.Tag, err = j.tag(ctx); err != nil {
			return Result{}, open, errors.Join(err, moved.Discard(ctx))
		}
	}
	j.result.Tag = change.Tag
	change.Summary = map[string]string{ledger.BackfillID: j.id, ledger.BackfillScope: j.scope.String()}
	if err := j.reach("tagged"); err != nil {
		return Result{}, open, err
	}
	committed, err := j.pair.Publish(ctx, j.Area.Lake, change, after, moved)
	if errors.Is(err, table.ErrOld) {
		err = fmt.Errorf("the backfill has taken too long: run it again, with a smaller scope (%w)", err)
		return Result{}, open, errors.Join(err, moved.Discard(ctx))
	}
	if errors.Is(err, table.ErrConflict) {
		return Result{}, open, errors.Join(err, moved.Discard(ctx))
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

// account works out the ledger after the commit, without what quarantine gets and gives.
func (j *Job) account(before ledger.Silver) ledger.Silver {
	after := before
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
	return after
}

// moved is the edit of quarantine: the records that go into it and those that come out.
func (j *Job) moved(ctx context.Context) (*silver.QuarantineEdit, error) {
	j.tries++
	dir := func(name string) string { return filepath.Join(j.dir, fmt.Sprintf("%s-%d", name, j.tries)) }
	e := j.refiner.EditQuarantine(j.pair.Quarantine)
	err := e.Release(ctx, "work.released", dir("released"))
	if err == nil {
		err = e.Reject(ctx, "work.rejected", rejectColumns, dir("rejected"))
	}
	if err != nil {
		return nil, errors.Join(err, e.Discard(ctx)) // nothing was committed
	}
	return e, nil
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
	}
	if current, ok := t.Current(); ok {
		r.Before = current.ID
	}
	return r
}
