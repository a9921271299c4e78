package silver

import (
	"context"
	"errors"
	"path/filepath"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// commit uploads the step's files and makes them, with the ledger, the tables' newest
// snapshots.
func (s *Stage) commit(ctx context.Context, p Pair, future *table.Table, after ledger.Silver, found *sifted, rows []smelt.DataFile, dir string) error {
	after.ReferenceVersion = s.refs.Version
	staged, err := s.Area.Upload(ctx, future, rows)
	if err != nil {
		return err
	}
	rejects := s.EditQuarantine(p.Quarantine)
	if found.rejects.count() > 0 {
		if err := rejects.Reject(ctx, "work.rejects", rejectColumns, filepath.Join(dir, "rejects")); err != nil {
			return errors.Join(err, s.Area.Discard(ctx, staged)) // nothing was committed
		}
	}
	rejects.Count(&after)
	change := table.Change{Add: staging.Files(staged), Columns: s.transform.columns}
	_, err = p.Publish(ctx, s.Area.Lake, change, after, rejects)
	if errors.Is(err, table.ErrConflict) {
		return errors.Join(err, s.Area.Discard(ctx, staged), rejects.Discard(ctx))
	}
	if err != nil {
		return err
	}
	if err := s.Area.Keep(staged); err != nil {
		s.Log.Warn("keep files in the cache", "pipeline", s.Pipeline.Name, "error", err)
	}
	return nil
}
