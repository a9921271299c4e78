package silver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// Quarantine is an outbox. Silver's commit decides alone what is rejected: its
// ledger names the file of rejects, which has been uploaded before. Here that
// very file is made part of the quarantine table, once: the table's own ledger
// says up to which silver snapshot it has them. When smelt dies in between,
// the next step does it first.

// quarantine loads the quarantine table, and creates it when there is none.
func (s *Stage) quarantine(ctx context.Context) (*table.Table, error) {
	return s.Area.Lake.Create(ctx, QuarantineName(s.Pipeline.Name), table.Definition{Columns: rejectColumns})
}

// uploadRejects writes work.rejects into the quarantine table's folder, and
// notes the file in the ledger. There is none without rejects.
func (s *Stage) uploadRejects(ctx context.Context, dir string, after *ledger.Silver) ([]staging.Staged, error) {
	reasons, err := s.reasons(ctx)
	if err != nil || len(reasons) == 0 {
		return nil, err
	}
	q, err := s.quarantine(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	written, err := s.session.WriteParquet(ctx, "work.rejects", dir, duck.Layout{
		FieldIDs: q.FieldIDs(), Sort: colPartition + ", " + colOffset,
	})
	if err != nil {
		return nil, err
	}
	staged, err := s.Area.Upload(ctx, q, written)
	if err != nil {
		return nil, err
	}
	file := written[0] // unpartitioned rows are one file
	file.Path = staged[0].File.Key
	after.Rejects = &ledger.Rejects{File: file, Reasons: reasons}
	return staged, nil
}

// publishRejects adds to quarantine what silver's snapshots have handed over
// since it was last done. It looks at quarantine first: silver as it is later
// has every snapshot from which quarantine was filled.
func (s *Stage) publishRejects(ctx context.Context) error {
	q, err := s.quarantine(ctx)
	if err != nil {
		return err
	}
	t, err := s.Area.Lake.Load(ctx, s.Name())
	if errors.Is(err, smelt.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	have, _, _, err := ledger.Read[ledger.Quarantine](q)
	if err != nil {
		return err
	}
	pending, newest, err := Pending(ctx, t, q, have.SilverSnapshot)
	if err != nil || len(pending) == 0 {
		return err
	}
	next := ledger.Quarantine{SilverSnapshot: newest, Reasons: maps.Clone(have.Reasons)}
	if next.Reasons == nil {
		next.Reasons = map[string]int64{}
	}
	var change table.Change
	for _, rejects := range pending {
		file, err := q.NewFile(rejects.File)
		if err != nil {
			return fmt.Errorf("rejects of %s: %w", t.Name(), err)
		}
		change.Add = append(change.Add, file)
		for reason, n := range rejects.Reasons {
			next.Reasons[reason] += n
		}
	}
	if err := ledger.Write(&change, next); err != nil {
		return err
	}
	_, err = q.Commit(ctx, change)
	return err
}

// Pending lists the files of rejects, oldest first, that the snapshots of the
// silver table t name and that the quarantine table q has not yet, when it has
// those up to the silver snapshot since; newest is the last silver snapshot that
// has any. With since 0, q has none and may be nil.
func Pending(ctx context.Context, t, q *table.Table, since int64) (pending []ledger.Rejects, newest int64, err error) {
	found := since == 0
	for _, snapshot := range t.Ancestors() {
		if snapshot.ID == since {
			found = true
			break
		}
		l, ok, err := ledger.Of[ledger.Silver](snapshot)
		if err != nil {
			return nil, 0, err
		}
		if !ok || l.Rejects == nil {
			continue
		}
		if newest == 0 {
			newest = snapshot.ID
		}
		pending = append(pending, *l.Rejects)
	}
	slices.Reverse(pending)
	if found || len(pending) == 0 {
		return pending, newest, nil
	}
	// The snapshot is no ancestor any more (silver was rolled back): what
	// quarantine has is what its files say.
	current, _ := q.Current()
	files, err := q.Files(ctx, current.ID)
	if err != nil {
		return nil, 0, err
	}
	pending = slices.DeleteFunc(pending, func(r ledger.Rejects) bool {
		return slices.ContainsFunc(files, func(f table.File) bool { return f.Key == r.File.Path })
	})
	return pending, newest, nil
}
