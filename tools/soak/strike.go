package main

import (
	"math/rand/v2"
	"time"
)

// strikeKind is what is done to processes.
type strikeKind string

const (
	killRun      strikeKind = "kill -9 of a pipeline process"
	killRuns     strikeKind = "kill -9 of all pipeline processes"
	killStack    strikeKind = "kill -9 of the stack"
	killPostgres strikeKind = "kill -9 of PostgreSQL"
	killAll      strikeKind = "kill -9 of everything"
	restartRun   strikeKind = "SIGTERM of a pipeline process"
	restartStack strikeKind = "SIGTERM of the stack"
	pauseRun     strikeKind = "SIGSTOP of a pipeline process"
	pauseStack   strikeKind = "SIGSTOP of the stack"
)

// strikeWeights say how often each comes, in a hundred.
var strikeWeights = []struct {
	kind   strikeKind
	weight int
}{
	{killRun, 42}, {killRuns, 8}, {killStack, 11}, {killPostgres, 12}, {killAll, 4},
	{restartRun, 8}, {restartStack, 3}, {pauseRun, 9}, {pauseStack, 3},
}

// kills says whether a strike is a kill -9.
func (k strikeKind) kills() bool {
	switch k {
	case killRun, killRuns, killStack, killPostgres, killAll:
		return true
	}
	return false
}

// strike is one blow.
type strike struct {
	kind      strikeKind
	instance  int
	calm      time.Duration // before it, since the line has recovered from the one before
	down      time.Duration // until what was ended is started again, or goes on
	impatient bool          // it does not wait for the recovery: it strikes in the middle of it
}

const (
	leastQuiet, mostQuiet = 1 * time.Second, 6 * time.Second
	mostDown              = 4 * time.Second
	mostPauseRun          = 45 * time.Second
	mostPauseStack        = 25 * time.Second
	impatientShare        = 30 // in a hundred
)

// nextStrike draws one.
func nextStrike(rng *rand.Rand) strike {
	s := strike{
		instance: rng.IntN(instances), calm: between(rng, leastQuiet, mostQuiet),
		down: between(rng, 0, mostDown), impatient: rng.IntN(100) < impatientShare,
	}
	total := 0
	for _, w := range strikeWeights {
		total += w.weight
	}
	draw := rng.IntN(total)
	for _, w := range strikeWeights {
		if draw -= w.weight; draw < 0 {
			s.kind = w.kind
			break
		}
	}
	switch s.kind {
	case pauseRun:
		s.down = between(rng, mostDown, mostPauseRun)
	case pauseStack:
		s.down = between(rng, mostDown, mostPauseStack)
	}
	return s
}
