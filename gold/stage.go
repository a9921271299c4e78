// Package gold is the third stage of the line: it keeps, for each model of a
// pipeline, an Iceberg table of the model's SELECT over silver, window by
// window. A refresh recomputes the windows that changed silver files touch, and
// only those, so its cost follows what changed, and a late event is like any
// other. The table's own newest snapshot records the silver snapshot that it
// was computed from.
package gold

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"smelt"
	"smelt/internal/columns"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// Config is what a stage works with.
type Config struct {
	Pipeline *smelt.Pipeline
	Model    smelt.Model
	Area     staging.Area
	Duck     *duck.DB
	Locker   smelt.Locker
	Log      *slog.Logger
}

// mostBehind is how many silver snapshots without changed rows gold's ledger may lag
// behind. After that a commit updates the ledger alone, because silver keeps every snapshot
// from the recorded one on.
const mostBehind = 100

// manyRows are worth the CPU that DuckDB's threads take to work together: on one they
// take some seconds.
const manyRows = 10_000_000

// fewWindows is how many windows a refresh of a stream usually touches.
const fewWindows = 8

// Stage writes gold.<pipeline>_<model>. It is a [smelt.Stage].
type Stage struct {
	Config
	session *duck.Session
	windows *duck.BatchRows // to be computed, unless all are
	bound   bound
	seen    seen // what was found to be up to date
	doubt   bool // the store failed the last refresh
}

// bound is what the model gives over columns of silver.
type bound struct {
	silver string
	gives  []smelt.Column
}

// seen is a silver snapshot, and the gold one that needs no change for it.
type seen struct{ silver, gold int64 }

// Open makes a stage, with a DuckDB session of its own. Nothing is read or
// written before the first step.
func Open(ctx context.Context, cfg Config) (*Stage, error) {
	session, err := cfg.Duck.Session(ctx)
	if err != nil {
		return nil, err
	}
	windows := columns.New([]smelt.Column{{Name: "w", Type: smelt.Type{Name: "timestamptz"}}})
	s := &Stage{Config: cfg, session: session, windows: duck.NewBatchRows(windows)}
	if err := session.View(ctx, "work.windows", s.windows); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close releases the session.
func (s *Stage) Close() error {
	err := s.session.Close()
	s.windows.Batch.Free()
	return err
}

// ask adds a window to those that work.windows shows.
func (s *Stage) ask(w time.Time) {
	row := s.windows.Batch.Add()
	s.windows.Batch.Columns[0].SetInt(row, w.UnixMicro())
	s.windows.Only = append(s.windows.Only, int32(row))
}

// askAnew empties work.windows.
func (s *Stage) askAnew() {
	s.windows.Batch.Reset()
	s.windows.Only = s.windows.Only[:0]
}

// Name is the table's name.
func (s *Stage) Name() string { return TableName(s.Pipeline.Name, s.Model.Name) }

// TableName is the name of a model's gold table.
func TableName(pipeline, model string) string { return "gold." + pipeline + "_" + model }

// Digest identifies a model's SQL and window. When it changes, everything is computed again.
func Digest(m smelt.Model) string {
	sum := sha256.Sum256([]byte(m.Window.String() + "\x00" + m.Column + "\x00" + m.SQL))
	return hex.EncodeToString(sum[:8])
}

// Step brings the table up to the newest silver snapshot. Records counts the
// windows recomputed. When another process holds the table it does nothing.
func (s *Stage) Step(ctx context.Context) (smelt.Progress, error) {
	if s.upToDate(ctx) {
		return smelt.Progress{}, nil
	}
	unlock, err := s.Locker.TryLock(ctx, s.Name())
	if errors.Is(err, smelt.ErrLocked) {
		return smelt.Progress{}, nil
	}
	if err != nil {
		return smelt.Progress{}, err
	}
	defer unlock()
	windows, more, err := s.refresh(ctx)
	if err != nil {
		return smelt.Progress{}, fmt.Errorf("%s: %w", s.Name(), err)
	}
	return smelt.Progress{Records: windows, More: more}, nil
}

// upToDate says whether both tables are as the last refresh found them, or left them.
// So a step with nothing to do takes no lock.
func (s *Stage) upToDate(ctx context.Context) bool {
	if s.seen == (seen{}) {
		return false
	}
	var j job
	var err error
	if j.gold, err = s.Area.Lake.Load(ctx, s.Name()); err != nil {
		return false
	}
	if j.silver, err = s.Area.Lake.Load(ctx, "silver."+s.Pipeline.Name); err != nil {
		return false
	}
	j.snapshot, _ = j.silver.Current()
	return j.at() == s.seen
}

// Follow brings the table up to the newest silver snapshot, and waits for another
// process that holds it.
func (s *Stage) Follow(ctx context.Context) error {
	unlock, err := s.Locker.Lock(ctx, s.Name())
	if err != nil {
		return err
	}
	defer unlock()
	for more := true; more; {
		if _, more, err = s.refresh(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.Name(), err)
		}
	}
	return nil
}

// clear drops what a refresh of many windows has worked with: all sessions share one
// limit of memory. What a few windows took is replaced by the next refresh.
func (s *Stage) clear(ctx context.Context) error {
	var drops []string
	for _, name := range []string{"fresh", "part", "old", "changed", "revisions", "result"} {
		drops = append(drops, "DROP TABLE IF EXISTS work."+name)
	}
	return s.session.Exec(context.WithoutCancel(ctx), drops...)
}

