// Package silver is the second stage of the line: it types, enriches, cleans
// and deduplicates bronze records into the Iceberg table silver.<pipeline>, and
// sets aside in quarantine.<pipeline> what does not fit, with the reason.
//
// A step reads bronze after the position that the table's own newest snapshot
// records, and commits rows and position together. The commit is a
// compare-and-swap on the snapshot that was read, so of two stages that do the
// same work one succeeds and the other begins again; nothing is ever added
// twice or left out.
package silver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/ledger"
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

	Carefully bool // send every file down the careful path; tests compare the two
}

// A step takes between minStepBytes and maxStepBytes of compressed bronze. It
// doubles while there is a backlog, so that catching up is fast, and begins
// small, so that a first answer comes soon. The bound keeps a step's rows
// within DuckDB's smallest sensible memory.
const (
	minStepBytes = 4 << 20
	maxStepBytes = 32 << 20
)

// downloads is how many bronze objects are fetched at once.
const downloads = 8

// Stage writes silver.<pipeline>. It is a [smelt.Stage].
type Stage struct {
	Config
	session   *duck.Session
	extract   *extractor
	transform *transformer
	dedup     *deduplicator
	refs      smelt.ReferenceSet
	bound     bool  // the references are loaded and silver.sql is bound
	stepBytes int64 // of the next step
}

// Open makes a stage, with a DuckDB session of its own. Nothing is read or
// written before the first step.
func Open(ctx context.Context, cfg Config) (*Stage, error) {
	session, err := cfg.Duck.Session(ctx)
	if err != nil {
		return nil, err
	}
	s := &Stage{
		Config:  cfg,
		session: session,
		extract: &extractor{
			session: session, name: cfg.Pipeline.Name, events: cfg.Pipeline.Events,
			carefully: cfg.Carefully,
		},
		transform: &transformer{session: session, pipeline: cfg.Pipeline},
		dedup:     &deduplicator{session: session, pipeline: cfg.Pipeline},
		stepBytes: minStepBytes,
	}
	if err := s.extract.prepare(ctx); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return s, nil
}

// Close releases the session.
func (s *Stage) Close() error { return s.session.Close() }

// Name is the table's name.
func (s *Stage) Name() string { return TableName(s.Pipeline.Name) }

// TableName is the name of a pipeline's silver table.
func TableName(pipeline string) string { return "silver." + pipeline }

// QuarantineName is the name of a pipeline's quarantine table.
func QuarantineName(pipeline string) string { return "quarantine." + pipeline }

// Prepare loads the references, binds silver.sql to them and makes the table
// when there is none, so that what is wrong with the pipeline shows before
// anything runs, and the table can be queried before it has rows.
func (s *Stage) Prepare(ctx context.Context) error {
	if err := s.bind(ctx); err != nil {
		return err
	}
	t, err := s.open(ctx)
	if err != nil {
		return err
	}
	if _, err := staging.Missing(t, s.transform.columns); err != nil {
		return err
	}
	_, err = s.quarantine(ctx)
	return err
}

// Step takes some bronze records into silver and quarantine. When another
// process holds the table it does nothing.
func (s *Stage) Step(ctx context.Context) (smelt.Progress, error) {
	unlock, err := s.Locker.TryLock(ctx, s.Name())
	if errors.Is(err, smelt.ErrLocked) {
		return smelt.Progress{}, nil
	}
	if err != nil {
		return smelt.Progress{}, err
	}
	defer unlock()
	progress, err := s.step(ctx)
	if err != nil {
		s.bound = false // after any error the references are loaded anew
		return smelt.Progress{}, fmt.Errorf("%s: %w", s.Name(), err)
	}
	return progress, nil
}

func (s *Stage) step(ctx context.Context) (smelt.Progress, error) {
	if err := s.bind(ctx); err != nil {
		return smelt.Progress{}, err
	}
	t, err := s.open(ctx)
	if err != nil {
		return smelt.Progress{}, err
	}
	if err := s.publishRejects(ctx, t); err != nil {
		return smelt.Progress{}, err
	}
	before, _, _, err := ledger.Read[ledger.Silver](t)
	if err != nil {
		return smelt.Progress{}, err
	}
	refs, more, err := s.next(ctx, before.Position)
	if err != nil || len(refs) == 0 {
		s.stepBytes = minStepBytes
		return smelt.Progress{}, err
	}
	t, done, err := s.take(ctx, t, before, refs)
	for duck.OutOfMemory(err) && len(refs) > 1 {
		refs, more = refs[:len(refs)/2], true // a chain's beginning is as good a step
		s.Log.Warn("a step did not fit into DuckDB's memory; taking half of it", "pipeline", s.Pipeline.Name, "objects", len(refs))
		t, done, err = s.take(ctx, t, before, refs)
	}
	if err != nil {
		return smelt.Progress{}, err
	}
	if err := s.publishRejects(ctx, t); err != nil {
		return smelt.Progress{}, err
	}
	if more {
		s.stepBytes = min(2*s.stepBytes, maxStepBytes)
	} else {
		s.stepBytes = minStepBytes
	}
	progress := smelt.Progress{Records: done, More: more}
	for _, ref := range refs {
		progress.Bytes += ref.Size
	}
	return progress, nil
}

