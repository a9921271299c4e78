package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// print prints what there was, in a few lines.
func (s *soak) print() {
	for _, l := range s.layers {
		fmt.Fprintf(s.t.out, "%-22s %8d rows, %8d are right, discrepancies %d\n", l.name, l.have, l.want, l.bad)
	}
	median, most := spread(s.t.recoveries)
	fmt.Fprintf(s.t.out, "kills %d, faults %d, recovered after %.1f s (median), %.1f s (at the longest); gold moved in %d of %d pauses\n",
		s.t.total(groupKills), s.t.total(groupFaults), median.Seconds(), most.Seconds(), s.striker.moved, s.striker.gaps)
	fmt.Fprintf(s.t.out, "seed %d, discrepancies %d\n", s.seed, s.t.wrong)
}

// markdown writes the report.
func (s *soak) markdown(now time.Time) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Soak\n")
	line("Written by `scripts/soak.sh`. %d `smelt run` processes share one lake while they, the stack and PostgreSQL are killed, stopped and restarted,", instances)
	line("the wires to S3, PostgreSQL and Kafka fail, and history is corrected. At the end every layer is compared with the truth: what the topics hold, read by a")
	line("consumer of its own, and what a model that shares no code with smelt makes of it.\n")
	line("| | |\n|---|---|")
	line("| date | %s |", now.UTC().Format("2 January 2006, 15:04 UTC"))
	line("| machine | %d hardware threads, %s memory, %s/%s; everything on it |", runtime.NumCPU(), gib(machineMemory()), runtime.GOOS, runtime.GOARCH)
	line("| commit | %s |", s.commit)
	line("| seed | %d |", s.seed)
	line("| minutes | %.0f |", s.lasting.Minutes())
	line("| kills | %d |", s.t.total(groupKills))
	line("| **discrepancies** | **%d** |", s.t.wrong)
	s.recoveriesIn(line)
	line("\n## Events\n\n| topic | sent | acknowledged | given up | in the topic |\n|---|---:|---:|---:|---:|")
	for _, e := range s.events {
		line("| %s | %d | %d | %d | %d |", e.topic, e.made, e.acknowledged, e.given, e.inTopic)
	}
	line("\n## Layers\n\n| table | rows | of the truth | discrepancies |\n|---|---:|---:|---:|")
	for _, l := range s.layers {
		line("| %s | %d | %d | %d |", l.name, l.have, l.want, l.bad)
	}
	for _, group := range []string{groupKills, groupStops, groupFaults, groupLost, groupOperations, groupUpkeep} {
		names, counts := s.t.kinds(group)
		line("\n## %s%s\n\n| | |\n|---|---:|", strings.ToUpper(group[:1]), group[1:])
		for _, name := range names {
			line("| %s | %d |", name, counts[name])
		}
	}
	if len(s.t.discrepancies) > 0 {
		line("\n## Discrepancies\n")
		for _, d := range s.t.discrepancies {
			line("```\n%s\n```", d)
		}
	}
	return b.String()
}

// recoveriesIn writes how long the line took to go on.
func (s *soak) recoveriesIn(line func(string, ...any)) {
	median, most := spread(s.t.recoveries)
	line("| recovery after a kill: all that was sent by then is in bronze, and gold is written | %.1f s (median), %.1f s (at the longest), of %d that were waited for |",
		median.Seconds(), most.Seconds(), len(s.t.recoveries))
	line("| pauses between two strikes in which gold was written | %d of %d; the others were meant to be too short |", s.striker.moved, s.striker.gaps)
	for _, what := range sortedKeys(s.t.memory) {
		line("| %s | peak memory %s, CPU %.0f s |", what, gib(s.t.memory[what]), s.t.cpuOf(what).Seconds())
	}
}

// spread gives the median and the longest of durations.
func spread(all []time.Duration) (median, most time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2], sorted[len(sorted)-1]
}

// gib writes a size in GiB.
func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
