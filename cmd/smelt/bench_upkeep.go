//go:build bench

package main

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
	"smelt/silver"
	"smelt/upkeep"
)

// benchPace is how far apart the commits of a stream are.
const benchPace = 2 * time.Second

// upkeepBench is a silver table on its own stack, with commits and upkeep. The stream's time is that of its
// commits, one every benchPace, however long they take.
type upkeepBench struct {
	config  upkeep.Config
	lake    *lake
	session *duck.Session
	table   string
	dir     string
	out     stdio.Writer

	clock time.Duration // of the stream
	last  map[string]time.Duration
	ran   map[string]spent // by kind
	files int
}

// spent is what maintenance of a kind has done.
type spent struct {
	jobs          int
	took, cpu     time.Duration
	rows, written int64 // rows, and bytes, of compacted files
}

// openUpkeep makes the table, whose rows are like the shipped pipeline's.
func (s *settings) openUpkeep(ctx context.Context, io *streams) (b *upkeepBench, done func(), err error) {
	pipelines, err := s.pipelines()
	if err != nil {
		return nil, nil, err
	}
	b = &upkeepBench{table: silver.TableName(pipelines[0].Name), out: io.Out, last: map[string]time.Duration{}, ran: map[string]spent{}}
	db, err := s.openDuck("bench")
	if err != nil {
		return nil, nil, err
	}
	if b.lake, err = s.openLake(ctx); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	parts, err := s.parts(b.lake, db, "bench", slog.New(slog.DiscardHandler))
	if err == nil {
		alone := *pipelines[0]
		alone.Gold = nil // silver would keep its snapshots for gold, which is not computed here
		b.config = upkeep.Config{Pipeline: &alone, Area: parts.Area, Duck: db, Locker: parts.Locker, Log: parts.Log}
		b.dir, err = db.TempDir()
	}
	if err == nil {
		b.session, err = db.Session(ctx)
	}
	if err != nil {
		b.lake.Close()
		return nil, nil, errors.Join(err, db.Close())
	}
	columns, err := b.session.Describe(ctx, benchRows(1, 0, pipelines[0].Events.Time))
	if err == nil {
		_, err = b.lake.Tables.Create(ctx, b.table, table.Definition{
			Columns: columns, Partition: []smelt.PartitionField{{Transform: "day", Column: pipelines[0].Events.Time}},
		})
	}
	return b, func() {
		_ = errors.Join(b.session.Close(), db.Close(), os.RemoveAll(b.dir))
		b.lake.Close()
	}, err
}

// benchRows is a query of readings, all of one day.
func benchRows(rows, seed int, eventTime string) string {
	return fmt.Sprintf(`SELECT 'sensor-' || (hash(i + %[2]d) %% 500) AS sensor_id,
		TIMESTAMPTZ '2026-11-01 00:00:00+00' + INTERVAL 1 SECOND * ((%[2]d + i) %% 86400) AS %[3]s,
		round(20 + (hash(i * 31 + %[2]d) %% 10000) / 1000.0, 2)::DOUBLE AS temperature_celsius,
		['Helsinki', 'Espoo', 'New York', 'Tokyo'][1 + (hash(i + %[2]d) %% 4)::INTEGER] AS city,
		0::INTEGER AS _partition_id, (%[2]d + i)::BIGINT AS _partition_offset,
		TIMESTAMPTZ '2026-11-01 00:00:00+00' + INTERVAL 1 SECOND * %[2]d AS _ingested_at,
		1::BIGINT AS _reference_version, NULL::VARCHAR AS _unmatched, NULL::TIMESTAMPTZ AS _rebuilt_at
		FROM range(%[1]d) AS r(i)`, rows, seed, duck.Quote(eventTime))
}

// stage writes and uploads files of some rows each.
func (b *upkeepBench) stage(ctx context.Context, files, rows int) ([]staging.Staged, error) {
	t, err := b.lake.Tables.Load(ctx, b.table)
	if err != nil {
		return nil, err
	}
	var written []smelt.DataFile
	for range files {
		dir := filepath.Join(b.dir, strconv.Itoa(b.files))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		time := b.config.Pipeline.Events.Time
		f, err := b.session.WriteParquet(ctx, "("+benchRows(rows, b.files*rows, time)+")", dir, duck.Layout{
			FieldIDs: t.FieldIDs(), Sort: duck.Quote(time), Partition: duck.PartitionValues(t.Partition()),
		})
		if err != nil {
			return nil, err
		}
		written = append(written, f...)
		b.files++
	}
	return b.config.Area.Upload(ctx, t, written)
}

// commit adds files as silver does, with a ledger, and returns how long that took.
func (b *upkeepBench) commit(ctx context.Context, staged []staging.Staged) (time.Duration, error) {
	change := table.Change{Add: staging.Files(staged)}
	position := map[int32]int64{0: int64(b.files)}
	if err := ledger.Write(&change, ledger.Silver{Position: position, Records: int64(b.files), Quarantined: map[string]int64{}}); err != nil {
		return 0, err
	}
	began := time.Now()
	t, err := b.lake.Tables.Load(ctx, b.table)
	if err == nil {
		_, err = t.Commit(ctx, change)
	}
	took := time.Since(began)
	if err == nil {
		err = b.config.Area.Keep(staged)
	}
	b.clock += benchPace
	return took, err
}

// maintain does what is due by the stream's clock.
func (b *upkeepBench) maintain(ctx context.Context) error {
	for _, task := range upkeep.Tasks(b.config) {
		last, ran := b.last[task.Kind]
		if task.Table != b.table || ran && b.clock-last < task.Every {
			continue
		}
		b.last[task.Kind] = b.clock
		if err := b.run(ctx, task); err != nil {
			return fmt.Errorf("%s: %w", task.Kind, err)
		}
	}
	return nil
}

// run does a task's jobs, and counts.
func (b *upkeepBench) run(ctx context.Context, task upkeep.Task) error {
	u := b.ran[task.Kind]
	began, cpu := time.Now(), cpuTime()
	jobs, err := task.Plan(ctx, time.Now())
	for i := 0; err == nil && i < len(jobs); i++ {
		var done upkeep.Done
		if done, err = jobs[i].Run(ctx); err == nil && task.Kind == upkeep.KindCompact {
			u.written += done.After.Bytes
			var rows int64
			rows, err = b.added(ctx)
			u.rows += rows
		}
	}
	u.jobs, u.took, u.cpu = u.jobs+len(jobs), u.took+time.Since(began), u.cpu+cpuTime()-cpu
	b.ran[task.Kind] = u
	return err
}

// added is how many rows the last commit wrote.
func (b *upkeepBench) added(ctx context.Context) (int64, error) {
	t, err := b.lake.Tables.Load(ctx, b.table)
	if err != nil {
		return 0, err
	}
	head, _ := t.Current()
	return strconv.ParseInt(head.Summary["added-records"], 10, 64)
}

// health is that of the table now.
func (b *upkeepBench) health(ctx context.Context) (table.Health, error) {
	t, err := b.lake.Tables.Load(ctx, b.table)
	if err != nil {
		return table.Health{}, err
	}
	return t.Health(ctx)
}
