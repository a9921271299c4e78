package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ice "github.com/apache/iceberg-go/table"
)

const (
	// KeepLast is how many snapshots of main are kept when Retention does not
	// say: commits slow down by the snapshots that there are.
	KeepLast = 200

	// KeepGrace is how old a snapshot is kept to be when Retention does not say:
	// longer than queries that began on it take.
	KeepGrace = 10 * time.Minute

	// KeepHourly and KeepDaily are how long the last snapshot of each hour and of each day is kept by default. A mistake of
	// today is found by hour, one of this month by day.
	KeepHourly = 24 * time.Hour
	KeepDaily  = 30 * 24 * time.Hour

	// ExpireBatch is how many snapshots must be droppable before any are: a
	// hundred reads are done for each batch.
	ExpireBatch = 50
)

// Retention says which snapshots of a table Expire keeps, beside those that
// branches and tags point to.
type Retention struct {
	Last   int           // this many of main, the newest; 0: KeepLast
	Needed []int64       // these, and all of main after them
	Keep   []int64       // these
	Grace  time.Duration // all that are younger; 0: KeepGrace
	Hourly time.Duration // the last of each past hour, for so long; 0: KeepHourly
	Daily  time.Duration // the last of each past day, for so long; 0: KeepDaily

	Dropped func() // called once the snapshots are dropped, before their files are deleted; nil: nothing
}

// Expired is what Expire did.
type Expired struct {
	Snapshots int // dropped
	Files     int // deleted with them: data files, manifests, manifest lists
}

// Expirable counts the snapshots that Expire would drop, also while they are fewer
// than it takes the trouble for.
func (l *Lake) Expirable(ctx context.Context, name string, policy Retention) (int, error) {
	t, err := l.Load(ctx, name)
	if err != nil || t.ice.Properties()[ice.GCEnabledKey] == "false" {
		return 0, err
	}
	return len(planExpiry(t.ice.Metadata(), policy, time.Now()).drop), nil
}

// Expire drops snapshots that nothing keeps and deletes the files that only they had. It tags the last
// snapshot of each past hour (smelt-hourly-2026112917) and day (smelt-daily-20261129) for as long as
// the policy says. It drops tags that start with TagPrefix when their age is over, and no others. With
// fewer than ExpireBatch snapshots to drop, or if the table's property gc.enabled is false, it does
// nothing and reads only the table's metadata. If another commit comes first, it drops nothing and
// returns no error; the next call tries again.
func (l *Lake) Expire(ctx context.Context, name string, policy Retention) (Expired, error) {
	t, err := l.Load(ctx, name)
	if err != nil {
		return Expired{}, err
	}
	p := planExpiry(t.ice.Metadata(), policy, time.Now())
	if len(p.drop) < ExpireBatch || t.ice.Properties()[ice.GCEnabledKey] == "false" {
		return Expired{}, nil
	}
	garbage, err := t.garbage(ctx, p)
	if err != nil {
		return Expired{}, fmt.Errorf("expire %s: %w", name, err)
	}
	err = l.drop(ctx, t, p)
	if errors.Is(err, ErrConflict) {
		return Expired{}, nil
	}
	if err != nil {
		return Expired{}, fmt.Errorf("expire %s: %w", name, err)
	}
	if policy.Dropped != nil {
		policy.Dropped()
	}
	done := Expired{Snapshots: len(p.drop), Files: len(garbage)}
	if err := l.remove(ctx, garbage); err != nil {
		return done, fmt.Errorf("expire %s: %w", name, err)
	}
	return done, nil
}

// drop commits the expiry. The swap from the very metadata that the plan was
// made from is what makes it safe: no commit, tag or branch came between.
func (l *Lake) drop(ctx context.Context, t *Table, p expiry) error {
	ids := make([]int64, len(p.drop))
	for i, s := range p.drop {
		ids[i] = s.SnapshotID
	}
	_, err := t.publish(ctx, t.exactly("drop snapshots of "+t.name, append(p.refs, ice.NewRemoveSnapshotsUpdate(ids, false))))
	return err
}

// expiry is what an Expire is to do.
type expiry struct {
	drop, keep []ice.Snapshot // keep: main's newest first
	refs       []ice.Update   // tags to set and to remove
}

// planExpiry decides which snapshots go.
func planExpiry(meta ice.Metadata, policy Retention, now time.Time) expiry {
	main := ice.AncestorsOf(meta.Ref().SnapshotID, meta.SnapshotByID)
	keep := map[int64]bool{}
	keepMain(keep, main, policy)
	for _, id := range policy.Keep {
		keep[id] = true
	}
	refs := planTags(meta, main, policy, now)
	for _, tag := range refs.set {
		keep[tag.snapshot] = true
	}
	keepRefs(keep, meta, main, refs.over)

	grace := cmp.Or(policy.Grace, KeepGrace)
	p := expiry{refs: refs.updates()}
	for _, s := range slices.Backward(meta.Snapshots()) {
		if keep[s.SnapshotID] || now.Sub(time.UnixMilli(s.TimestampMs)) < grace {
			p.keep = append(p.keep, s)
		} else {
			p.drop = append(p.drop, s)
		}
	}
	return p
}

// keepMain keeps the newest snapshots of main, as far back as the policy says.
func keepMain(keep map[int64]bool, main []ice.Snapshot, policy Retention) {
	last := cmp.Or(policy.Last, KeepLast)
	for _, id := range policy.Needed {
		keep[id] = true // also when it is not main's
	}
	for i, s := range main {
		if keep[s.SnapshotID] {
			last = max(last, i+1)
		}
	}
	for _, s := range main[:min(max(last, 1), len(main))] {
		keep[s.SnapshotID] = true
	}
}

// keepRefs keeps what every branch and tag points to, and of a branch that is
// not main all that main does not share.
func keepRefs(keep map[int64]bool, meta ice.Metadata, main []ice.Snapshot, over []string) {
	shared := make(map[int64]bool, len(main))
	for _, s := range main {
		shared[s.SnapshotID] = true
	}
	for name, ref := range meta.Refs() {
		if slices.Contains(over, name) {
			continue
		}
		keep[ref.SnapshotID] = true
		if ref.SnapshotRefType != ice.BranchRef {
			continue
		}
		for _, s := range ice.AncestorsOf(ref.SnapshotID, meta.SnapshotByID) {
			if shared[s.SnapshotID] {
				break
			}
			keep[s.SnapshotID] = true
		}
	}
}
