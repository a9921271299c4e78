package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// tally counts what was done to the lake and what was found wrong with it, and tells
// of it as it comes. It is safe for concurrent use.
type tally struct {
	out   io.Writer
	began time.Time

	mu            sync.Mutex
	counts        map[string]map[string]int // by group and kind
	discrepancies []string                  // the first ones of each check
	wrong         int                       // all of them
	recoveries    []time.Duration
	memory        map[string]int64                 // by what runs, the peak in bytes
	cpu           map[string]map[int]time.Duration // by what runs and its process, the time used
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, began: time.Now(), counts: map[string]map[string]int{}, memory: map[string]int64{}, cpu: map[string]map[int]time.Duration{}}
}

// These are the groups of counts.
const (
	groupKills      = "kills"
	groupStops      = "stops and pauses"
	groupFaults     = "faults on the wire"
	groupLost       = "replies that were lost"
	groupOperations = "operations"
	groupUpkeep     = "maintenance"
)

// say tells what happens, with the time since the beginning.
func (t *tally) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := time.Since(t.began).Round(time.Second)
	fmt.Fprintf(t.out, "%3d:%02d  %s\n", int(since.Minutes()), int(since.Seconds())%60, fmt.Sprintf(format, args...))
}

// count counts one of a kind, or several.
func (t *tally) count(group, kind string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[group] == nil {
		t.counts[group] = map[string]int{}
	}
	t.counts[group][kind] += n
}

// total is how many of a group were counted.
func (t *tally) total(group string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.counts[group] {
		n += k
	}
	return n
}

// kinds are the kinds of a group, sorted, each with its count.
func (t *tally) kinds(group string) (names []string, counts map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts = maps.Clone(t.counts[group])
	return slices.Sorted(maps.Keys(counts)), counts
}

// discrepancy notes something that must not be.
func (t *tally) discrepancy(format string, args ...any) {
	t.differences([]string{fmt.Sprintf(format, args...)}, 1)
}

// differences counts n wrong things, and reports some of them.
func (t *tally) differences(told []string, n int) {
	for _, text := range told {
		t.say("✗ %s", text)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong += n
	t.discrepancies = append(t.discrepancies, told...)
}

// recovered notes how long it took until the line went on after a kill.
func (t *tally) recovered(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recoveries = append(t.recoveries, took)
}

// used notes how much memory and CPU time a process has taken.
func (t *tally) used(what string, pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cpu[what] == nil {
		t.cpu[what] = map[int]time.Duration{}
	}
	t.memory[what] = max(t.memory[what], peakMemory(pid))
	t.cpu[what][pid] = max(t.cpu[what][pid], cpuTime(pid))
}

// cpuOf is the CPU time that all processes of a kind have used.
func (t *tally) cpuOf(what string) (sum time.Duration) {
	for _, used := range t.cpu[what] {
		sum += used
	}
	return sum
}

// sortedKeys are the keys of a map, sorted.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
