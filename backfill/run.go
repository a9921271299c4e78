package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
)

const (
	// freeRounds bounds how often a run catches up with the stream before it takes
	// silver's lock: it comes nearer each time, and a backlog must not keep it off.
	freeRounds = 5
	// lockRecords are few enough to be caught up with under the lock: as many as a
	// small step of the stage has.
	lockRecords = 10_000
	// mostTries bounds how often a run repeats its last part, because another commit came first or
	// the outcome of its own is unknown.
	mostTries = 20
)

// Result is what a run has done.
type Result struct {
	Counts
	Differs   bool             `json:"differs"`   // false: everything came out as it was
	Published bool             `json:"published"` // there is a new snapshot; without a difference it only notes that rows are right with changed references
	Before    int64            `json:"before"`    // silver's snapshot before
	After     int64            `json:"after"`     // and after; 0 when nothing was published
	Tag       string           `json:"tag"`       // on the snapshot before, of every table of the pipeline
	Rows      int64            `json:"rows"`      // of silver after, by its ledger
	RowsWere  int64            `json:"rows_were"` // and before
	Rejected  map[string]int64 `json:"rejected"`  // into quarantine, by reason
	Released  map[string]int64 `json:"released"`  // out of quarantine, by reason
	Removed   int              `json:"files_removed"`
	Added     int              `json:"files_added"`
	Pause     time.Duration    `json:"pause_ns"` // that silver's stage was kept waiting
	More      bool             `json:"more"`     // a bounded scope had more rows
}

// Run replays what is in scope, and publishes it. An ErrAudit or any other error
// before the commit leaves every table as it was.
func (j *Job) Run(ctx context.Context, progress func(Progress)) (r Result, err error) {
	if progress != nil {
		j.progress = progress
	}
	alone, err := j.alone(ctx)
	if err != nil {
		return Result{}, err
	}
	defer alone()
	defer func() {
		if err != nil && !j.open && !r.Published {
			err = errors.Join(err, j.discard(context.WithoutCancel(ctx)))
		}
	}()
	for round := 0; round < freeRounds; round++ {
		j.progress(Progress{Doing: "looking for what is in scope"})
		_, n, err := j.catchUp(ctx)
		if err != nil {
			return Result{}, err
		}
		if n <= lockRecords && round > 0 {
			break
		}
	}
	if err := j.reach("caught up"); err != nil {
		return Result{}, err
	}
	unlock, err := j.Locker.Lock(ctx, silver.TableName(j.Pipeline.Name))
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	defer unlock()
	for try := 0; ; try++ {
		r, j.open, err = j.last(ctx, j.open)
		if err == nil {
			unlock()
			r.Pause = time.Since(began)
			return r, nil
		}
		if !errors.Is(err, table.ErrConflict) && !j.open || ctx.Err() != nil || try == mostTries {
			return r, err
		}
	}
}

// alone takes the lock that keeps backfills of a pipeline apart.
func (j *Job) alone(ctx context.Context) (unlock func(), err error) {
	name := "backfill." + j.Pipeline.Name
	unlock, err = j.Locker.TryLock(ctx, name)
	if errors.Is(err, smelt.ErrLocked) {
		j.progress(Progress{Doing: "waiting for another backfill of " + j.Pipeline.Name + " to end", Waiting: true})
		return j.Locker.Lock(ctx, name)
	}
	return unlock, err
}

// last is the last part, under the lock: it catches up, audits and commits. open says whether an
// earlier commit may have succeeded. After an error it says so of this one.
func (j *Job) last(ctx context.Context, open bool) (Result, bool, error) {
	if open { // its own commit would make it take its files for void
		t, err := j.Area.Lake.Load(ctx, silver.TableName(j.Pipeline.Name))
		if err != nil {
			return Result{}, open, err
		}
		if done, ok := j.landed(t); ok {
			return done, false, nil
		}
	}
	t, _, err := j.catchUp(ctx)
	if err != nil {
		return Result{}, open, err
	}
	if done, ok := j.landed(t); ok && open {
		return done, false, nil
	}
	if err := j.reach("locked"); err != nil {
		return Result{}, open, err
	}
	return j.publish(ctx, t, open)
}

// landed looks for the snapshot of this very job.
func (j *Job) landed(t *table.Table) (Result, bool) {
	for _, s := range t.Ancestors() {
		if s.Summary[ledger.BackfillID] == j.id {
			j.result.Published, j.result.After = true, s.ID
			return j.result, true
		}
	}
	return Result{}, false
}

// Published tells, after a Run that failed, whether what it was about to publish
// is there all the same: the reply to its commit may have been lost.
func (j *Job) Published(ctx context.Context) (bool, error) {
	if !j.open {
		return j.result.Published, nil
	}
	t, err := j.Area.Lake.Load(ctx, silver.TableName(j.Pipeline.Name))
	if err != nil {
		return false, err
	}
	_, ok := j.landed(t)
	return ok, nil
}

// discard deletes the files of pieces that were never committed.
func (j *Job) discard(ctx context.Context) error {
	var errs []error
	for _, p := range j.pieces {
		errs = append(errs, j.Area.Discard(ctx, p.staged))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete what was not published: %w", err)
	}
	return nil
}
