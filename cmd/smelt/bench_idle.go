//go:build bench

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// benchIdleCmd measures what smelt run costs on this state folder, while events come
// at some rate.
type benchIdleCmd struct {
	Rate float64       `arg:"" help:"Events a second that come in."`
	Warm time.Duration `default:"30s" help:"How long to wait before."`
	For  time.Duration `default:"1m" help:"How long to measure."`
}

// Run measures the CPU of the process, as the kernel counts it.
func (c *benchIdleCmd) Run(ctx context.Context, s *settings, io *streams, bench *benchCmd) error {
	stream, err := s.openStream(ctx)
	if err != nil {
		return err
	}
	defer stream.lake.Close()
	fresh := func() error {
		if c.Rate == 0 {
			return nil
		}
		return stream.live(ctx)
	}
	if err := fresh(); err != nil {
		return err
	}
	pid, err := os.ReadFile(presencePath(s.Home, "run"))
	if err != nil {
		return fmt.Errorf("smelt run does not run: %w", err)
	}
	first, _, _ := strings.Cut(string(pid), "\n")
	var used [2]time.Duration
	var at [2]time.Time
	for i, wait := range []time.Duration{c.Warm, c.For} {
		if !pause(ctx, wait) {
			return context.Cause(ctx)
		}
		if used[i], err = cpuOf(first); err != nil {
			return err
		}
		at[i] = time.Now()
	}
	if err := fresh(); err != nil {
		return err
	}
	share := (used[1] - used[0]).Seconds() / at[1].Sub(at[0]).Seconds()
	return bench.Samples.record(io.Out, benchSample{fmt.Sprintf("smelt run, %v events/s", c.Rate), 100 * share, "% of one core"})
}

// cpuOf is what a process has used so far, in all threads.
func cpuOf(pid string) (time.Duration, error) {
	path := "/proc/" + pid + "/stat"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	const user, system = 11, 12 // of the fields that follow the name, which is in parentheses
	const tick = time.Second / 100
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= system {
		return 0, fmt.Errorf("%s: %q", path, text)
	}
	var ticks int64
	for _, field := range fields[user : system+1] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}
