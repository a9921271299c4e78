//go:build bench

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"smelt/upkeep"
)

// benchAmplificationCmd adds files to a partition that stays open, and counts how
// often compaction writes their rows again.
type benchAmplificationCmd struct {
	Rows  int `arg:"" default:"86400" help:"Rows that come in."`
	Each  int `default:"2" help:"Rows a file."`
	Every int `default:"60" help:"Files between two looks at the table."`
}

// openGrowth is by how much a file grows at least when its rows are written again.
const openGrowth = 8

// Run measures what compaction writes beside what the stream does.
func (c *benchAmplificationCmd) Run(ctx context.Context, s *settings, io *streams, bench *benchCmd) error {
	b, done, err := s.openUpkeep(ctx, io)
	if err != nil {
		return err
	}
	defer done()
	fmt.Fprintf(b.out, "%d rows in files of %d to a partition of one day that stays open; every %d files the table is compacted\n", c.Rows, c.Each, c.Every)
	b.config.Policy.Grace = time.Nanosecond // the ten minutes of a stream are a moment here
	var appended int64
	files := max(1, c.Rows/c.Each)
	began, cpu := time.Now(), cpuTime()
	most := int64(0)
	for done, tenth := 0, files/10; done < files; {
		n := min(c.Every, files-done)
		staged, err := b.stage(ctx, n, c.Each)
		if err != nil {
			return err
		}
		for _, f := range staged {
			appended += f.File.Bytes
		}
		if _, err := b.commit(ctx, staged); err != nil {
			return err
		}
		b.clock += time.Duration(n-1) * benchPace
		delete(b.last, upkeep.KindCompact) // so that it is due, however fast the files come
		if err := b.maintain(ctx); err != nil {
			return err
		}
		h, err := b.health(ctx)
		if err != nil {
			return err
		}
		done, most = done+n, max(most, h.DataFiles)
		if done >= tenth || done == files {
			fmt.Fprintf(b.out, "%8d rows: %d files, %d KiB\n", h.Rows, h.DataFiles, h.Bytes>>10)
			tenth += files / 10
		}
	}
	u := b.ran[upkeep.KindCompact]
	bound := 1 + math.Log(float64(c.Rows)/float64(c.Each))/math.Log(openGrowth)
	fmt.Fprintf(b.out, "files      %d came in, %d live at most\n", files, most)
	fmt.Fprintf(b.out, "all        %.0f s, %.1f s of CPU, peak RSS %.2f GiB\n", time.Since(began).Seconds(), (cpuTime() - cpu).Seconds(), peakRSS())
	b.upkeep()
	of := fmt.Sprintf("%d rows in files of %d", c.Rows, c.Each)
	return bench.Samples.record(b.out,
		benchSample{of, 1 + float64(u.rows)/float64(c.Rows), "times that a row is written"}, benchSample{of, bound, "times at most, by the rule: 1 + log8(rows / rows of a file)"},
		benchSample{of, 1 + float64(u.written)/float64(appended), "times the stream's bytes"})
}