// bind brings the references up to date.
func (s *Stage) bind(ctx context.Context) error {
	if s.bound {
		version, err := s.References.Version(ctx, s.Pipeline.References)
		if err != nil || version == s.refs.Version {
			return err
		}
	}
	refs, err := s.References.Load(ctx, s.Pipeline.References)
	if err != nil {
		return err
	}
	if err := s.transform.bind(ctx, refs); err != nil {
		return err
	}
	s.refs, s.bound = refs, true
	return nil
}

// open loads the table, and creates it when there is none.
func (s *Stage) open(ctx context.Context) (*table.Table, error) {
	t, err := s.Area.Lake.Load(ctx, s.Name())
	if errors.Is(err, smelt.ErrNotFound) {
		return s.Area.Lake.Create(ctx, s.Name(), table.Definition{
			Columns: s.transform.columns, Partition: s.Pipeline.Silver.Partition,
		})
	}
	return t, err
}

// next chooses the bronze objects of a step, from all partitions.
func (s *Stage) next(ctx context.Context, position map[int32]int64) (refs []bronze.Ref, more bool, err error) {
	partitions, err := s.Bronze.Partitions(ctx)
	if err != nil {
		return nil, false, err
	}
	share := s.stepBytes / int64(max(1, len(partitions)))
	for _, p := range partitions {
		from, ok := position[p]
		if !ok {
			from = chainStart
		}
		found, err := s.Bronze.After(ctx, p, from, share)
		if err != nil {
			return nil, false, err
		}
		if len(found) > 0 {
			more = more || found[len(found)-1].Followed()
		}
		refs = append(refs, found...)
	}
	return refs, more, nil
}

// chainStart asks for a partition from its first object on.
const chainStart = -1

// take reads bronze objects and commits what becomes of them.
func (s *Stage) take(ctx context.Context, t *table.Table, before ledger.Silver, refs []bronze.Ref) (*table.Table, int64, error) {
	dir, err := s.Duck.TempDir()
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir)
	files, metas, err := s.download(ctx, refs, dir)
	if err != nil {
		return nil, 0, err
	}
	now := time.Now().UTC()
	var longest int64
	for _, m := range metas {
		longest = max(longest, m.Longest)
	}
	if err := s.refine(ctx, t, files, longest, now); err != nil {
		return nil, 0, err
	}
	after, err := s.account(ctx, before, refs, metas)
	if err != nil {
		return nil, 0, err
	}
	next, err := s.commit(ctx, t, after, dir)
	if err != nil {
		return nil, 0, err
	}
	done := after.Records - before.Records
	s.Log.Info("silver step", "pipeline", s.Pipeline.Name, "records", done, "rows", after.Rows()-before.Rows(),
		"rejected", after.Rejected()-before.Rejected(), "objects", len(refs))
	return next, done, nil
}

