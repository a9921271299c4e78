package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

const (
	// recoveryPatience is how long after a strike everything that was sent by then has
	// to be in bronze, and gold to have moved: the longest fault on the wire, the
	// longest wait between two tries, and ample time for the rest.
	recoveryPatience = 5 * time.Minute

	recoveryPoll = 250 * time.Millisecond
)

// striker strikes at the fleet.
type striker struct {
	fleet  *fleet
	topics *topics
	t      *tally

	gaps, moved int // between kills, and those of them in which gold has moved
}

// run strikes until ctx ends. Its last victims may not run again by then.
func (s *striker) run(ctx context.Context, rng *rand.Rand) error {
	for {
		next := nextStrike(rng)
		if !sleep(ctx, next.calm) {
			return nil
		}
		began := time.Now()
		if err := s.strike(ctx, next); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		s.gaps++
		if next.impatient {
			continue
		}
		took, err := s.recover(ctx, began)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("after %s: %w", next.kind, err)
		}
		s.moved++
		s.t.say("  recovered after %.1f s", took.Seconds())
		if next.kind.kills() {
			s.t.recovered(took)
		}
	}
}

// strike strikes once, and has what was ended started again.
func (s *striker) strike(ctx context.Context, x strike) error {
	what := string(x.kind)
	if x.kind == killRun || x.kind == restartRun || x.kind == pauseRun {
		what += fmt.Sprintf(" (%s)", runName(x.instance))
	}
	if x.kind == pauseRun || x.kind == pauseStack {
		what += fmt.Sprintf(" for %.0f s", x.down.Seconds())
	}
	s.t.say("! %s", what)
	group := groupStops
	if x.kind.kills() {
		group = groupKills
	}
	s.t.count(group, string(x.kind), 1)
	if err := s.blow(ctx, x); err != nil {
		return err
	}
	return s.fleet.ensure(ctx)
}

// blow does to processes what a strike is, and waits while they are down.
func (s *striker) blow(ctx context.Context, x strike) error {
	stack, runs := s.fleet.running()
	one := s.fleet.process(x.instance)
	switch x.kind {
	case killPostgres:
		return s.killPostgres(ctx)
	case pauseRun:
		pause(ctx, one, x.down)
		return nil
	case pauseStack:
		pause(ctx, stack, x.down)
		return nil
	case killRun:
		killAtOnce(one)
	case killRuns:
		killAtOnce(runs...)
	case killStack:
		killAtOnce(stack)
	case killAll:
		killAtOnce(append(runs, stack)...)
	case restartRun:
		s.end(one, append([]int{0, notDrained}, unavailable...)...) // there may be a fault on a wire
	case restartStack:
		s.end(stack, 0)
	}
	sleep(ctx, x.down)
	return nil
}

// killPostgres kills the database, as soon as there is one: it may be on its way up from
// the strike before.
func (s *striker) killPostgres(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := s.fleet.killPostgres()
		if err == nil || !sleep(wait, recoveryPoll) {
			return err
		}
	}
}

// end ends a process gracefully: with one of the exit codes.
func (s *striker) end(p *process, codes ...int) {
	if p == nil {
		return
	}
	if err := p.stop(stopPatience); err != nil {
		s.t.discrepancy("%v; the end of its log:\n%s", err, tail(p.log))
		return
	}
	for _, c := range codes {
		if p.code == c {
			return
		}
	}
	s.t.discrepancy("%s ended with exit code %d after SIGTERM; the end of its log:\n%s", p.name, p.code, tail(p.log))
}

// killAtOnce kills processes; those that are nil have ended already.
func killAtOnce(all ...*process) {
	var kills sync.WaitGroup
	for _, p := range all {
		if p != nil {
			kills.Go(p.kill)
		}
	}
	kills.Wait()
}

// pause stops a process for a while.
func pause(ctx context.Context, p *process, d time.Duration) {
	if p == nil {
		return
	}
	p.signal(syscall.SIGSTOP)
	sleep(ctx, d)
	p.signal(syscall.SIGCONT)
}

// recover waits until all that was sent by now is in bronze, by what its committed
// offsets say, and gold has been written since.
func (s *striker) recover(ctx context.Context, since time.Time) (took time.Duration, err error) {
	wait, cancel := context.WithTimeout(ctx, recoveryPatience)
	defer cancel()
	behind := "the broker did not answer"
	for _, p := range pipelines() {
		var want ends
		for {
			if want == nil {
				if at, err := s.topics.end(wait, p.topic); err == nil {
					want = at
				}
			}
			if want != nil {
				have, err := s.topics.committed(wait, p)
				if err == nil && have.reached(want) {
					break
				}
				behind = fmt.Sprintf("bronze.%s is at %v, not at %v", p.name, have, want)
			}
			if !sleep(wait, recoveryPoll) {
				return 0, fmt.Errorf("the line did not go on within %s: %s", recoveryPatience, behind)
			}
			if err := s.fleet.ensure(ctx); err != nil { // a process ended unexpectedly, which is reported
				return 0, err
			}
		}
	}
	before := s.fleet.gold(wait)
	for {
		for pid, n := range s.fleet.gold(wait) {
			if n > before[pid] {
				return time.Since(since), nil
			}
		}
		if !sleep(wait, recoveryPoll) {
			return 0, fmt.Errorf("the line did not go on within %s: gold was not written", recoveryPatience)
		}
	}
}
