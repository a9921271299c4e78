//go:build bench

package main

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	"smelt"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
	"smelt/silver"
)

// benchGoldCostCmd measures a refresh of gold after one new minute, with more and
// more history.
type benchGoldCostCmd struct {
	Hours   []int `arg:"" help:"Lengths of history, rising."`
	Rows    int   `default:"240" help:"Events a minute."`
	Minutes int   `default:"15" help:"Refreshes that are measured, one a new minute."`
}

// goldWarmUp is how many refreshes come before those that are measured.
const goldWarmUp = 3

// goldBench is a fleet's silver table, which is filled directly, and a lake around it.
type goldBench struct {
	pipeline *smelt.Pipeline
	lake     *lake
	area     staging.Area
	config   gold.Config
	session  *duck.Session
	dir      string
	rows     int       // a minute
	from, to time.Time // of the history
	offset   int64     // of the next event
	out      stdio.Writer
}

// Run measures each length in turn. The history grows at its beginning, the stream
// goes on at its end.
func (c *benchGoldCostCmd) Run(ctx context.Context, s *settings, io *streams, bench *benchCmd) error {
	if len(c.Hours) == 0 || !slices.IsSorted(c.Hours) || c.Hours[0] < 1 {
		return usageError{fmt.Errorf("hours must rise from 1: %v", c.Hours)}
	}
	b, done, err := s.openGoldBench(ctx, io)
	if err != nil {
		return err
	}
	defer done()
	b.rows = c.Rows
	end := b.to
	var samples []benchSample
	var first time.Duration
	for _, hours := range c.Hours {
		if err := b.extend(ctx, end.Add(-time.Duration(hours)*time.Hour)); err != nil {
			return err
		}
		took, used, err := b.refreshes(ctx, fmt.Sprintf("minute_%d", hours), c.Minutes)
		if err != nil {
			return err
		}
		if first == 0 {
			first = used
		}
		of := fmt.Sprintf("%d h of history", hours)
		samples = append(samples,
			benchSample{of, used.Seconds() * 1000, "ms of CPU a refresh"},
			benchSample{of, took.Seconds() * 1000, "ms a refresh"},
			benchSample{of, float64(used) / float64(first), fmt.Sprintf("times the CPU of %d h", c.Hours[0])})
	}
	return bench.Samples.record(io.Out, samples...)
}

