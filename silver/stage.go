// Package silver is the second stage of the line. It types, enriches, cleans and deduplicates bronze records into the Iceberg
// table silver.<pipeline>. Records that do not fit go to quarantine.<pipeline>, with the reason. Start reading with
// stage.go, then take.go.
//
// A step reads bronze from the position in the table's newest ledger, and commits rows, rejects and the new position
// together. The commit is a compare-and-swap on the snapshots that were read. So of two stages that do the same work one
// succeeds, and the other starts over.
package silver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// Config is what a stage works with.
type Config struct {
	Pipeline   *smelt.Pipeline
	Bronze     *bronze.Reader
	Area       staging.Area
	Duck       *duck.DB
	References smelt.References
	Locker     smelt.Locker
	Log        *slog.Logger

	Codec      bronze.Codec  // of the objects to come; Zstd when empty
	ListEvery  time.Duration // how often bronze is listed; 0: at each step
	BatchBytes int           // of events to work on at once; 0: as many as suit most machines
}

// A step takes between minStepBytes and maxStepBytes of compressed bronze. It
// doubles while there is a backlog, so that catching up is fast, and begins
// small, so that a first answer comes soon. The bound keeps a step's rows
// within DuckDB's smallest sensible memory.
const (
	minStepBytes = 4 << 20
	maxStepBytes = 32 << 20
)

// relists is how often a step lists bronze again because an object was deleted before the
// step could read it. Each time, the object was merged and cleaned in the meantime.
const relists = 3

// Stage writes silver.<pipeline>. It is a [smelt.Stage].
type Stage struct {
	*Refiner
	stepBytes int64 // of the next step
	doubt     bool  // the store failed the last step

	quiet      map[int32]int64 // the position at which the last step found nothing; nil: it found something
	partitions []int32         // that bronze had
	listed     time.Time       // when that was
	young      int             // how many more steps list bronze, see youngSteps
	ends       map[int32]int64 // positions at which an object ends, by partition
}

// Open makes a stage, with a DuckDB session of its own. Nothing is read or
// written before the first step.
func Open(ctx context.Context, cfg Config) (*Stage, error) {
	r, err := OpenRefiner(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Stage{Refiner: r, stepBytes: minStepBytes, ends: map[int32]int64{}}, nil
}

// Name is the table's name.
func (s *Stage) Name() string { return TableName(s.Pipeline.Name) }

// TableName is the name of a pipeline's silver table.
func TableName(pipeline string) string { return "silver." + pipeline }

// QuarantineName is the name of a pipeline's quarantine table.
func QuarantineName(pipeline string) string { return "quarantine." + pipeline }

// Prepare loads the references, binds silver.sql to them and creates missing tables. So
// errors of the pipeline show before anything runs, and the tables can be queried before
// they have rows. An existing silver table is evolved to the pipeline's columns and
// partitioning.
func (s *Stage) Prepare(ctx context.Context) error {
	if err := s.Bind(ctx); err != nil {
		return err
	}
	if err := s.create(ctx); err != nil {
		return err
	}
	if _, err := s.Area.Lake.Evolve(ctx, s.Name(), s.definition()); err != nil {
		return staging.Refused(s.Name(), err)
	}
	return nil
}

// Step takes some bronze records into silver and quarantine. When another
// process holds the table it does nothing.
func (s *Stage) Step(ctx context.Context) (smelt.Progress, error) {
	if s.nothingNew(ctx) {
		return smelt.Progress{}, nil
	}
	s.quiet = nil
	unlock, err := s.Locker.TryLock(ctx, s.Name())
	if errors.Is(err, smelt.ErrLocked) {
		return smelt.Progress{}, nil
	}
	if err != nil {
		return smelt.Progress{}, err
	}
	defer unlock()
	progress, err := s.step(ctx)
	s.doubt = errors.Is(err, smelt.ErrStore)
	if err != nil {
		s.bound, s.listed = false, time.Time{} // after an error, load references and list bronze again
		return smelt.Progress{}, fmt.Errorf("%s: %w", s.Name(), err)
	}
	return progress, nil
}

func (s *Stage) step(ctx context.Context) (smelt.Progress, error) {
	if err := s.Bind(ctx); err != nil {
		return smelt.Progress{}, err
	}
	pair, err := s.Pair(ctx)
	if err != nil {
		return smelt.Progress{}, err
	}
	if err := s.BindSince(ctx, pair.Ledger); err != nil {
		return smelt.Progress{}, err
	}
	done, err := s.takeNext(ctx, pair)
	if err != nil {
		return smelt.Progress{}, err
	}
	if done.objects == 0 {
		s.quiet = pair.Ledger.Position
		s.stepBytes = minStepBytes
		return smelt.Progress{}, nil
	}
	switch {
	case done.full:
		s.stepBytes = max(1, done.bytes) // more would not fit
	case done.more:
		s.stepBytes = min(2*s.stepBytes, maxStepBytes)
	default:
		s.stepBytes = minStepBytes
	}
	return smelt.Progress{Records: done.records, Bytes: done.bytes, More: done.more, Repeated: done.repeated}, nil
}

// takeNext takes the bronze objects that come next: fewer where they do not fit into
// memory. It lists again when one was deleted since.
func (s *Stage) takeNext(ctx context.Context, p Pair) (done taken, err error) {
	for try := 0; ; {
		refs, more, err := s.next(ctx, p.Ledger.Position)
		if err != nil || len(refs) == 0 {
			return taken{}, err
		}
		done, err := s.take(ctx, p, refs)
		switch {
		case errors.Is(err, smelt.ErrNotFound) && try < relists:
			s.listed = time.Time{} // an object was merged and deleted
			try++
		case duck.OutOfMemory(err) && s.Halve():
			s.Log.Warn("a step did not fit into DuckDB's memory; taking half of it", "pipeline", s.Pipeline.Name, "bytes", s.most)
		case err != nil:
			return taken{}, err
		default:
			s.Regain()
			if done.more = more || done.full || done.objects < len(refs); done.full || done.objects < len(refs) {
				s.listed = time.Time{}
			}
			return done, nil
		}
	}
}

// definition is what the pipeline says of the table.
func (r *Refiner) definition() table.Definition {
	return table.Definition{Columns: r.transform.columns, Partition: r.Pipeline.Silver.Partition}
}
