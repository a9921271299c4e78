package silver

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// commit writes the step's files and makes them, with the ledger, the table's
// newest snapshot.
func (s *Stage) commit(ctx context.Context, t *table.Table, after ledger.Silver, dir string) error {
	future, err := staging.Future(t, s.transform.columns)
	if err != nil {
		return err
	}
	rows, err := s.write(ctx, future, filepath.Join(dir, "rows"))
	if err != nil {
		return err
	}
	staged, err := s.Area.Upload(ctx, future, rows)
	if err != nil {
		return err
	}
	var rejects []staging.Staged
	after.Rejects, rejects, err = s.outbox.Upload(ctx, "work.rejects", rejectColumns, filepath.Join(dir, "rejects"))
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
