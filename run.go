package smelt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// Line is what [Run] drives.
type Line struct {
	Ingest  []Stage // source to bronze: stepped without pauses
	Refine  []Stage // bronze to silver: stepped while there is more, then at intervals
	Refresh []Stage // silver to gold: scheduled
	Mend    []Stage // heals silver: scheduled, and not part of the final drain
	Keep    []Stage // upkeep: scheduled, and not part of the final drain

	// Freshness is the time within which an event is usually in gold, if the stages
	// keep up. It determines how often stages look for work. 0 means DefaultFreshness.
	Freshness time.Duration

	// Readers returns the stages that read a stage's table. They are stepped as soon
	// as that stage has done something. For the work of other processes they poll.
	// nil: there are none.
	Readers func(stage string) []string

	Log     *slog.Logger
	Begin   func(stage string)                                            // called before each step, concurrently; may be nil
	Observe func(stage string, p Progress, took time.Duration, err error) // called after each step, concurrently

	wakes map[string]func() // by the stage's name; set by Run
}

// DefaultFreshness is long enough for thousands of events to share the cost of a commit.
const DefaultFreshness = 4 * time.Second

// These are the parts of the freshness.
const (
	GatherShare = 8 // a broker may wait for 1/GatherShare of it to gather records
	FlushTenths = 8 // an object of bronze is open for FlushTenths/10 of it
	lookShare   = 4 // stages poll for the work of other processes every 1/lookShare of it
)

// lookEvery is how often stages poll for the work of other processes.
func (l *Line) lookEvery() time.Duration { return cmp.Or(l.Freshness, DefaultFreshness) / lookShare }

const (
	// mendEvery is the interval at which healing looks for work.
	mendEvery = 2 * time.Second
	// keepEvery is the interval at which upkeep looks for work, plus or minus 10 %.
	// The jitter spreads processes and tables.
	keepEvery = 10 * time.Second
	// refreshShare bounds the load of scheduled stages: after a step that took t, the
	// next one starts refreshShare*t later at the earliest.
	refreshShare = 4
	// A stage that fails is stepped again after retryMin, then after twice the time,
	// up to retryMax. So it recovers within seconds after a long outage. Up to 25 %
	// is added at random, so that stages which failed together do not retry together.
	retryMin = 500 * time.Millisecond
	retryMax = 5 * time.Second
	// drainTimeout bounds the final drain, so that a stop takes less than ten seconds.
	drainTimeout = 8 * time.Second
)

// Run steps the stages until ctx ends. It logs errors and retries without limit, because
// every stage depends on durable state only.
//
// When ctx ends, Run drains the line. Ingest stages write what they have polled. Mend and
// Keep stages stop. The other stages process what bronze has. Run returns nil, or an
// ErrDrain if the drain failed or took too long. Records that were not drained are in
// bronze, and the next run processes them.
func Run(ctx context.Context, line Line) error {
	// When ctx ends, running steps may finish. Only Ingest, Mend and Keep stop at once.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	schedule, err := newSchedule()
	if err != nil {
		return err
	}
	for _, s := range line.Refresh {
		err = errors.Join(err, schedule.add(s.Name(), gocron.DurationJob(line.lookEvery()), line.spaced(work, s)))
	}
	for _, s := range line.Mend {
		err = errors.Join(err, schedule.add(s.Name(), gocron.DurationJob(mendEvery), line.spaced(ctx, s)))
	}
	for _, s := range line.Keep {
		err = errors.Join(err, schedule.add(s.Name(), gocron.DurationRandomJob(keepEvery*9/10, keepEvery*11/10), line.spaced(ctx, s)))
	}
	if err != nil {
		return errors.Join(err, schedule.stop())
	}
	line.wakes = map[string]func(){}
	for _, s := range line.Refresh {
		line.wakes[s.Name()] = func() { schedule.now(s.Name()) }
	}
	var ingest, refine sync.WaitGroup
	woken := make([]chan struct{}, len(line.Refine))
	for i, s := range line.Refine {
		woken[i] = make(chan struct{}, 1)
		line.wakes[s.Name()] = func() {
			select {
			case woken[i] <- struct{}{}:
			default: // a wake-up is pending
			}
		}
	}
	for _, s := range line.Ingest {
		ingest.Go(func() { line.keep(ctx, ctx, s, 0, nil) })
	}
	for i, s := range line.Refine {
		refine.Go(func() { line.keep(ctx, work, s, line.lookEvery(), woken[i]) })
	}
	schedule.start()

	<-ctx.Done()
	line.Log.Info("draining")
	defer time.AfterFunc(drainTimeout, stop).Stop()
	ingest.Wait() // each stage bounds its own final step
	refine.Wait()
	if err := schedule.stop(); err != nil {
		line.Log.Warn("stop the schedule", "error", err)
	}
	line.wakes = nil // drain steps the stages in order
	return line.drain(work)
}

