//go:build bench

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/silver"
)

// benchBackfillCmd corrects history under a live stream.
type benchBackfillCmd struct {
	Before time.Duration `default:"30s" help:"How long the stream is measured alone."`
	Drain  benchSamples  `required:"" placeholder:"FILE" help:"What the drain of history recorded, stage by stage."`
}

// What is corrected: the row of the demo's reference table that is wrong.
const (
	benchSensor  = "hel-001"
	benchWrong   = "Espoo"
	benchCorrect = "UPDATE public.locations SET city = 'Helsinki' WHERE sensor_id = '" + benchSensor + "'"
)

// Run measures a stream that runs already, corrects the reference table, and
// measures the stream and the backfill; then it replays all of history.
func (c *benchBackfillCmd) Run(ctx context.Context, s *settings, io *streams, bench *benchCmd) error {
	stream, err := s.openStream(ctx)
	if err != nil {
		return err
	}
	defer stream.lake.Close()
	b := &benchBackfill{stream: stream, io: io}
	if err := b.drained(c.Drain); err != nil {
		return err
	}
	if err := b.stream.live(ctx); err != nil {
		return err
	}
	quiet, err := b.stream.observe(ctx, func() error {
		if !pause(ctx, c.Before) {
			return context.Cause(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.print("stream alone", "%s", quiet)
	if err := stream.lake.Database.Exec(ctx, benchCorrect); err != nil {
		return err
	}
	if err := b.measure(ctx, "--reference-changes"); err != nil {
		return err
	}
	if err := b.old(ctx); err != nil {
		return err
	}
	if err := b.measure(ctx, "--all"); err != nil {
		return err
	}
	return bench.Samples.record(io.Out, b.samples...)
}

// benchBackfill measures backfills beside a stream.
type benchBackfill struct {
	stream  *stream
	io      *streams
	samples []benchSample
	silver  float64 // events a second, of silver alone
}

// drained records silver's rate without a backfill.
func (b *benchBackfill) drained(drain benchSamples) error {
	samples, err := drain.read()
	if err != nil {
		return err
	}
	name := silver.TableName(b.stream.pipeline.Name)
	for _, s := range samples {
		switch {
		case s.Of != name:
		case s.Unit == "events/s":
			b.silver = s.Value
			b.samples = append(b.samples, s)
		case s.Unit == benchMicros:
			b.samples = append(b.samples, s)
		}
	}
	if b.silver == 0 {
		return fmt.Errorf("%s has no events/s of %s", drain, name)
	}
	return nil
}

func (b *benchBackfill) print(what, format string, args ...any) {
	fmt.Fprintf(b.io.Out, "%-14s %s\n", what, fmt.Sprintf(format, args...))
}

// measure runs a backfill in a process of its own, and prints what it took.
func (b *benchBackfill) measure(ctx context.Context, scope string) error {
	var r benchReplay
	during, err := b.stream.observe(ctx, func() (err error) {
		r, err = b.replay(ctx, scope)
		return err
	})
	if err != nil {
		return err
	}
	t, err := b.stream.silver(ctx)
	if err != nil {
		return err
	}
	done, what := during.to, "nothing differed after"
	if s, ok := t.Snapshot(r.Result.After); ok {
		done, what = s.Time, "published after"
	}
	files, err := t.Files(ctx, r.Result.Before)
	if err != nil {
		return err
	}
	objects, err := b.objects(ctx)
	if err != nil {
		return err
	}
	planned := during.to.Add(-time.Duration(r.Seconds * float64(time.Second)))
	replaying := done.Sub(planned).Seconds()
	b.print("backfill", "%s: planned after %.1f s, with the start of its process, %s %.1f s, gold followed after %.1f s",
		scope, planned.Sub(during.from).Seconds(), what, done.Sub(during.from).Seconds(), during.to.Sub(during.from).Seconds())
	b.print("  records", "%d replayed in %.1f s: %.0f a second; %d rows differ; peak RSS %.2f GiB",
		r.Result.Replayed, replaying, float64(r.Result.Replayed)/replaying, r.Result.Differing, r.peak)
	b.print("  cost", "%d of %d silver files, %d of %d bronze objects (%.1f MiB)",
		r.Plan.Files, len(files), r.Result.Objects, objects, float64(r.Result.Bytes)/(1<<20))
	b.print("  stream", "kept waiting %.2f s; %s", r.Result.Pause.Seconds(), during)
	of, rate := "backfill "+scope, float64(r.Result.Replayed)/replaying
	b.samples = append(b.samples,
		benchSample{of, 100 * rate / b.silver, "% of silver's rate"}, benchSample{of, rate, "events/s"},
		benchSample{of, micros(r.cpu, r.Result.Replayed), "µs of CPU an event, with the start of its process"},
		benchSample{of, r.Result.Pause.Seconds(), "s at most that the stream was kept waiting"},
		benchSample{of, during.longestGap().Seconds(), "s at most between two commits of the stream"},
		benchSample{of, r.peak, "GiB of peak RSS"})
	return nil
}

// benchReplay is what a backfill says of itself, and the memory that it took.
type benchReplay struct {
	Plan    backfill.Plan
	Result  backfill.Result
	Seconds float64 // since the plan
	peak    float64 // RSS, in GiB
	cpu     time.Duration
}

// replay runs smelt backfill.
func (b *benchBackfill) replay(ctx context.Context, scope string) (r benchReplay, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	var out strings.Builder
	cmd := exec.CommandContext(ctx, self, "backfill", b.stream.pipeline.Name, scope, "--yes", "--json")
	cmd.Stdout, cmd.Stderr = &out, b.io.Err
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("smelt backfill %s: %w", scope, err)
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.peak = float64(usage.Maxrss) / (1 << 20)
	}
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, json.Unmarshal([]byte(out.String()), &r)
}

// objects counts bronze's objects.
func (b *benchBackfill) objects(ctx context.Context) (n int, err error) {
	reader := bronze.NewReader(b.stream.lake.Store, b.stream.pipeline.Name)
	partitions, err := reader.Partitions(ctx)
	for _, id := range partitions {
		const beginning = -1
		refs, err := reader.After(ctx, id, beginning, math.MaxInt64)
		if err != nil {
			return 0, err
		}
		n += len(refs)
	}
	return n, err
}

// old counts the rows of silver that the correction has missed.
func (b *benchBackfill) old(ctx context.Context) error {
	var all, wrong int64
	query := fmt.Sprintf(" SELECT count(*), count(*) FILTER (city = %s) FROM rows WHERE sensor_id = %s", duck.Literal(benchWrong), duck.Literal(benchSensor))
	if err := b.stream.ask(ctx, query, &all, &wrong); err != nil {
		return err
	}
	if wrong > 0 {
		return smelt.Mark(smelt.ErrVerify, fmt.Errorf("%d of the %d rows of %s are still in %s", wrong, all, benchSensor, benchWrong))
	}
	b.print("  after", "none of the %d rows of %s is in %s now", all, benchSensor, benchWrong)
	return nil
}
