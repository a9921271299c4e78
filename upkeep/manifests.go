package upkeep

import (
	"context"
	"errors"
	"time"

	"smelt"
	"smelt/internal/human"
	"smelt/internal/table"
)

// manifestsEvery is how often a table's manifests are looked at: they come a few an
// hour.
const manifestsEvery = time.Hour

// lister rewrites the manifests of a table.
type lister struct {
	Config
	table, lock string
}

// manifests is the task that rewrites the manifests of a table when there are too many. Writers of the
// table hold a lock when they commit.
func manifests(cfg Config, name, lock string) Task {
	l := &lister{cfg, name, lock}
	return Task{Table: name, Kind: KindManifests, Every: manifestsEvery, Plan: l.plan}
}

func (l *lister) plan(ctx context.Context, _ time.Time) ([]Job, error) {
	t, err := l.Area.Lake.Load(ctx, l.table)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := t.Health(ctx)
	if err != nil || !h.Scattered() {
		return nil, err
	}
	return []Job{{
		Table: l.table, Kind: KindManifests, Before: manifestSize(h), After: Size{h.NeededManifests(), h.ManifestBytes},
		What: human.Count(int64(h.Manifests), "manifest") + " of " + human.Count(h.DataFiles, "file"),
		Run:  l.run,
	}}, nil
}

func (l *lister) run(ctx context.Context) (done Done, err error) {
	unlock, err := l.Locker.Lock(ctx, l.lock)
	if err != nil {
		return Done{}, err
	}
	defer unlock()
	t, err := l.Area.Lake.Load(ctx, l.table)
	if err != nil {
		return Done{}, err
	}
	before, err := t.Health(ctx)
	if err != nil {
		return Done{}, err
	}
	if !before.Scattered() {
		return Done{Lost: "others have rewritten them"}, nil
	}
	next, err := t.RewriteManifests(ctx)
	if errors.Is(err, table.ErrConflict) {
		return Done{Lost: "another engine has committed"}, nil
	}
	if err != nil {
		return Done{}, err
	}
	after, err := next.Health(ctx)
	return Done{Before: manifestSize(before), After: manifestSize(after)}, err
}

func manifestSize(h table.Health) Size { return Size{h.Manifests, h.ManifestBytes} }
