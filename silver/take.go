package silver

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// take reads bronze objects and commits what becomes of them.
func (s *Stage) take(ctx context.Context, t *table.Table, before ledger.Silver, refs []bronze.Ref) (int64, error) {
	dir, err := s.Duck.TempDir()
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	defer s.clear(ctx)
	files, metas, err := s.download(ctx, refs, dir)
	if err != nil {
		return 0, err
	}
	now := time.Now().UTC()
	var longest int64
	for _, m := range metas {
		longest = max(longest, m.Longest)
	}
	if err := s.refine(ctx, t, files, longest, now); err != nil {
		return 0, err
	}
	after, err := s.account(ctx, before, refs, metas)
	if err != nil {
		return 0, err
	}
	if err := s.commit(ctx, t, after, dir); err != nil {
		return 0, err
	}
	done := after.Records - before.Records
	s.Log.Debug("silver step", "pipeline", s.Pipeline.Name, "records", done, "rows", after.Rows()-before.Rows(),
		"rejected", after.Rejected()-before.Rejected(), "objects", len(refs))
	return done, nil
}

// clear drops what a step has worked with: all sessions share one limit of
// memory. What cannot be dropped now is replaced by the next step.
func (s *Stage) clear(ctx context.Context) {
	statements := []string{"TRUNCATE work.records"}
	for _, name := range []string{"silver", "rejects", "unmatched", "filtered", "raws", "new", "known", "seen", "shared", "checked", "duplicates"} {
		statements = append(statements, "DROP TABLE IF EXISTS work."+name)
	}
	if err := s.session.Exec(context.WithoutCancel(ctx), statements...); err != nil {
		s.Log.Warn("clear a step's tables", "pipeline", s.Pipeline.Name, "error", err)
	}
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
	err := s.sift(ctx, paths(files), longest, now)
	if duck.OutOfMemory(err) && len(files) == 1 {
		s.Log.Warn("an object did not fit into DuckDB's memory; taking it in parts", "pipeline", s.Pipeline.Name, "object", filepath.Base(files[0].path))
		err = s.siftParts(ctx, files[0].path, now)
	}
	if err != nil {
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
