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

// commit uploads the step's files and makes them, with the ledger, the table's
// newest snapshot.
func (s *Stage) commit(ctx context.Context, t, future *table.Table, after ledger.Silver, found *sifted, rows []smelt.DataFile, dir string) error {
	after.ReferenceVersion = s.refs.Version
	staged, err := s.Area.Upload(ctx, future, rows)
	if err != nil {
		return err
	}
	var rejects []staging.Staged
	if found.rejects.count() > 0 {
		after.Rejects, rejects, err = s.outbox.Upload(ctx, "work.rejects", rejectColumns, filepath.Join(dir, "rejects"))
	}
	if err != nil {
		return errors.Join(err, s.Area.Discard(ctx, staged)) // nothing was committed
	}
	change := table.Change{Add: staging.Files(staged), Columns: s.transform.columns, Named: staging.Files(rejects)}
	if err := ledger.Write(&change, after); err != nil {
		return err
	}
	_, err = t.Commit(ctx, change)
	if errors.Is(err, table.ErrConflict) {
		return errors.Join(err, s.Area.Discard(ctx, append(staged, rejects...)))
	}
	if err != nil {
		return err
	}
	if err := s.Area.Keep(staged); err != nil {
		s.Log.Warn("keep files in the cache", "pipeline", s.Pipeline.Name, "error", err)
	}
	return nil
}
