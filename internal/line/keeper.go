package line

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"smelt"
	"smelt/gold"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
)

// Keeper keeps the tables of a pipeline small: it expires snapshots, so that a
// commit is as quick after a year as on the first day. It is a [smelt.Stage].
type Keeper struct {
	pipeline *smelt.Pipeline
	lake     *table.Lake
	locker   smelt.Locker
	log      *slog.Logger
}

// NewKeeper makes the keeper of a pipeline's tables.
func NewKeeper(p *smelt.Pipeline, parts Parts) *Keeper {
	return &Keeper{p, parts.Area.Lake, parts.Locker, parts.Log}
}

// Name tells the keeper from the stages that write the tables.
func (k *Keeper) Name() string { return "keep." + k.pipeline.Name }

// Step looks at each table once. It holds the table's lock meanwhile, so that
// it does not race the table's stage; when that is at work it leaves the table
// to the next time.
func (k *Keeper) Step(ctx context.Context) (smelt.Progress, error) {
	needed, err := k.needed(ctx)
	if err != nil {
		return smelt.Progress{}, err
	}
	names := []string{silver.TableName(k.pipeline.Name), silver.QuarantineName(k.pipeline.Name)}
	for _, m := range k.pipeline.Gold {
		names = append(names, gold.TableName(k.pipeline.Name, m.Name))
	}
	var errs []error
	for _, name := range names {
		policy := table.Retention{}
		if name == names[0] {
			policy.Needed = needed
		}
		errs = append(errs, k.expire(ctx, name, policy))
	}
	return smelt.Progress{}, errors.Join(errs...)
}

// needed are the silver snapshots from which gold and quarantine go on, and the
// newest one: what comes while the keeper is at work is not its business.
func (k *Keeper) needed(ctx context.Context) ([]int64, error) {
	needed, err := k.handed(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range k.pipeline.Gold {
		name := gold.TableName(k.pipeline.Name, m.Name)
		l, err := read[ledger.Gold](ctx, k.lake, name)
		if err != nil {
			return nil, err
		}
		switch behind, err := k.behind(ctx, l.SilverSnapshot); {
		case err != nil:
			return nil, err
		case behind > mostBehind:
			k.log.Warn("gold is too far behind for silver to keep the snapshots in between; it will recompute everything", "table", name, "snapshots", behind)
		case l.SilverSnapshot != 0:
			needed = append(needed, l.SilverSnapshot)
		}
	}
	return needed, nil
}

// mostBehind is how many silver snapshots are kept for a gold table that does not
// get on: each makes every commit to silver a little slower.
const mostBehind = 2000

// behind counts the silver snapshots since one.
func (k *Keeper) behind(ctx context.Context, snapshot int64) (int, error) {
	t, err := k.lake.Load(ctx, silver.TableName(k.pipeline.Name))
	if errors.Is(err, smelt.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return max(0, slices.IndexFunc(t.Ancestors(), func(a table.Snapshot) bool { return a.ID == snapshot })), nil
}

// handed are silver's newest snapshot and the oldest one that hands rejects to
// quarantine which it does not have yet. Only those snapshots know of the
// rejects. Quarantine comes first: so what it gets meanwhile stays as well.
func (k *Keeper) handed(ctx context.Context) ([]int64, error) {
	q, err := k.lake.Load(ctx, silver.QuarantineName(k.pipeline.Name))
	if err != nil && !errors.Is(err, smelt.ErrNotFound) {
		return nil, err
	}
	var have ledger.Quarantine
	if err == nil {
		if have, _, _, err = ledger.Read[ledger.Quarantine](q); err != nil {
			return nil, err
		}
	}
	s, err := k.lake.Load(ctx, silver.TableName(k.pipeline.Name))
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var handed []int64
	if newest, ok := s.Current(); ok {
		handed = append(handed, newest.ID)
	}
	pending, err := silver.Pending(s.Ancestors(), have)
	if err == nil && len(pending) > 0 {
		handed = append(handed, pending[0].Snapshot.ID)
	}
	return handed, err
}

func read[L ledger.Silver | ledger.Quarantine | ledger.Gold](ctx context.Context, lake *table.Lake, name string) (l L, err error) {
	t, err := lake.Load(ctx, name)
	if errors.Is(err, smelt.ErrNotFound) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l, _, _, err = ledger.Read[L](t)
	return l, err
}

func (k *Keeper) expire(ctx context.Context, name string, policy table.Retention) error {
	unlock, err := k.locker.TryLock(ctx, name)
	if errors.Is(err, smelt.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	expired, err := k.lake.Expire(ctx, name, policy)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("expire snapshots of %s: %w", name, err)
	}
	if expired.Snapshots > 0 {
		k.log.Info("expired", "table", name, "snapshots", expired.Snapshots, "files", expired.Files)
	}
	return nil
}
