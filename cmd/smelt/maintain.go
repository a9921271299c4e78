package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/human"
	"smelt/internal/line"
	"smelt/internal/table"
	"smelt/upkeep"
)

// maintainCmd does on demand what smelt run does regularly.
type maintainCmd struct {
	Plan bool `help:"Only say what would be done."`
	JSON bool `name:"json" help:"Print JSON, a line a job."`

	Table []string `arg:"" optional:"" help:"Names of tables, such as silver.sensors or bronze.sensors; all by default."`
}

// chore is a printed job, as JSON. Its keys are stable.
type chore struct {
	Table   string      `json:"table"`
	Kind    string      `json:"kind"`
	What    string      `json:"what"`
	Before  upkeep.Size `json:"before"`
	After   upkeep.Size `json:"after"`
	Seconds *float64    `json:"seconds"` // null: it was not done
	Lost    string      `json:"lost"`    // why not, when another came first
}

// maintainWait is how long a job waits for another process that maintains the table. One job usually takes seconds.
const maintainWait = time.Minute

// Run plans the tasks of the tables, and does them unless only the plan is asked
// for. One that fails keeps no other from being done, as long
// as store and database answer.
func (c maintainCmd) Run(ctx context.Context, s *settings, io *streams) (err error) {
	policy, err := s.policy()
	if err != nil {
		return err
	}
	pipelines, err := s.pipelines()
	if err != nil {
		return err
	}
	lake, err := s.openLake(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	name, done := s.scratch("maintain")
	defer func() { err = errors.Join(err, done()) }()
	db, err := s.openDuck(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(db.Close(), err) }()
	parts, err := s.parts(lake, db, name, newLog(io.Err))
	if err != nil {
		return err
	}
	var tasks []upkeep.Task
	for _, p := range pipelines {
		tasks = append(tasks, upkeep.Tasks(maintenance(p, parts, policy))...)
	}
	if tasks, err = c.chosen(tasks); err != nil {
		return err
	}
	return c.all(ctx, tasks, lake, io)
}

// chosen are the tasks of the tables that were named.
func (c maintainCmd) chosen(tasks []upkeep.Task) ([]upkeep.Task, error) {
	var known []string
	for _, t := range tasks {
		if !slices.Contains(known, t.Table) {
			known = append(known, t.Table)
		}
	}
	for _, name := range c.Table {
		if !slices.Contains(known, name) {
			return nil, usagef("there is no table %q of these pipelines%s", name, smelt.DidYouMean(name, known...))
		}
	}
	return slices.DeleteFunc(tasks, func(t upkeep.Task) bool {
		return len(c.Table) > 0 && !slices.Contains(c.Table, t.Table)
	}), nil
}

// all does one task after the other, and prints each job.
func (c maintainCmd) all(ctx context.Context, tasks []upkeep.Task, lake *lake, io *streams) error {
	out := choreWriter{io: io, json: c.JSON}
	var errs []error
	busy := map[string]bool{}
	for _, t := range tasks {
		if busy[t.Table] {
			continue
		}
		err := c.task(ctx, t, lake, out.print)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, smelt.ErrLocked) {
			busy[t.Table] = true
			err = fmt.Errorf("%s was not changed: another process has been maintaining it for %s; try again later", t.Table, span(maintainWait))
		}
		if err != nil {
			errs = append(errs, err)
		}
		if errors.Is(err, smelt.ErrStore) || errors.Is(err, smelt.ErrDatabase) {
			break // it would fail the others, too
		}
	}
	if out.printed == 0 && len(errs) == 0 && !c.JSON {
		fmt.Fprintln(io.Err, "There is nothing to do.")
	}
	return errors.Join(errs...)
}

