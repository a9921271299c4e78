// Package upkeep keeps the lake fast as it grows. It merges small objects and files, drops snapshots that
// nothing keeps, deletes files that no snapshot has, and retires what a pipeline's retain: says.
//
// It stands over the line. It changes no row, except for retention, whose commits say so. It loses
// every race against a stage, a backfill or another engine. It may die at any moment, because the next
// run depends on durable state only. Start reading with keeper.go, then compact.go.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/staging"
)

// Config is what maintenance works with.
type Config struct {
	Pipeline *smelt.Pipeline
	Area     staging.Area
	Duck     *duck.DB
	Locker   smelt.Locker
	Log      *slog.Logger
	Codec    bronze.Codec // of merged objects; Zstd when empty
	Policy   Policy
}

// Size counts files and their bytes.
type Size struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// plus adds up.
func (s Size) plus(o Size) Size { return Size{s.Files + o.Files, s.Bytes + o.Bytes} }

// Task is one kind of work on one table.
type Task struct {
	Table string        // "silver.sensors", "bronze.sensors"
	Kind  string        // of the constants below
	Every time.Duration // how often it is looked for

	// Plan finds what is worth doing now. It changes nothing, and reads metadata
	// only. There may be nothing to do, and the table need not exist.
	Plan func(ctx context.Context, now time.Time) ([]Job, error)
}

// Kinds of work.
const (
	KindMerge     = "merge"     // bronze: small objects become large ones
	KindClean     = "clean"     // bronze: objects go that are in a merged one
	KindCompact   = "compact"   // small data files become large ones
	KindManifests = "manifests" // rewrites manifests
	KindExpire    = "expire"    // drops snapshots that nothing keeps
	KindOrphans   = "orphans"   // files go that no snapshot refers to
	KindRetain    = "retain"    // what is older than retain: says goes
)

// Job is a piece of such work.
type Job struct {
	Table  string
	Kind   string
	What   string // of what, in words: "event_time_day=2026-11-29: 143 small files"
	Before Size   // that it works on
	After  Size   // expected after it

	// Run does the job. A lost race is not an error: Done says so, and the next plan has the job again if
	// there is still something to do.
	Run func(ctx context.Context) (Done, error)
}

// Done is what a job has done.
type Done struct {
	Before Size
	After  Size
	Lost   string // why nothing was done: "" when it was
}

// Observe is called after each job, with how long it took and its error.
type Observe func(j Job, d Done, took time.Duration, err error)

// mostFailed is how many failed jobs end a Do. One unreadable file must not keep others from being merged, but an unavailable
// store fails every job.
const mostFailed = 3

// Do plans a task and runs its jobs, also when some of them fail.
func (t Task) Do(ctx context.Context, observe Observe) error {
	jobs, err := t.Plan(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("%s %s: %w", t.Kind, t.Table, err)
	}
	var failed []error
	for _, j := range jobs {
		begin := time.Now()
		done, err := j.Run(ctx)
		observe(j, done, time.Since(begin), err)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s %s, %s: %w", j.Kind, j.Table, j.What, err))
		}
		if ctx.Err() != nil || len(failed) == mostFailed {
			break
		}
	}
	return errors.Join(failed...)
}
