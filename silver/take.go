package silver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// take reads bronze objects and commits what becomes of their records.
func (s *Stage) take(ctx context.Context, p Pair, refs []bronze.Ref) (done taken, err error) {
	t, before := p.Silver, p.Ledger
	if s.doubt { // all may have been worked out in vain, and would be again
		if err := s.Area.Check(ctx, t); err != nil {
			return done, err
		}
		s.doubt = false
	}
	dir, err := s.Duck.TempDir()
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(dir)
	defer s.Clear()
	metas, err := s.Bronze.Fetch(ctx, refs, func(ref bronze.Ref) string { return localPath(dir, ref) })
	if err != nil {
		return done, err
	}
	refs = refs[:len(metas)]
	if err := s.whole(before, refs, metas); err != nil {
		return done, err
	}
	if done, err = s.read(ctx, before, refs, metas, dir); err != nil {
		return done, err
	}
	now := time.Now().UTC()
	future, err := staging.Future(t, s.transform.columns)
	if err != nil {
		return done, err
	}
	sifted, rows, err := s.refine(ctx, t, future, filepath.Join(dir, "rows"), now)
	for try := 1; duck.Thrown(err); try++ {
		partition := duck.PartitionValues(future.Partition())
		if err := s.setAside(ctx, err, staging.Relation(s.silverRows(now), future, s.transform.columns), partition); err != nil {
			return done, err
		}
		sifted, rows, err = s.refine(ctx, t, future, filepath.Join(dir, fmt.Sprint("rows-", try)), now)
	}
	if err != nil {
		return done, err
	}
	after, err := account(before, done, sifted)
	if err != nil {
		return done, err
	}
	retire(&after, metas[:done.objects])
	if err := s.commit(ctx, p, future, after, sifted, rows, dir); err != nil {
		return done, err
	}
	s.Log.Debug("silver step", "pipeline", s.Pipeline.Name, "records", done.records, "rows", len(sifted.stay()),
		"rejected", sifted.rejects.count(), "objects", done.objects)
	return done, nil
}

// refine makes files of the records that were read, and rejects.
func (s *Stage) refine(ctx context.Context, t, future *table.Table, dir string, now time.Time) (*sifted, []smelt.DataFile, error) {
	found, err := s.sift(ctx, now, duck.PartitionValues(future.Partition()))
	if err != nil {
		return nil, nil, err
	}
	if err := s.deduplicate(ctx, t, found, now); err != nil {
		return nil, nil, err
	}
	rows, err := s.place(ctx, future, found, dir, now)
	return found, rows, err
}

// deduplicate moves rows that repeat others to the rejects.
func (s *Stage) deduplicate(ctx context.Context, t *table.Table, found *sifted, now time.Time) error {
	if found.twins == nil || len(found.rows) == 0 {
		return nil
	}
	lo, hi := found.rows[0].at, found.rows[0].at
	for _, row := range found.rows {
		lo, hi = min(lo, row.at), max(hi, row.at)
	}
	if err := s.meetSilver(ctx, t, found.twins, lo, hi, ""); err != nil {
		return err
	}
	found.reject(s.records, found.twins.found(), now)
	return nil
}

// account works out the ledger after the step, without what goes into quarantine.
func account(before ledger.Silver, done taken, s *sifted) (ledger.Silver, error) {
	after := before
	after.Position = done.position
	after.Records += done.records
	after.Tombstones += done.tombstones
	after.Unmatched += s.unmatched()
	if newest, ok := s.newest(); ok && newest.After(before.Newest) {
		after.Newest = newest
	}
	if rows := int64(len(s.stay())); done.records != rows+s.rejects.count()+done.tombstones {
		return after, fmt.Errorf("%d records gave %d rows, %d rejects and %d tombstones: this is a bug in smelt, and nothing was committed",
			done.records, rows, s.rejects.count(), done.tombstones)
	}
	return after, nil
}
