package silver

import (
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// take reads bronze objects and commits what becomes of them. It says how many of
// the objects it has taken: fewer where one has gone since they were listed.
func (s *Stage) take(ctx context.Context, t *table.Table, before ledger.Silver, refs []bronze.Ref) (records int64, taken int, err error) {
	if s.doubt { // all may have been worked out in vain, and would be again
		if err := s.Area.Check(ctx, t); err != nil {
			return 0, 0, err
		}
		s.doubt = false
	}
	dir, err := s.Duck.TempDir()
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	defer s.Clear(ctx)
	now := time.Now().UTC()
	metas, err := s.Refine(ctx, refs, dir, "", now)
	if err != nil {
		return 0, 0, err
	}
	refs = refs[:len(metas)]
	if err := s.whole(before, refs, metas); err != nil {
		return 0, 0, err
	}
	if len(s.Pipeline.Silver.Unique) > 0 {
		if err := s.deduplicate(ctx, t, now); err != nil {
			return 0, 0, err
		}
	}
	after, err := s.account(ctx, before, refs, metas)
	if err != nil {
		return 0, 0, err
	}
	retire(&after, metas)
	if err := s.commit(ctx, t, after, dir); err != nil {
		return 0, 0, err
	}
	done := after.Records - before.Records
	s.Log.Debug("silver step", "pipeline", s.Pipeline.Name, "records", done, "rows", after.Rows()-before.Rows(),
		"rejected", after.Rejected()-before.Rejected(), "objects", len(refs))
	return done, len(metas), nil
}

// deduplicate looks for twins of the step's rows, and moves them to the rejects.
func (s *Stage) deduplicate(ctx context.Context, t *table.Table, now time.Time) error {
	records := "bronze." + duck.Quote(s.Pipeline.Name)
	if err := s.Duplicates(ctx, t, Fresh{Rows: "work.silver", Records: records}); err != nil {
		return err
	}
	return s.session.Exec(ctx,
		"INSERT INTO work.rejects "+DuplicateRejects("work.duplicates", records, now),
		`DELETE FROM work.silver USING work.duplicates AS d
			WHERE work.silver._partition_id = d._partition_id AND work.silver._partition_offset = d._partition_offset`)
}

// account works out the ledger after the step.
func (s *Stage) account(ctx context.Context, before ledger.Silver, refs []bronze.Ref, metas []bronze.Meta) (ledger.Silver, error) {
	after := before
	after.Rejects, after.Released = nil, nil
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
	reasons, err := countReasons(ctx, s.session, "work.rejects")
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
