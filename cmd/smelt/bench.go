package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	stdio "io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"smelt"
	"smelt/ingest"
	"smelt/internal/ledger"
	"smelt/internal/line"
)

// benchCmd holds what scripts/bench.sh measures with. It is hidden from the
// help: its figures mean something on a stack of its own only.
type benchCmd struct {
	Samples benchSamples `placeholder:"FILE" help:"Where runs leave their figures."`

	Fill  benchFillCmd  `cmd:"" help:"Send readings, as fast as the broker takes them."`
	Drain benchDrainCmd `cmd:"" help:"Take what waits in Kafka to gold, and measure."`

	Backfill benchBackfillCmd `cmd:"" help:"Correct history under a live stream, and measure."`

	Commits       benchCommitsCmd       `cmd:"" help:"Commit again and again, with maintenance between, and measure."`
	Amplification benchAmplificationCmd `cmd:"" help:"Count how often compaction writes rows again."`

	Publish benchPublishCmd `cmd:"" help:"Make a result of what runs have recorded."`
	Docs    benchDocsCmd    `cmd:"" help:"Make the page of benchmarks from the results."`
}

// AfterApply lets the benches record their figures.
func (c *benchCmd) AfterApply(k *kong.Context) error {
	k.Bind(c)
	return nil
}

// benchFillCmd sends readings that are spread over some time up to now.
type benchFillCmd struct {
	Count int64         `arg:"" help:"Readings."`
	Span  time.Duration `default:"6h" help:"Of event time."`
}

// benchTopic is the topic of the pipeline that is measured.
const (
	benchTopic      = "sensor.readings"
	benchPartitions = 4
)

// Run makes the topic and fills it.
func (c *benchFillCmd) Run(ctx context.Context, s *settings, io *streams) error {
	cluster, err := s.cluster()
	if err != nil {
		return err
	}
	log := newLog(io.Err)
	first := ingest.GenerateConfig{Cluster: cluster, Topic: benchTopic, Partitions: benchPartitions, Rate: 1, Seed: 1, Count: 1, Log: log}
	if err := ingest.Generate(ctx, first); err != nil {
		return err
	}
	reader, writer := stdio.Pipe()
	go func() { writer.CloseWithError(c.write(writer)) }()
	n, err := ingest.Produce(ctx, cluster, benchTopic, reader, func(int64, int64) {})
	fmt.Fprintf(io.Err, "%d readings wait in Kafka\n", n+1)
	return err
}

func (c *benchFillCmd) write(w stdio.Writer) error {
	lines := bufio.NewWriterSize(w, 1<<20)
	readings := ingest.NewReadings(1, ingest.DefaultMess)
	begin := time.Now().Add(-c.Span)
	for i := range c.Count - 1 {
		_, value := readings.Next(begin.Add(c.Span / time.Duration(c.Count) * time.Duration(i)))
		lines.Write(value)
		if err := lines.WriteByte('\n'); err != nil {
			return err
		}
	}
	return lines.Flush()
}

// benchDrainCmd takes a backlog through the line.
type benchDrainCmd struct {
	Stepwise bool `help:"One stage after the other, to tell their CPU apart."`
}

// Run measures the time until everything that waits is in gold.
func (c *benchDrainCmd) Run(ctx context.Context, s *settings, io *streams) error {
	pipelines, err := s.pipelines()
	if err != nil {
		return err
	}
	db, err := s.openDuck("bench")
	if err != nil {
		return err
	}
	defer db.Close()
	lake, err := s.openLake(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	log := newLog(io.Err)
	parts, err := s.parts(lake, db, "bench", log)
	if err != nil {
		return err
	}
	lines, err := s.openLines(ctx, pipelines[:1], lake, parts)
	if err != nil {
		return err
	}
	defer closeLines(lines, log)
	waiting, err := s.waiting(ctx, lines[0].Pipeline)
	if err != nil {
		return err
	}
	if c.Stepwise {
		return stepwise(ctx, lines[0], waiting, io.Out)
	}
	return together(ctx, lines[0], parts, waiting, io.Out)
}

// waiting counts the records in a pipeline's topic.
func (s *settings) waiting(ctx context.Context, p *smelt.Pipeline) (n int64, err error) {
	cluster, err := s.cluster()
	if err != nil {
		return 0, err
	}
	d, err := ingest.DescribeTopic(ctx, cluster, p.Topic, nil)
	for _, e := range d.Partitions {
		n += e.End - e.Start
	}
	return n, err
}

// together runs the line as in production until gold has everything.
func together(ctx context.Context, l *line.Line, parts line.Parts, waiting int64, out stdio.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	begin, cpu := time.Now(), cpuTime()
	all := stages([]*line.Line{l})
	all.Log = parts.Log
	var once sync.Once
	var took time.Duration
	var failure error
	all.Observe = func(_ string, _ smelt.Progress, _ time.Duration, err error) {
		done, readErr := drained(ctx, parts, l.Pipeline, waiting)
		if done || err != nil || readErr != nil {
			once.Do(func() { took, failure = time.Since(begin), errors.Join(err, readErr) })
			stop()
		}
	}
	err := smelt.Run(ctx, all)
	used := cpuTime() - cpu
	if err := errors.Join(failure, err); err != nil {
		return err
	}
	fmt.Fprintf(out, "drain      %d records in %.2f s: %.0f events/s, %.2f µs of CPU an event, peak RSS %.2f GiB\n",
		waiting, took.Seconds(), float64(waiting)/took.Seconds(), micros(used, waiting), peakRSS())
	return nil
}

// drained says whether gold has been computed from all records.
func drained(ctx context.Context, parts line.Parts, p *smelt.Pipeline, waiting int64) (bool, error) {
	silver, err := parts.Area.Lake.Load(ctx, "silver."+p.Name)
	if err != nil {
		return false, err
	}
	have, at, _, err := ledger.Read[ledger.Silver](silver)
	if err != nil || have.Records < waiting {
		return false, err
	}
	gold, err := parts.Area.Lake.Load(ctx, "gold."+p.Name+"_"+p.Gold[0].Name)
	if err != nil {
		return false, err
	}
	computed, _, _, err := ledger.Read[ledger.Gold](gold)
	return computed.SilverSnapshot == at.ID, err
}

// stepwise takes everything through one stage, then the next.
func stepwise(ctx context.Context, l *line.Line, waiting int64, out stdio.Writer) error {
	stages := []smelt.Stage{l.Bronze, l.Silver}
	for _, g := range l.Gold {
		stages = append(stages, g)
	}
	for i, s := range stages {
		begin, cpu := time.Now(), cpuTime()
		for done, idle := int64(0), false; !idle; {
			p, err := s.Step(ctx)
			if err != nil {
				return err
			}
			done += p.Records
			idle = !p.More && (i > 0 || done >= waiting)
		}
		took, used := time.Since(begin), cpuTime()-cpu
		fmt.Fprintf(out, "%-22s %.2f s, %.2f µs of CPU an event\n", s.Name(), took.Seconds(), micros(used, waiting))
	}
	fmt.Fprintf(out, "peak RSS   %.2f GiB\n", peakRSS())
	return nil
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
