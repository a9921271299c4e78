//go:build bench

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// benchCmd holds what scripts/bench.sh measures with. It is hidden from the
// help: its figures mean something on a stack of its own only.
type benchCmd struct {
	Samples benchSamples `placeholder:"FILE" help:"Where runs leave their figures."`

	Fill  benchFillCmd  `cmd:"" help:"Send events, as fast as the broker takes them."`
	Drain benchDrainCmd `cmd:"" help:"Take what waits in Kafka to gold, and measure."`

	Idle      benchIdleCmd      `cmd:"" help:"Measure what smelt run costs."`
	Freshness benchFreshnessCmd `cmd:"" help:"Measure how long events take to gold."`
	Backfill  benchBackfillCmd  `cmd:"" help:"Correct history under a live stream, and measure."`

	GoldCost benchGoldCostCmd `cmd:"" help:"Measure a refresh of gold, with more and more history."`

	Commits       benchCommitsCmd       `cmd:"" help:"Commit again and again, with maintenance between, and measure."`
	Amplification benchAmplificationCmd `cmd:"" help:"Count how often compaction writes rows again."`

	Publish benchPublishCmd `cmd:"" help:"Make a result from recorded runs."`
	Docs    benchDocsCmd    `cmd:"" help:"Make the page of benchmarks from the results."`
}

// AfterApply lets the benches record their figures.
func (c *benchCmd) AfterApply(k *kong.Context) error {
	k.Bind(c)
	return nil
}

// benchMeter measures what this process takes for a part of its work.
type benchMeter struct {
	began time.Time
	cpu   time.Duration
}

// benchMicros is the unit of the most important figure.
const benchMicros = "µs of CPU an event"

// startMeter starts one. The peak of RSS counts from now on.
func startMeter() (benchMeter, error) {
	const peakOnly = "5"
	if err := os.WriteFile("/proc/self/clear_refs", []byte(peakOnly), 0); err != nil {
		return benchMeter{}, fmt.Errorf("forget the peak of RSS: %w", err)
	}
	return benchMeter{time.Now(), cpuTime()}, nil
}

// samples are the figures of so many events, whose JSON has so many bytes.
func (m benchMeter) samples(of string, events, bytes int64) []benchSample {
	took, used := time.Since(m.began), cpuTime()-m.cpu
	return []benchSample{
		{of, micros(used, events), benchMicros},
		{of, float64(events) / took.Seconds(), "events/s"},
		{of, float64(bytes) / 1e6 / used.Seconds(), "MB of raw JSON a CPU-second"},
		{of, peakRSS(), "GiB of peak RSS"},
	}
}

func micros(d time.Duration, n int64) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }

// cpuTime is what this process has used so far, in all threads.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakRSS is the most memory that this process has held, in GiB; 0 where the
// system does not tell.
func peakRSS() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			return kib / (1 << 20)
		}
	}
	return 0
}
