package upkeep

import (
	"context"
	"errors"
	"slices"
	"time"

	"smelt"
	"smelt/gold"
	"smelt/internal/human"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
)

// expireEvery is how often snapshots are checked. A table gets about a hundred in between at most.
const expireEvery = time.Minute

// mostBehind is how many silver snapshots are kept for a gold table that is stuck, or that must be
// computed as a whole. The latter may take long, and it reads the files of an unknown snapshot.
// Each kept snapshot makes commits to silver a little slower.
const mostBehind = 2000

// expiry drops the snapshots of a table that nothing keeps. It holds the table's write lock until they
// are dropped, so that it does not race the table's stage. If the stage is at work, it skips the
// table until next time.
func expiry(cfg Config, name, lock string) Task {
	e := &expirer{cfg, name, lock}
	return Task{Table: name, Kind: KindExpire, Every: expireEvery, Plan: e.plan}
}

type expirer struct {
	Config
	name, lock string
}

func (e *expirer) plan(ctx context.Context, _ time.Time) ([]Job, error) {
	policy, err := e.policy(ctx)
	if err != nil {
		return nil, err
	}
	found, err := e.Area.Lake.Expirable(ctx, e.name, policy)
	if errors.Is(err, smelt.ErrNotFound) || err == nil && found < table.ExpireBatch {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []Job{{Table: e.name, Kind: KindExpire, What: human.Count(int64(found), "snapshot"), Run: e.run}}, nil
}

func (e *expirer) run(ctx context.Context) (Done, error) {
	unlock, err := e.Locker.TryLock(ctx, e.lock)
	if errors.Is(err, smelt.ErrLocked) {
		return Done{Lost: "the table is being written"}, nil
	}
	if err != nil {
		return Done{}, err
	}
	defer unlock()
	policy, err := e.policy(ctx)
	if err != nil {
		return Done{}, err
	}
	policy.Dropped = unlock // to delete the files takes longer than all before
	expired, err := e.Area.Lake.Expire(ctx, e.name, policy)
	if err == nil && expired.Snapshots == 0 {
		return Done{Lost: "the table was changed meanwhile"}, nil
	}
	return Done{Before: Size{Files: expired.Files}}, err
}

// policy is what the table keeps. Silver also keeps what gold continues from. Quarantine keeps what belongs to a snapshot of
// silver. Gold keeps the state in which all gold tables fit each other.
func (e *expirer) policy(ctx context.Context) (policy table.Retention, err error) {
	p := e.Policy
	policy = table.Retention{Last: p.Snapshots, Grace: p.Grace, Hourly: p.Hourly, Daily: p.Daily}
	switch e.name {
	case silver.TableName(e.Pipeline.Name):
		var whole bool
		if policy.Needed, whole, err = e.needed(ctx); whole {
			policy.Last = max(policy.Last, mostBehind)
		}
		at, _, errCommon := e.common(ctx)
		policy.Keep, err = append(policy.Keep, at), errors.Join(err, errCommon)
	case silver.QuarantineName(e.Pipeline.Name):
		policy.Keep, err = e.paired(ctx)
	default:
		_, policy.Keep, err = e.common(ctx)
	}
	return policy, err
}

// needed are the silver snapshots that gold continues from, and the newest one, so that later commits
// do not matter. whole says whether a gold table must be computed from all of silver.
func (e *expirer) needed(ctx context.Context) (needed []int64, whole bool, err error) {
	t, err := e.Area.Lake.Load(ctx, e.name)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if newest, ok := t.Current(); ok {
		needed = append(needed, newest.ID)
	}
	for _, m := range e.Pipeline.Gold {
		snapshot, err := e.from(ctx, m)
		if err != nil {
			return nil, false, err
		}
		if snapshot == 0 {
			whole = true
			continue
		}
		needed = append(needed, snapshot)
	}
	return needed, whole, nil
}

// from is the silver snapshot from which a gold table goes on; 0: it goes on from
// none.
func (e *expirer) from(ctx context.Context, m smelt.Model) (int64, error) {
	name := gold.TableName(e.Pipeline.Name, m.Name)
	l, err := read[ledger.Gold](ctx, e.Area.Lake, name)
	if err != nil || l.Model != gold.Digest(m) {
		return 0, err
	}
	t, err := e.Area.Lake.Load(ctx, e.name)
	if errors.Is(err, smelt.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if _, there := t.Snapshot(l.SilverSnapshot); !there {
		return 0, nil
	}
	behind := slices.IndexFunc(t.Ancestors(), func(a table.Snapshot) bool { return a.ID == l.SilverSnapshot })
	if behind > mostBehind {
		e.Log.Warn("gold is too far behind for silver to keep the snapshots in between; it will recompute everything", "table", name, "snapshots", behind)
		return 0, nil
	}
	return l.SilverSnapshot, nil
}

// common is the newest silver snapshot that all gold tables were computed from, and the
// gold snapshots with the results. There may be none.
func (e *expirer) common(ctx context.Context) (at int64, of []int64, err error) {
	names := []string{silver.TableName(e.Pipeline.Name)}
	for _, m := range e.Pipeline.Gold {
		names = append(names, gold.TableName(e.Pipeline.Name, m.Name))
	}
	tables, err := e.Area.Lake.LoadAll(ctx, names...)
	if err != nil || tables[0] == nil {
		return 0, nil, err
	}
	at, of, _, err = gold.Common(tables[0], tables[1:])
	return at, of, err
}

// paired are the snapshots of quarantine that belong to snapshots that silver has.
func (e *expirer) paired(ctx context.Context) (paired []int64, err error) {
	p, err := silver.LoadPair(ctx, e.Area.Lake, e.Pipeline.Name)
	if err != nil || p.Silver == nil || p.Quarantine == nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, s := range p.Silver.Snapshots() {
		l, _, err := ledger.Of[ledger.Silver](s)
		if err != nil {
			return nil, err
		}
		named[l.Quarantine] = true
	}
	for _, s := range p.Quarantine.Snapshots() {
		l, ok, err := ledger.Of[ledger.Quarantine](s)
		if err != nil {
			return nil, err
		}
		if ok && named[l.ID] {
			paired = append(paired, s.ID)
		}
	}
	return paired, nil
}

// read reads a table's ledger; an empty one if the table does not exist.
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