// openGoldBench makes the silver table. Its history ends in the middle of a minute, so that each new minute touches two windows.
func (s *settings) openGoldBench(ctx context.Context, io *streams) (b *goldBench, done func(), err error) {
	pipelines, err := s.pipelines()
	if err != nil {
		return nil, nil, err
	}
	end := time.Date(2026, time.November, 20, 12, 0, 30, 0, time.UTC)
	b = &goldBench{pipeline: pipelines[0], from: end, to: end, out: io.Out}
	db, err := s.openDuck("bench")
	if err != nil {
		return nil, nil, err
	}
	if b.lake, err = s.openLake(ctx); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	done = func() {
		if b.session != nil {
			_ = b.session.Close()
		}
		_ = errors.Join(db.Close(), os.RemoveAll(b.dir))
		b.lake.Close()
	}
	log := slog.New(slog.DiscardHandler)
	parts, err := s.parts(b.lake, db, "bench", log)
	if err == nil {
		b.area = parts.Area
		b.config = gold.Config{Pipeline: b.pipeline, Area: parts.Area, Duck: db, Locker: parts.Locker, Log: log}
		b.dir, err = db.TempDir()
	}
	if err == nil {
		b.session, err = db.Session(ctx)
	}
	var columns []smelt.Column
	if err == nil {
		columns, err = b.session.Describe(ctx, b.events(end, end))
	}
	if err == nil {
		_, err = b.lake.Tables.Create(ctx, b.table(), table.Definition{Columns: columns, Partition: b.pipeline.Silver.Partition})
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return b, done, nil
}

func (b *goldBench) table() string { return silver.TableName(b.pipeline.Name) }

// events is a query of the silver rows of some minutes, evenly spread: 4 tenants, 3
// metrics, 40 devices.
func (b *goldBench) events(from, to time.Time) string {
	n := int64(to.Sub(from)/time.Minute) * int64(b.rows)
	step := time.Minute.Microseconds() / max(1, int64(b.rows))
	return fmt.Sprintf(`SELECT 'tenant-' || h %% 4 AS tenant_id, 'device-' || h %% 40 AS device_id, 'event-' || i AS event_id,
		make_timestamptz(%d + (i - %d) * %d) AS "recordedAt",
		['speed', 'fuel', 'temperature'][1 + (h // 40 %% 3)::BIGINT] AS metric,
		round(20 + (h %% 10000) / 1000.0, 2)::DOUBLE AS value, NULL::VARCHAR AS severity,
		0::INTEGER AS _partition_id, i AS _partition_offset,
		make_timestamptz(%[1]d) AS _ingested_at, NULL::BIGINT AS _reference_version, NULL::VARCHAR AS _unmatched, NULL::TIMESTAMPTZ AS _rebuilt_at
		FROM (SELECT i, hash(i) AS h FROM range(%[2]d, %[4]d) AS r(i))`, from.UnixMicro(), b.offset, step, b.offset+n)
}

// extend puts events before those that are there, in one commit: a file a partition
// and day, as compaction leaves them.
func (b *goldBench) extend(ctx context.Context, from time.Time) error {
	err := b.add(ctx, from, b.from)
	b.from = from
	return err
}

// add commits events to silver, as its stage does.
func (b *goldBench) add(ctx context.Context, from, to time.Time) error {
	t, err := b.lake.Tables.Load(ctx, b.table())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.dir, strconv.FormatInt(b.offset, 10)+"-")
	if err != nil {
		return err
	}
	written, err := b.session.WriteParquet(ctx, "("+b.events(from, to)+")", dir, duck.Layout{
		FieldIDs: t.FieldIDs(), Sort: duck.Quote(b.pipeline.Events.Time), Partition: duck.PartitionValues(t.Partition()),
	})
	if err != nil {
		return err
	}
	staged, err := b.area.Upload(ctx, t, written)
	if err != nil {
		return err
	}
	b.offset += int64(to.Sub(from)/time.Minute) * int64(b.rows)
	change := table.Change{Add: staging.Files(staged)}
	if err := ledger.Write(&change, ledger.Silver{
		Position: map[int32]int64{0: b.offset}, Records: b.offset, Quarantined: map[string]int64{}, Newest: b.to,
	}); err != nil {
		return err
	}
	if _, err := t.Commit(ctx, change); err != nil {
		return err
	}
	return b.area.Keep(staged)
}

// refreshes computes a model over the whole history, and then again after each new
// minute. It returns the medians of the time and of the CPU. A minute of events begins
// in the middle of a window, so that each refresh takes up the window of the last one.
func (b *goldBench) refreshes(ctx context.Context, name string, minutes int) (took, used time.Duration, err error) {
	config := b.config
	config.Model = b.pipeline.Gold[0]
	config.Model.Name = name
	stage, err := gold.Open(ctx, config)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	began := time.Now()
	cpu := cpuTime()
	if _, err := stage.Step(ctx); err != nil {
		return 0, 0, err
	}
	fmt.Fprintf(b.out, "%s: %d events, computed as a whole in %.1f s, %.2f µs of CPU an event\n",
		name, b.offset, time.Since(began).Seconds(), micros(cpuTime()-cpu, b.offset))
	all, cpus := make([]time.Duration, 0, minutes), make([]time.Duration, 0, minutes)
	for i := range goldWarmUp + minutes {
		next := b.to.Add(time.Minute)
		if err := b.add(ctx, b.to, next); err != nil {
			return 0, 0, err
		}
		b.to = next
		began, cpu := time.Now(), cpuTime()
		p, err := stage.Step(ctx)
		if err != nil {
			return 0, 0, err
		}
		if p.Records == 0 {
			return 0, 0, fmt.Errorf("%s: no window was recomputed after a new minute", stage.Name())
		}
		if i >= goldWarmUp {
			all, cpus = append(all, time.Since(began)), append(cpus, cpuTime()-cpu)
		}
	}
	return median(all), median(cpus), nil
}
