package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/internal/line"
)

// backfillCmd corrects history.
type backfillCmd struct {
	scopeFlags

	Plan bool `help:"Only say what would be replayed."`
	Yes  bool `help:"Do not ask."`
	JSON bool `name:"json" help:"Print one JSON object: plan, result, windows."`

	Pipeline string `arg:"" help:"Name of the pipeline."`
}

// outcome is what a backfill prints, as JSON. Its keys are stable.
type outcome struct {
	Plan    backfill.Plan          `json:"plan"`
	Result  *backfill.Result       `json:"result"`  // null when nothing was replayed
	Windows []backfill.WindowCount `json:"windows"` // of gold that were computed since; null when nothing was published
	Seconds float64                `json:"seconds"` // from the end of the plan on

	replaying time.Duration // of them, until silver was published
}

// Run prints the plan, asks, replays and publishes, and prints what has changed.
func (c *backfillCmd) Run(ctx context.Context, s *settings, io *streams) error {
	pipelines, err := s.named([]string{c.Pipeline})
	if err != nil {
		return err
	}
	scope, err := c.scope(pipelines[0], time.Now())
	if err != nil {
		return err
	}
	if !c.Plan && !c.Yes && !isTerminalInput(io.In) {
		return usagef("there is no terminal to ask on: --yes replays without asking, --plan only says what would be replayed")
	}
	b, err := s.openBackfill(ctx, pipelines[0], scope, io)
	if err != nil && interrupted(ctx) {
		return errInterrupted // whichever call was interrupted
	}
	if err != nil {
		return err
	}
	r, err := c.replay(ctx, b, io)
	if errors.Is(err, backfill.ErrScope) {
		err = usageError{err}
	}
	if err != nil {
		return errors.Join(b.told(ctx, pipelines[0], err), b.Close())
	}
	if c.JSON {
		out := json.NewEncoder(io.Out)
		out.SetEscapeHTML(false)
		return errors.Join(out.Encode(r), b.Close())
	}
	_, err = fmt.Fprint(io.Out, c.summary(r))
	return errors.Join(err, b.Close())
}

// replay plans, asks and runs, as far as the flags say.
func (c *backfillCmd) replay(ctx context.Context, b *backfilling, io *streams) (r outcome, err error) {
	if r.Plan, err = b.job.Plan(ctx); err != nil {
		return r, err
	}
	if !c.JSON && r.Plan.Records > 0 {
		fmt.Fprint(io.Out, planText(r.Plan))
	}
	// With no row in scope, changes of a reference are still looked for under
	// silver's lock: a step with the old one may be under way.
	if c.Plan || r.Plan.Records == 0 && !c.ReferenceChanges {
		return r, nil
	}
	if !c.Yes && r.Plan.Records > 0 {
		noun := "row"
		if r.Plan.Files == 0 {
			noun = "record"
		}
		if err := ask(ctx, io, "Replay "+amount(r.Plan.Records, noun)+"?"); err != nil {
			return r, err
		}
	}
	began := time.Now()
	meter := newMeter(io.Err, r.Plan.Records)
	b.replaying = true
	result, err := b.job.Run(ctx, meter.show)
	meter.done()
	r.replaying = time.Since(began)
	if err != nil {
		return r, err
	}
	r.Result = &result
	if result.Published {
		r.Windows, err = b.follower.Follow(ctx)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, err
}

// backfilling is a backfill with what it works with: a DuckDB and folders of its
// own, beside those of the pipeline that runs.
type backfilling struct {
	job       *backfill.Job
	follower  *backfill.Follower
	replaying bool           // tables may be written to from here on
	close     []func() error // in the order opened
}

// openBackfill checks the pipeline and makes a job of it.
func (s *settings) openBackfill(ctx context.Context, p *smelt.Pipeline, scope backfill.Scope, io *streams) (b *backfilling, err error) {
	b = new(backfilling)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	name, done := s.scratch("backfill")
	b.close = append(b.close, done)
	db, err := s.openDuck(name)
	if err != nil {
		return b, err
	}
	b.close = append(b.close, db.Close)
	if _, err := line.Check(ctx, db, p); err != nil {
		return b, err
	}
	lake, err := s.openLake(ctx)
	if err != nil {
		return b, err
	}
	b.close = append(b.close, func() error { lake.Close(); return nil })
	if err := lake.Database.Prepare(ctx, p.References); err != nil {
		return b, err
	}
	parts, err := s.parts(lake, db, name, newLog(io.Err))
	if err != nil {
		return b, err
	}
	gold, err := line.OpenGold(ctx, p, parts)
	if err != nil {
		return b, err
	}
	b.close = append(b.close, func() error { return line.CloseGold(gold) })
	if b.follower, err = backfill.NewFollower(ctx, lake.Tables, gold); err != nil {
		return b, err
	}
	if b.job, err = backfill.Open(ctx, line.SilverConfig(p, parts), scope); err != nil {
		return b, err
	}
	b.close = append(b.close, b.job.Close)
	return b, nil
}

// told reports, with an error, the state of the tables.
func (b *backfilling) told(ctx context.Context, p *smelt.Pipeline, err error) error {
	if interrupted(ctx) {
		err = errInterrupted // whichever call was interrupted
	}
	if !interrupted(ctx) && (!b.replaying || errors.Is(err, smelt.ErrAudit)) { // it says so itself
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), toldTimeout)
	defer cancel()
	silver := "silver." + p.Name
	switch published, unknown := b.job.Published(ctx); {
	case unknown != nil:
		return fmt.Errorf("%w; it is unknown whether %s was published (%v): smelt history %s shows it", err, silver, unknown, silver)
	case published:
		return fmt.Errorf("%w; %s was published: quarantine and gold follow when the pipeline runs", err, silver)
	}
	return fmt.Errorf("%w; nothing was published, and all tables are as they were", err)
}

// toldTimeout bounds the check whether something was published, which usually takes one request.
const toldTimeout = 5 * time.Second

// Close closes what was opened, the last first.
func (b *backfilling) Close() error {
	var errs []error
	for len(b.close) > 0 {
		last := len(b.close) - 1
		errs = append(errs, b.close[last]())
		b.close = b.close[:last]
	}
	return errors.Join(errs...)
}