// keep steps a stage until ctx ends: at intervals, and when it is woken. Steps run under
// the context work.
func (l *Line) keep(ctx, work context.Context, s Stage, every time.Duration, woken <-chan struct{}) {
	var trouble failures
	for ctx.Err() == nil {
		p, err := l.step(work, s)
		wait := every
		failed := err != nil && !errors.Is(err, ErrStopped)
		switch {
		case failed:
			wait = trouble.add()
		case p.More:
			wait = 0
		}
		if failed {
			sleep(ctx, wait, nil)
			continue
		}
		trouble.end(l.Log, s)
		sleep(ctx, wait, woken)
	}
}

// spaced returns a function that steps a stage, unless the last step was too recent. The
// pause depends on the cost of a step. A step that waited for an unavailable service does
// not count, nor does the first one. So the pause uses the shorter of the last step and
// the last one that did some work.
func (l *Line) spaced(ctx context.Context, s Stage) func() {
	var next time.Time
	var trouble failures
	var usual time.Duration // of the last step that did some work; 0: not known yet
	return func() {
		if time.Now().Before(next) {
			return
		}
		begin := time.Now()
		p, err := l.step(ctx, s)
		end := time.Now()
		took := end.Sub(begin)
		pause := refreshShare * min(took, usual)
		switch {
		case errors.Is(err, ErrSource) || errors.Is(err, ErrStore) || errors.Is(err, ErrDatabase):
			pause = trouble.add()
		case err != nil:
			pause = max(pause, trouble.add())
		default:
			trouble.end(l.Log, s)
		}
		if p.Records > 0 || usual == 0 {
			usual = took
		}
		next = end.Add(pause)
	}
}

// failures are a stage's consecutive failed steps.
type failures struct {
	n     int
	first time.Time
	pause time.Duration // before the next step, without its random part
}

// add counts a failure and returns how long to wait.
func (f *failures) add() time.Duration {
	if f.n++; f.n == 1 {
		f.first, f.pause = time.Now(), retryMin
	} else {
		f.pause = min(2*f.pause, retryMax)
	}
	return f.pause + rand.N(f.pause/4)
}

// end records a step that succeeded.
func (f *failures) end(log *slog.Logger, s Stage) {
	if f.n > 0 {
		log.Info("step succeeded again", "stage", s.Name(), "failures", f.n, "after", time.Since(f.first).Round(time.Millisecond).String())
	}
	*f = failures{}
}

// step runs one step and reports it. An error because ctx ended is not reported.
func (l *Line) step(ctx context.Context, s Stage) (Progress, error) {
	if l.Begin != nil {
		l.Begin(s.Name())
	}
	begin := time.Now()
	p, err := s.Step(ctx)
	took := time.Since(begin)
	trouble := err
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		trouble = nil
	}
	if trouble != nil && !errors.Is(trouble, ErrStopped) { // the stage reports that once
		l.Log.Error("step failed; it will be tried again", "stage", s.Name(), "error", trouble)
	}
	l.Observe(s.Name(), p, took, trouble)
	if p.Records > 0 && l.Readers != nil {
		for _, reader := range l.Readers(s.Name()) {
			if wake := l.wakes[reader]; wake != nil {
				wake()
			}
		}
	}
	return p, err
}

// drain processes what bronze has, up to gold.
func (l *Line) drain(ctx context.Context) error {
	for _, s := range slices.Concat(l.Refine, l.Refresh) {
		for more := true; more; {
			var p Progress
			err := ctx.Err()
			if err == nil {
				p, err = l.step(ctx, s)
			}
			if err != nil && ctx.Err() != nil {
				return Mark(ErrDrain, fmt.Errorf("%s did not drain within %s: it continues when the pipeline runs again", s.Name(), drainTimeout))
			}
			if err != nil {
				return Mark(ErrDrain, fmt.Errorf("%s did not drain; it continues when the pipeline runs again: %w", s.Name(), err))
			}
			more = p.More
		}
	}
	return nil
}

// sleep waits until d has passed, ctx ends or it is woken.
func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-timer.C:
	}
}