func (c maintainCmd) task(ctx context.Context, t upkeep.Task, lake *lake, print func(chore) error) error {
	if !c.Plan {
		unlock, err := await(ctx, lake.Database, upkeep.Lock(t.Table), maintainWait)
		if err != nil {
			return err
		}
		defer unlock()
		var failed error
		err = t.Do(ctx, func(j upkeep.Job, d upkeep.Done, took time.Duration, err error) {
			seconds := took.Seconds()
			if err == nil {
				failed = errors.Join(failed, print(chore{j.Table, j.Kind, j.What, d.Before, d.After, &seconds, d.Lost}))
			}
		})
		return errors.Join(err, failed)
	}
	jobs, err := t.Plan(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("%s %s: %w", t.Kind, t.Table, err)
	}
	for _, j := range jobs {
		if err := print(chore{Table: j.Table, Kind: j.Kind, What: j.What, Before: j.Before, After: j.After}); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a lock for a limited time, then fails with ErrLocked.
func await(ctx context.Context, locker smelt.Locker, name string, patience time.Duration) (unlock func(), err error) {
	wait, cancel := context.WithTimeoutCause(ctx, patience, smelt.ErrLocked)
	defer cancel()
	unlock, err = locker.Lock(wait, name)
	if err != nil && ctx.Err() == nil && wait.Err() != nil {
		return nil, smelt.ErrLocked
	}
	return unlock, err
}

// choreWriter prints jobs.
type choreWriter struct {
	io      *streams
	json    bool
	printed int
}

func (w *choreWriter) print(c chore) error {
	w.printed++
	if w.json {
		return json.NewEncoder(w.io.Out).Encode(c)
	}
	_, err := fmt.Fprintln(w.io.Out, c.text())
	return err
}

// text writes a job as a line.
func (c chore) text() string {
	text := fmt.Sprintf("%-22s %-9s  %s", c.Table, c.Kind, c.What)
	switch {
	case c.Lost != "":
		return text + ": left for later, " + c.Lost
	case c.Before.Files > 0:
		text += fmt.Sprintf("  %s → %s", sized(c.Before), sized(c.After))
	}
	if c.Seconds != nil {
		text += fmt.Sprintf("  %.1f s", *c.Seconds)
	}
	return text
}

// sized writes a number of files and their bytes, where these are known.
func sized(s upkeep.Size) string {
	switch {
	case s.Files == 0:
		return "none"
	case s.Bytes == 0:
		return amount(int64(s.Files), "file")
	}
	return fmt.Sprintf("%s, %s", amount(int64(s.Files), "file"), human.Bytes(s.Bytes))
}

// These bound the settings. With lower values, files that others still read or are about to commit could be deleted.
const (
	leastOrphanAge = 2 * table.FileAge
	leastGrace     = time.Minute
	leastFileSize  = 1 << 20
)

// policy is what the settings say of maintenance.
func (s *settings) policy() (upkeep.Policy, error) {
	switch {
	case time.Duration(s.OrphanAge) < leastOrphanAge:
		return upkeep.Policy{}, usagef("SMELT_ORPHAN_AGE: %s is too short: a commit that is under way may have files half as old; %s is the least", s.OrphanAge, span(leastOrphanAge))
	case time.Duration(s.BronzeGrace) < bronze.LeastGrace:
		return upkeep.Policy{}, usagef("SMELT_BRONZE_GRACE: %s is too short: others may use the objects of a listing for that long; the minimum is %s", s.BronzeGrace, span(bronze.LeastGrace))
	case time.Duration(s.SnapshotGrace) < leastGrace:
		return upkeep.Policy{}, usagef("SMELT_SNAPSHOT_GRACE: %s is too short: a query that has begun could lose its files; %s is the least", s.SnapshotGrace, span(leastGrace))
	case s.FileSize < leastFileSize:
		return upkeep.Policy{}, usagef("SMELT_FILE_SIZE: %s is too small; %s is the least", s.FileSize, bytes(leastFileSize))
	case s.Snapshots < 1:
		return upkeep.Policy{}, usagef("SMELT_SNAPSHOTS: %d: one snapshot at least is kept", s.Snapshots)
	}
	return upkeep.Policy{
		FileBytes: int64(s.FileSize), Snapshots: s.Snapshots, Grace: time.Duration(s.SnapshotGrace),
		Hourly: time.Duration(s.SnapshotHourly), Daily: time.Duration(s.SnapshotDaily),
		OrphanAge: time.Duration(s.OrphanAge), BronzeGrace: time.Duration(s.BronzeGrace),
	}, nil
}

// maintenance is what maintenance of a pipeline works with.
func maintenance(p *smelt.Pipeline, parts line.Parts, policy upkeep.Policy) upkeep.Config {
	return upkeep.Config{
		Pipeline: p, Area: parts.Area, Duck: parts.Duck, Locker: parts.Locker, Log: parts.Log, Codec: parts.Codec, Policy: policy,
	}
}
