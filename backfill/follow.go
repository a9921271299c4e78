package backfill

import (
	"context"
	"errors"

	"smelt"
	"smelt/gold"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// Follower brings gold up to what a backfill has published.
type Follower struct {
	lake   *table.Lake
	stages []*gold.Stage
	before []int64 // each table's snapshot before
}

// NewFollower notes how the gold tables are before a backfill publishes.
func NewFollower(ctx context.Context, lake *table.Lake, stages []*gold.Stage) (*Follower, error) {
	f := &Follower{lake: lake, stages: stages}
	for _, s := range stages {
		var current table.Snapshot
		t, err := lake.Load(ctx, s.Name())
		switch {
		case err == nil:
			current, _ = t.Current()
		case !errors.Is(err, smelt.ErrNotFound): // a new model's is made by its first refresh
			return nil, err
		}
		f.before = append(f.before, current.ID)
	}
	return f, nil
}

// Follow refreshes each gold table, or waits until another process has done so. It counts the windows
// computed since the follower was made, including those of the stream.
func (f *Follower) Follow(ctx context.Context) ([]WindowCount, error) {
	var out []WindowCount
	for i, s := range f.stages {
		if err := s.Follow(ctx); err != nil {
			return nil, err
		}
		t, err := f.lake.Load(ctx, s.Name())
		if err != nil {
			return nil, err
		}
		w := WindowCount{Table: s.Name()}
		for _, a := range t.Ancestors() {
			if a.ID == f.before[i] {
				break
			}
			l, _, err := ledger.Of[ledger.Gold](a)
			if err != nil {
				return nil, err
			}
			w.Windows += l.Windows
		}
		out = append(out, w)
	}
	return out, nil
}
