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
	Ingest  []Stage // source to bronze: stepped without a pause
	Refine  []Stage // bronze to silver: stepped as long as there is more, then every poll
	Refresh []Stage // silver to gold: on a schedule
	Mend    []Stage // what corrects silver by itself: on a schedule, and not at the end
	Keep    []Stage // what keeps the lake in shape: now and then, and not at the end

	// Freshness is within what time an event is in gold as a rule, if the stages keep
	// up; DefaultFreshness when zero. How often stages look for work goes by it.
	Freshness time.Duration

	// Readers gives the stages that read a stage's table: they are stepped at once
	// when it has done something, and else look for themselves what others have done.
	// nil: none.
	Readers func(stage string) []string

	Log     *slog.Logger
	Begin   func(stage string)                                            // called before each step, concurrently; nil: nobody is told
	Observe func(stage string, p Progress, took time.Duration, err error) // called after each step, concurrently

	wakes map[string]func() // by the stage's name; set by Run
}

// DefaultFreshness leaves time for some thousands of events to share what a commit
// costs.
const DefaultFreshness = 4 * time.Second

// Of the freshness, a broker may keep records back for a GatherShare, and those of an
// object may wait for each other for FlushTenths, in tenths. A lookShare of it is how
// soon silver sees an object that another process has written, and gold a snapshot of
// silver.
const (
	GatherShare = 8
	FlushTenths = 8
	lookShare   = 4
)

// lookEvery is how often stages look for what other processes have written.
func (l *Line) lookEvery() time.Duration { return cmp.Or(l.Freshness, DefaultFreshness) / lookShare }

const (
	// mendEvery is how soon a correction of silver begins by itself.
	mendEvery = 2 * time.Second
	// keepEvery is how often it is asked whether something is due in keeping the
	// tables, give or take a tenth: several processes, and several tables, should
	// not be at it at one moment.
	keepEvery = 10 * time.Second
	// refreshShare keeps the load of what is scheduled bounded: a step comes no
	// sooner than this many times the last one's duration after it.
	refreshShare = 4
	// A stage that fails is stepped again after retryMin, then after twice as
	// long each time, up to retryMax: what has been away for long is back in the
	// line within seconds, and a step that fails every few seconds costs little.
	// Up to a quarter is added, so that those who failed at one moment do not all
	// come back at one.
	retryMin = 500 * time.Millisecond
	retryMax = 5 * time.Second
	// drainTimeout is how long the stages may take, after the end, to bring
	// through what bronze has taken: a stop takes less than ten seconds.
	drainTimeout = 8 * time.Second
)

// Run steps the stages until ctx ends. Errors are logged and retried, for ever:
// every stage goes by what is durable. At the end it drains: the ingest stages
// put what they have polled, those that mend or keep stop where they are, and the others
// bring through what bronze has. It returns nil then, ErrDrain when that took too
// long, or the error of a stage that failed; what was not brought through is in
// bronze and will be when the line runs again.
func Run(ctx context.Context, line Line) error {
	// Steps that are under way when ctx ends may end by themselves, but for those
	// of ingest, which have to stop polling, and of what mends or keeps.
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
			default: // it will look anyway
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
	ingest.Wait() // each is bounded by itself
	refine.Wait()
	if err := schedule.stop(); err != nil {
		line.Log.Warn("stop the schedule", "error", err)
	}
	line.wakes = nil // what drains goes from stage to stage by itself
	return line.drain(work)
}

// keep steps a stage, under the context work, until ctx ends: every so often, and
// when it is woken.
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

// spaced steps a stage whenever it is called, unless that is too soon after the
// step before. How long a step took is what it cost, but not when a service was
// away for which it waited, or when it was the first: so one that failed for that
// reason does not count, nor one that took longer than the last that did something.
func (l *Line) spaced(ctx context.Context, s Stage) func() {
	var next time.Time
	var trouble failures
	var usual time.Duration // 0: not known yet
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

// failures are those of a stage since a step went well.
type failures struct {
	n     int
	first time.Time
	pause time.Duration // before the next step, as far as it is not drawn
}

// add notes a failure, and returns how long to wait.
func (f *failures) add() time.Duration {
	if f.n++; f.n == 1 {
		f.first, f.pause = time.Now(), retryMin
	} else {
		f.pause = min(2*f.pause, retryMax)
	}
	return f.pause + rand.N(f.pause/4)
}

// end notes that a step went well.
func (f *failures) end(log *slog.Logger, s Stage) {
	if f.n > 0 {
		log.Info("a step went well again", "stage", s.Name(), "failures", f.n, "after", time.Since(f.first).Round(time.Millisecond).String())
	}
	*f = failures{}
}

// step runs one step, and tells of it. That the end cut it short is no trouble.
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
	if trouble != nil && !errors.Is(trouble, ErrStopped) { // who stops tells once
		l.Log.Error("step failed, and will be tried again", "stage", s.Name(), "error", trouble)
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

// drain brings what bronze has through to gold.
func (l *Line) drain(ctx context.Context) error {
	for _, s := range slices.Concat(l.Refine, l.Refresh) {
		for more := true; more; {
			var p Progress
			err := ctx.Err()
			if err == nil {
				p, err = l.step(ctx, s)
			}
			if err != nil && ctx.Err() != nil {
				return Mark(ErrDrain, fmt.Errorf("%s did not get through within %s what bronze has: it will when the pipeline runs again", s.Name(), drainTimeout))
			}
			if err != nil {
				return Mark(ErrDrain, fmt.Errorf("%s could not be drained; it will be when the pipeline runs again: %w", s.Name(), err))
			}
			more = p.More
		}
	}
	return nil
}

// sleep waits, or until ctx ends, or until it is woken.
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