// download fetches bronze objects into a folder, side by side.
func (s *Stage) download(ctx context.Context, refs []bronze.Ref, dir string) (files []localFile, metas []bronze.Meta, err error) {
	files, metas = make([]localFile, len(refs)), make([]bronze.Meta, len(refs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(downloads)
	for i, ref := range refs {
		g.Go(func() (err error) {
			files[i] = newLocalFile(dir, ref)
			metas[i], err = s.Bronze.Download(ctx, ref, files[i].path)
			return err
		})
	}
	return files, metas, g.Wait()
}

// refine fills work.silver and work.rejects from local bronze files.
func (s *Stage) refine(ctx context.Context, t *table.Table, files []localFile, longest int64, now time.Time) error {
	if err := s.extract.extract(ctx, paths(files), longest); err != nil {
		return err
	}
	if err := s.transform.transform(ctx, s.refs, now); err != nil {
		return err
	}
	if err := s.transform.reject(ctx, now); err != nil {
		return err
	}
	if err := addRaws(ctx, s.session, files); err != nil {
		return err
	}
	if len(s.Pipeline.Silver.Unique) == 0 {
		return nil
	}
	return s.deduplicate(ctx, t, now)
}

// deduplicate looks for twins in the silver files around the new rows' times.
func (s *Stage) deduplicate(ctx context.Context, t *table.Table, now time.Time) error {
	lo, hi, ok, err := s.dedup.span(ctx)
	if err != nil || !ok {
		return err
	}
	var near []table.File
	if current, ok := t.Current(); ok {
		files, err := t.Files(ctx, current.ID)
		if err != nil {
			return err
		}
		for _, f := range files {
			first, last, known := f.Range(s.Pipeline.Events.Time)
			if !known || !last.Before(lo) && !first.After(hi) {
				near = append(near, f)
			}
		}
	}
	paths, release, err := s.Area.Fetch(ctx, near)
	if err != nil {
		return err
	}
	defer release()
	return s.dedup.run(ctx, s.transform.columns, paths, now)
}

// account works out the ledger after the step.
func (s *Stage) account(ctx context.Context, before ledger.Silver, refs []bronze.Ref, metas []bronze.Meta) (ledger.Silver, error) {
	after := before
	after.Rejects = nil
	after.ReferenceVersion = s.refs.Version
	after.Position = maps.Clone(before.Position)
	if after.Position == nil {
		after.Position = map[int32]int64{}
	}
	var records, rows, rejected int64
	for i, ref := range refs {
		after.Position[ref.Partition] = max(after.Position[ref.Partition], metas[i].End)
		records += metas[i].Count
		after.Tombstones += metas[i].Tombstones
	}
	after.Records += records
	var newest duck.NullTime
	var unmatched int64
	err := s.session.Row(ctx, fmt.Sprintf("SELECT count(*), max(%s), count(%s) FROM work.silver",
		duck.Quote(s.Pipeline.Events.Time), colUnmatched), &rows, &newest, &unmatched)
	if err != nil {
		return after, err
	}
	after.Unmatched += unmatched
	if newest.Time.After(before.Newest) {
		after.Newest = newest.Time.UTC()
	}
	reasons, err := s.reasons(ctx)
	if err != nil {
		return after, err
	}
	after.Quarantined = maps.Clone(before.Quarantined)
	if after.Quarantined == nil {
		after.Quarantined = map[string]int64{}
	}
	for reason, n := range reasons {
		after.Quarantined[reason] += n
		rejected += n
	}
	if tombstones := after.Tombstones - before.Tombstones; records != rows+rejected+tombstones {
		return after, fmt.Errorf("%d records gave %d rows, %d rejects and %d tombstones: this is a bug in smelt, and nothing was committed",
			records, rows, rejected, tombstones)
	}
	return after, nil
}

func (s *Stage) reasons(ctx context.Context) (map[string]int64, error) {
	rows, err := s.session.Query(ctx, "SELECT reason, count(*) FROM work.rejects GROUP BY reason")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var reason string
		var n int64
		if err := rows.Scan(&reason, &n); err != nil {
			return nil, err
		}
		out[reason] = n
	}
	return out, rows.Err()
}

// commit writes the step's files and makes them, with the ledger, the table's
// newest snapshot.
func (s *Stage) commit(ctx context.Context, t *table.Table, after ledger.Silver, dir string) (*table.Table, error) {
	added, err := staging.Missing(t, s.transform.columns)
	if err != nil {
		return nil, err
	}
	future := t
	if len(added) > 0 {
		if future, err = t.With(added...); err != nil {
			return nil, err
		}
	}
	rows, err := s.write(ctx, future, filepath.Join(dir, "rows"))
	if err != nil {
		return nil, err
	}
	staged, err := s.Area.Upload(ctx, future, rows)
	if err != nil {
		return nil, err
	}
	rejects, err := s.uploadRejects(ctx, filepath.Join(dir, "rejects"), &after)
	if err != nil {
		return nil, err
	}
	change := table.Change{Add: staging.Files(staged), AddColumns: added}
	if err := ledger.Write(&change, after); err != nil {
		return nil, err
	}
	next, err := t.Commit(ctx, change)
	if errors.Is(err, table.ErrConflict) {
		return nil, errors.Join(err, s.Area.Discard(ctx, append(staged, rejects...)))
	}
	if err != nil {
		return nil, err
	}
	if err := s.Area.Keep(staged); err != nil {
		s.Log.Warn("keep files in the cache", "pipeline", s.Pipeline.Name, "error", err)
	}
	return next, nil
}

// write writes work.silver as Parquet, a file a partition value, in the order
// of the event time.
func (s *Stage) write(ctx context.Context, t *table.Table, dir string) ([]smelt.DataFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return s.session.WriteParquet(ctx, staging.Relation("work.silver", t, s.transform.columns), dir, duck.Layout{
		FieldIDs:  t.FieldIDs(),
		Partition: duck.PartitionValues(t.Partition()),
		Sort:      duck.Quote(s.Pipeline.Events.Time),
	})
}