// job is one refresh.
type job struct {
	silver   *table.Table
	snapshot table.Snapshot // of silver, to compute from
	source   ledger.Silver
	gold     *table.Table
	future   *table.Table // gold as it will be, with the model's columns
	before   ledger.Gold
	columns  []smelt.Column // those of the gold table that the stage gives now
	all      string         // why every window is recomputed; "" when only touched ones are
	more     bool           // silver is newer than the snapshot
	held     []ledger.Held  // windows on whose rows the model throws
	floor    time.Time      // of the windows that are; zero: none is frozen
}

// at are the snapshots that a refresh begins with.
func (j job) at() seen {
	at := seen{silver: j.snapshot.ID}
	if j.gold != nil {
		current, _ := j.gold.Current()
		at.gold = current.ID
	}
	return at
}

// refresh brings the table up to the newest silver snapshot, or to an older one where
// it meets another table: more says that silver is newer.
func (s *Stage) refresh(ctx context.Context) (windows int64, more bool, err error) {
	j, ok, err := s.plan(ctx)
	if err != nil || !ok {
		return 0, false, err
	}
	touched, behind, err := s.touched(ctx, &j)
	if err != nil {
		return 0, false, err
	}
	if len(touched) == 0 && j.all == "" && behind < mostBehind && !j.more {
		s.seen = j.at()
		return 0, false, nil
	}
	if j.all != "" {
		s.Log.Info("gold is recomputed as a whole", "table", s.Name(), "reason", j.all)
	}
	if s.doubt { // all may have been computed in vain, and would be again
		if err := s.Area.Check(ctx, j.gold); err != nil {
			return 0, false, err
		}
	}
	if j.all != "" && j.source.Rows() >= manyRows {
		done, err := s.Duck.Parallel(ctx)
		if err != nil {
			return 0, false, err
		}
		defer done()
	}
	windows, err = s.compute(ctx, j, touched)
	s.doubt = errors.Is(err, smelt.ErrStore)
	if j.all != "" || len(touched) > fewWindows {
		err = errors.Join(err, s.clear(ctx))
	}
	return windows, j.more, err
}

// plan loads both tables. ok is false if gold is up to date. It loads gold first, so silver is at least as new as
// gold's snapshot. So a delayed refresh never takes gold back to an older one.
func (s *Stage) plan(ctx context.Context) (j job, ok bool, err error) {
	j.gold, err = s.Area.Lake.Load(ctx, s.Name())
	if errors.Is(err, smelt.ErrNotFound) {
		j.gold, err = nil, nil
	}
	if err != nil {
		return j, false, err
	}
	isNew := j.gold == nil
	j.silver, err = s.Area.Lake.Load(ctx, "silver."+s.Pipeline.Name)
	if errors.Is(err, smelt.ErrNotFound) {
		return j, false, nil
	}
	if err != nil {
		return j, false, err
	}
	if j.snapshot, ok = j.silver.Current(); !ok || j.at() == s.seen {
		return j, false, nil
	}
	if j.source, _, _, err = ledger.Read[ledger.Silver](j.silver); err != nil {
		return j, false, err
	}
	if err := s.open(ctx, &j); err != nil {
		return j, false, err
	}
	var recorded bool
	if j.before, _, recorded, err = ledger.Read[ledger.Gold](j.gold); err != nil {
		return j, false, err
	}
	if recorded && j.before.Model == Digest(s.Model) {
		at, ok, err := s.meet(ctx, j)
		if err != nil {
			return j, false, err
		}
		if ok {
			j.snapshot, j.more = at, true
			if j.source, _, err = ledger.At[ledger.Silver](j.silver, at.ID); err != nil {
				return j, false, err
			}
		}
	}
	j.floor = Floor(s.Model.Window, j.source, j.before)
	switch {
	case recorded && isNew: // another process was first, and may have seen a newer silver
		return j, false, nil
	case !recorded:
		j.all = "it is new"
	case j.before.Model != Digest(s.Model):
		j.all = "its model has changed"
	}
	return j, j.all != "" || j.before.SilverSnapshot != j.snapshot.ID, nil
}

// compute recomputes windows, replaces them, and records the silver snapshot.
func (s *Stage) compute(ctx context.Context, j job, touched []time.Time) (int64, error) {
	dir, err := s.Duck.TempDir()
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	now := time.Now().UTC()
	next := ledger.Gold{
		SilverSnapshot: j.snapshot.ID, SilverRows: j.source.Rows(), Model: Digest(s.Model), All: j.all,
		Newest: j.source.Newest, Windows: int64(len(touched)), Retained: j.before.Retained,
	}
	if !j.source.Newest.IsZero() {
		next.Watermark = j.source.Newest.Add(-s.Pipeline.Events.Watermark)
	}
	var change table.Change
	var staged []staging.Staged
	if j.all != "" || len(touched) > 0 { // else the record alone is brought up
		if change, staged, err = s.replace(ctx, &j, touched, dir, now); err != nil {
			return 0, err
		}
	}
	next.Held = j.stillHeld(touched, s.Model.Window)
	if j.all != "" {
		if err := s.session.Row(ctx, "SELECT count(DISTINCT "+s.window()+") FROM work.fresh", &next.Windows); err != nil {
			return 0, err
		}
	}
	if err := ledger.Write(&change, next); err != nil {
		return 0, err
	}
	committed, err := j.gold.Commit(ctx, change)
	if errors.Is(err, table.ErrConflict) {
		return 0, errors.Join(err, s.Area.Discard(ctx, staged))
	}
	if err != nil {
		return 0, err
	}
	head, _ := committed.Current()
	s.seen = seen{silver: j.snapshot.ID, gold: head.ID}
	if err := s.Area.Keep(staged); err != nil {
		s.Log.Warn("keep files in the cache", "table", s.Name(), "error", err)
	}
	s.Log.Debug("gold refresh", "table", s.Name(), "windows", next.Windows, "took", time.Since(now).Round(time.Millisecond).String())
	return next.Windows, nil
}
