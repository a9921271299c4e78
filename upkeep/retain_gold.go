package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/gold"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// goldRetention removes files from a gold table whose windows all began before the time that retain: gives.
// The ledger records that time, and no refresh computes such a window again. Silver keeps their rows.
type goldRetention struct {
	Config
	model smelt.Model
	table string
}

func retainGold(cfg Config, m smelt.Model) Task {
	r := goldRetention{cfg, m, gold.TableName(cfg.Pipeline.Name, m.Name)}
	return Task{Table: r.table, Kind: KindRetain, Every: retainEvery, Plan: r.plan}
}

func (r goldRetention) plan(ctx context.Context, now time.Time) ([]Job, error) {
	_, _, files, cutoff, err := r.find(ctx, now)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	return []Job{{Table: r.table, Kind: KindRetain, What: goes(files, cutoff), Before: sizeOf(files), Run: r.run}}, nil
}

// find finds files whose windows are all old enough.
func (r goldRetention) find(ctx context.Context, now time.Time) (t *table.Table, l ledger.Gold, old []table.File, cutoff time.Time, err error) {
	cutoff = now.Add(-r.Pipeline.Retain.Gold).UTC().Truncate(time.Microsecond)
	t, files, err := newestOf(ctx, r.Area.Lake, r.table)
	if err != nil || len(files) == 0 {
		return t, l, nil, cutoff, err
	}
	l, _, recorded, err := ledger.Read[ledger.Gold](t)
	if err != nil || !recorded {
		return t, l, nil, cutoff, err
	}
	return t, l, older(files, r.model.Column, cutoff), cutoff, nil
}

// run takes the files out.
func (r goldRetention) run(ctx context.Context) (Done, error) {
	unlock, err := r.Locker.Lock(ctx, r.table)
	if err != nil {
		return Done{}, err
	}
	defer unlock()
	t, after, files, cutoff, err := r.find(ctx, time.Now())
	if err != nil || len(files) == 0 {
		return Done{Lost: "there is nothing of it left"}, err
	}
	after.Retained, after.Windows, after.All = later(after.Retained, cutoff), 0, ""
	change := table.Change{Remove: files}
	if err := ledger.Write(&change, after); err != nil {
		return Done{}, err
	}
	change.Summary[ledger.Maintenance] = KindRetain
	_, err = t.Commit(ctx, change)
	if errors.Is(err, table.ErrConflict) {
		return Done{Lost: "another commit came first"}, nil
	}
	if err != nil {
		return Done{}, fmt.Errorf("retain %s: %w", r.table, err)
	}
	r.Log.Info("retired", "table", r.table, "rows", rowsOf(files), "files", len(files), "before", cutoff)
	return Done{Before: sizeOf(files)}, nil
}
