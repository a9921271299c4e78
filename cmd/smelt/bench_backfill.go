package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	stdio "io"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/bronze"
	"smelt/internal/audit"
	"smelt/internal/duck"
)

// benchBackfillCmd corrects history under a live stream.
type benchBackfillCmd struct {
	Before time.Duration `default:"30s" help:"How long the stream is measured by itself."`
}

// What is corrected: the row of the demo's reference table that is wrong.
const (
	benchSensor  = "hel-001"
	benchWrong   = "Espoo"
	benchCorrect = "UPDATE public.locations SET city = 'Helsinki' WHERE sensor_id = '" + benchSensor + "'"
)

// benchFresh is how old the newest event in gold may be before the stream counts
// as live, and benchLive how long that may take.
const (
	benchFresh = 10 * time.Second
	benchLive  = 2 * time.Minute
)

// Run measures a stream that runs already, corrects the reference table, and
// measures the stream and the backfill; then it replays all of history.
func (c *benchBackfillCmd) Run(ctx context.Context, s *settings, io *streams) error {
	pipelines, err := s.pipelines()
	if err != nil {
		return err
	}
	l, err := s.openLake(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	b := &benchBackfill{stream: &stream{s, l, pipelines[0]}, io: io}
	if err := b.live(ctx); err != nil {
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
	if err := l.Database.Exec(ctx, benchCorrect); err != nil {
		return err
	}
	if err := b.measure(ctx, "--reference-changes"); err != nil {
		return err
	}
	if err := b.old(ctx); err != nil {
		return err
	}
	return b.measure(ctx, "--all")
}

// benchBackfill measures backfills beside a stream.
type benchBackfill struct {
	stream *stream
	io     *streams
}

func (b *benchBackfill) print(what, format string, args ...any) {
	fmt.Fprintf(b.io.Out, "%-14s %s\n", what, fmt.Sprintf(format, args...))
}

// live waits until the stream has caught up.
func (b *benchBackfill) live(ctx context.Context) error {
	waiting, stop := context.WithTimeout(ctx, benchLive)
	defer stop()
	for {
		r, err := audit.Count(waiting, b.stream.lake.Store, b.stream.lake.Tables, b.stream.pipeline, time.Now())
		if err != nil {
			return err
		}
		if r.FreshSeconds != nil && *r.FreshSeconds < benchFresh.Seconds() {
			return nil
		}
		if !pause(waiting, sampleEvery) {
			return fmt.Errorf("gold is not fresh after %s: does the stream run?", benchLive)
		}
	}
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
	return nil
}

// benchReplay is what a backfill says of itself, and the memory that it took.
type benchReplay struct {
	Plan    backfill.Plan
	Result  backfill.Result
	Seconds float64 // since the plan
	peak    float64 // RSS, in GiB
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
func (b *benchBackfill) old(ctx context.Context) (err error) {
	db, err := b.stream.settings.openDuck("bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	parts, err := b.stream.settings.parts(b.stream.lake, db, "bench", newLog(stdio.Discard))
	if err != nil {
		return err
	}
	session, err := db.Session(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	t, err := b.stream.silver(ctx)
	if err != nil {
		return err
	}
	current, _ := t.Current()
	files, err := t.Files(ctx, current.ID)
	if err != nil {
		return err
	}
	paths, release, err := parts.Area.Fetch(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	var all, wrong int64
	err = session.Row(ctx, fmt.Sprintf("SELECT count(*), count(*) FILTER (city = %s) FROM %s WHERE sensor_id = %s",
		duck.Literal(benchWrong), duck.ReadParquet(t.Columns(), paths), duck.Literal(benchSensor)), &all, &wrong)
	if err != nil {
		return err
	}
	if wrong > 0 {
		return smelt.Mark(smelt.ErrVerify, fmt.Errorf("%d of the %d rows of %s are still in %s", wrong, all, benchSensor, benchWrong))
	}
	b.print("  after", "none of the %d rows of %s is in %s any more", all, benchSensor, benchWrong)
	return nil
}
