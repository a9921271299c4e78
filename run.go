package smelt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// Line is what [Run] drives.
type Line struct {
	Ingest  []Stage // source to bronze: stepped without a pause
	Refine  []Stage // bronze to silver: stepped as long as there is more, then every poll
	Refresh []Stage // silver to gold: on a schedule
	Keep    []Stage // what keeps the tables small: now and then

	Log     *slog.Logger
	Observe func(stage string, p Progress, took time.Duration, err error) // called after each step, concurrently
}

const (
	// pollEvery is how soon silver sees a new bronze object.
	pollEvery = 500 * time.Millisecond
	// refreshEvery is how soon gold sees a new silver snapshot, if refreshing is
	// cheap.
	refreshEvery = time.Second
	// keepEvery is how often tables are looked after. A table gets some hundred
	// snapshots between two times at the most.
	keepEvery = time.Minute
	// refreshShare keeps gold's load bounded: a refresh comes no sooner than
	// this many times the last one's duration after it.
	refreshShare = 4
	// A stage that fails is stepped again after retryMin, then after twice as
	// long each time, up to retryMax.
	retryMin = 500 * time.Millisecond
	retryMax = 15 * time.Second
	// drainTimeout is how long the stages may take, after the end, to bring
	// through what bronze has taken: a stop takes less than ten seconds.
	drainTimeout = 8 * time.Second
)

// Run steps the stages until ctx ends. Errors are logged and retried, for ever:
// every stage goes by what is durable. At the end it drains: the ingest stages
// put what they have polled, and the others bring it through. It returns nil
// then, or ErrDrain when that took too long; what was not brought through is in
// bronze and will be when the line runs again.
func Run(ctx context.Context, line Line) error {
	scheduler, err := gocron.NewScheduler(gocron.WithStopTimeout(drainTimeout))
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	var ingest, refine sync.WaitGroup
	for _, s := range line.Ingest {
		ingest.Go(func() { line.keep(ctx, s, 0) })
	}
	for _, s := range line.Refine {
		refine.Go(func() { line.keep(ctx, s, pollEvery) })
	}
	for _, s := range line.Refresh {
		if err := line.schedule(work, scheduler, refreshEvery, s); err != nil {
			return err
		}
	}
	for _, s := range line.Keep {
		if err := line.schedule(work, scheduler, keepEvery, s); err != nil {
			return err
		}
	}
	scheduler.Start()

	<-ctx.Done()
	line.Log.Info("draining")
	deadline, cancel := context.WithTimeout(work, drainTimeout)
	defer cancel()
	ingest.Wait() // each is bounded by itself
	refine.Wait()
	if err := scheduler.Shutdown(); err != nil {
		line.Log.Warn("stop the schedule", "error", err)
	}
	return line.drain(deadline)
}

// keep steps a stage until ctx ends. The last step is left to end by itself.
func (l *Line) keep(ctx context.Context, s Stage, every time.Duration) {
	retry := retryMin
	for ctx.Err() == nil {
		p, err := l.step(ctx, s)
		wait := every
		switch {
		case err != nil:
			wait = retry
			retry = min(2*retry, retryMax)
		case p.More:
			wait, retry = 0, retryMin
		default:
			retry = retryMin
		}
		sleep(ctx, wait)
	}
}

// step runs one step, and tells of it. An ingest stage gets the context that
// ends, so that it stops polling; it puts what it has all the same.
func (l *Line) step(ctx context.Context, s Stage) (Progress, error) {
	begin := time.Now()
	p, err := s.Step(ctx)
	took := time.Since(begin)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // cut short by the end; the drain does it again
	}
	if err != nil {
		l.Log.Error("step failed, and will be tried again", "stage", s.Name(), "error", err)
	}
	l.Observe(s.Name(), p, took, err)
	return p, err
}

// schedule has a stage stepped every so often, one step at a time.
func (l *Line) schedule(ctx context.Context, scheduler gocron.Scheduler, every time.Duration, s Stage) error {
	var next time.Time
	retry := retryMin
	step := func() {
		if time.Now().Before(next) {
			return
		}
		begin := time.Now()
		_, err := l.step(ctx, s)
		end := time.Now()
		next = end.Add(refreshShare * end.Sub(begin))
		if err == nil {
			retry = retryMin
			return
		}
		next = end.Add(retry)
		retry = min(2*retry, retryMax)
	}
	_, err := scheduler.NewJob(gocron.DurationJob(every), gocron.NewTask(step),
		gocron.WithName(s.Name()), gocron.WithSingletonMode(gocron.LimitModeReschedule))
	if err != nil {
		return fmt.Errorf("schedule %s: %w", s.Name(), err)
	}
	return nil
}

// drain brings what bronze has through to gold.
func (l *Line) drain(ctx context.Context) error {
	for _, stages := range [][]Stage{l.Refine, l.Refresh} {
		for _, s := range stages {
			for more := true; more; {
				p, err := l.step(ctx, s)
				if ctx.Err() != nil {
					return Mark(ErrDrain, fmt.Errorf("%s did not get through within %s what bronze has: it will when the pipeline runs again", s.Name(), drainTimeout))
				}
				if err != nil {
					return Mark(ErrDrain, fmt.Errorf("%s could not be drained; it will be when the pipeline runs again: %w", s.Name(), err))
				}
				more = p.More
			}
		}
	}
	return nil
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
