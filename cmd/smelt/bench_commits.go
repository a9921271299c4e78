//go:build bench

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"smelt/internal/table"
	"smelt/upkeep"
)

// benchCommitsCmd commits to one table again and again, with maintenance between.
type benchCommitsCmd struct {
	Commits int `arg:"" default:"5000" help:"Commits."`
}

// benchEdge is how many commits at the beginning are held against as many at the
// end.
const benchEdge = 50

// Run measures whether a commit is as quick at the end as at the beginning.
func (c *benchCommitsCmd) Run(ctx context.Context, s *settings, io *streams, bench *benchCmd) error {
	if c.Commits < 2*benchEdge {
		return usageError{fmt.Errorf("at least %d commits", 2*benchEdge)}
	}
	b, done, err := s.openUpkeep(ctx, io)
	if err != nil {
		return err
	}
	defer done()
	fmt.Fprintf(b.out, "%d commits of a file of 2 rows each to %s, the %s of a stream with one every %s; maintenance comes when it would then\n",
		c.Commits, b.table, time.Duration(c.Commits)*benchPace, benchPace)
	took, used := make([]time.Duration, 0, c.Commits), make([]time.Duration, 0, c.Commits)
	began, cpu := time.Now(), cpuTime()
	for i := range c.Commits {
		staged, err := b.stage(ctx, 1, 2)
		if err != nil {
			return err
		}
		before := cpuTime()
		t, err := b.commit(ctx, staged)
		if err != nil {
			return err
		}
		took, used = append(took, t), append(used, cpuTime()-before)
		if i+1 == benchEdge {
			// As many commits as there are in the ten minutes by default.
			b.config.Policy.Grace = time.Since(began) / benchEdge * time.Duration(table.KeepGrace/benchPace)
			fmt.Fprintf(b.out, "grace of snapshots: %s, in which there are as many commits as in %s of the stream\n", b.config.Policy.Grace.Round(time.Millisecond), table.KeepGrace)
		}
		if i+1 >= benchEdge {
			if err := b.maintain(ctx); err != nil {
				return err
			}
		}
		if (i+1)%(c.Commits/10) == 0 {
			h, err := b.health(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(b.out, "%6d     median of the last %d %s, %s of CPU; %d files, %d snapshots, %d manifests of %d KiB, metadata %d KiB\n", i+1, benchEdge,
				median(took[len(took)-benchEdge:]), median(used[len(used)-benchEdge:]), h.DataFiles, h.Snapshots, h.Manifests, h.ManifestBytes>>10, h.MetadataBytes>>10)
		}
	}
	first, last := median(took[:benchEdge]), median(took[c.Commits-benchEdge:])
	firstCPU, lastCPU := median(used[:benchEdge]), median(used[c.Commits-benchEdge:])
	fmt.Fprintf(b.out, "commits    p99 %s, slowest %s\n", quantile(took, 0.99), quantile(took, 1))
	fmt.Fprintf(b.out, "all        %.0f s, %.1f ms of CPU a commit with writing its file and maintenance\n",
		time.Since(began).Seconds(), micros(cpuTime()-cpu, int64(c.Commits))/1000)
	b.upkeep()
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	begin, end := fmt.Sprintf("first %d commits", benchEdge), fmt.Sprintf("last %d commits", benchEdge)
	return bench.Samples.record(b.out,
		benchSample{end, float64(last) / float64(first), "times what the first ones took"}, benchSample{end, ms(last), "ms a commit"}, benchSample{end, ms(lastCPU), "ms of CPU a commit"},
		benchSample{begin, ms(first), "ms a commit"}, benchSample{begin, ms(firstCPU), "ms of CPU a commit"})
}

// upkeep prints what maintenance has taken.
func (b *upkeepBench) upkeep() {
	for _, kind := range []string{upkeep.KindCompact, upkeep.KindExpire, upkeep.KindManifests, upkeep.KindOrphans} {
		if u := b.ran[kind]; u.took > 0 {
			fmt.Fprintf(b.out, "%-10s %d jobs, %.1f s, %.1f s of CPU\n", kind, u.jobs, u.took.Seconds(), u.cpu.Seconds())
		}
	}
}

func median(d []time.Duration) time.Duration { return quantile(d, 0.5) }

// quantile is the duration that a share of some does not exceed.
func quantile(d []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	at := int(share * float64(len(sorted)-1))
	return sorted[at].Round(10 * time.Microsecond)
}
