package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/internal/human"
	"smelt/internal/table"
)

// orphansEvery is how often a table's folder is listed: orphans come of crashes and
// lost races only, and wait for days.
const orphansEvery = 24 * time.Hour

// sweeper deletes what no snapshot of a table refers to.
type sweeper struct {
	Config
	table, lock string
}

// orphans is the task that deletes the files in a table's folder that no snapshot
// refers to. Its writers hold a lock when they commit.
func orphans(cfg Config, name, lock string) Task {
	s := &sweeper{cfg, name, lock}
	return Task{Table: name, Kind: KindOrphans, Every: orphansEvery, Plan: s.plan}
}

// age is how old an orphan must be. Whatever the policy says, a commit in progress must not have it.
func (s *sweeper) age() time.Duration {
	return max(cmp.Or(s.Policy.OrphanAge, DefaultOrphanAge), 2*table.FileAge)
}

// plan finds the orphans.
func (s *sweeper) plan(ctx context.Context, now time.Time) ([]Job, error) {
	found, err := s.Area.Lake.Orphans(ctx, s.table, now.Add(-s.age()))
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, nil
	}
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return []Job{{
		Table: s.table, Kind: KindOrphans, Before: objectsSize(found),
		What: human.Count(int64(len(found)), "file") + " that no snapshot refers to",
		Run:  func(ctx context.Context) (Done, error) { return s.run(ctx, found) },
	}}, nil
}

// run deletes what is still an orphan.
func (s *sweeper) run(ctx context.Context, found []smelt.Object) (Done, error) {
	t, err := s.fence(ctx)
	if err != nil {
		return Done{}, fmt.Errorf("orphans of %s: %w", s.table, err)
	}
	gone, err := t.RemoveOrphans(ctx, found)
	if err != nil {
		return Done{}, fmt.Errorf("orphans of %s: %w", s.table, err)
	}
	return Done{Before: objectsSize(gone)}, nil
}

// fence makes every commit fail that started before it. It holds the lock, so that usually no commit has
// to be repeated.
func (s *sweeper) fence(ctx context.Context) (table.Fenced, error) {
	unlock, err := s.Locker.Lock(ctx, s.lock)
	if err != nil {
		return table.Fenced{}, err
	}
	defer unlock()
	return s.Area.Lake.Fence(ctx, s.table)
}

func objectsSize(objects []smelt.Object) Size {
	s := Size{Files: len(objects)}
	for _, o := range objects {
		s.Bytes += o.Size
	}
	return s
}
