package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/human"
	"smelt/internal/ledger"
	"smelt/silver"
)

// mergeEvery is how often bronze is listed for objects to merge: several times per hour, which is
// the unit of merging.
const mergeEvery = 10 * time.Minute

// merging merges the small objects of a pipeline's bronze, and cleans what is in
// merged ones.
type merging struct {
	Config
	merger *bronze.Merger
}

// newMerger is the merger of a pipeline's bronze.
func newMerger(cfg Config) *bronze.Merger {
	return bronze.NewMerger(bronze.MergerConfig{
		Pipeline: cfg.Pipeline.Name, Store: cfg.Area.Store, Log: cfg.Log, Codec: cfg.Codec, Grace: cfg.Policy.BronzeGrace,
		Dir: cfg.Duck.Dir(),
	})
}

// bronzeTasks are those of bronze but for retention.
func bronzeTasks(cfg Config, merger *bronze.Merger) []Task {
	m := &merging{cfg, merger}
	name := "bronze." + cfg.Pipeline.Name
	return []Task{
		{Table: name, Kind: KindMerge, Every: mergeEvery, Plan: m.planMerge},
		{Table: name, Kind: KindClean, Every: mergeEvery, Plan: m.planClean},
	}
}

func (m *merging) plan(ctx context.Context, now time.Time) (bronze.MergePlan, error) {
	l, err := read[ledger.Silver](ctx, m.Area.Lake, silver.TableName(m.Pipeline.Name))
	if err != nil {
		return bronze.MergePlan{}, err
	}
	return m.merger.Plan(ctx, l.Position, now)
}

func (m *merging) planMerge(ctx context.Context, now time.Time) ([]Job, error) {
	plan, err := m.plan(ctx, now)
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for _, run := range plan.Runs {
		before := Size{run.Objects, run.Bytes}
		jobs = append(jobs, Job{
			Table: "bronze." + m.Pipeline.Name, Kind: KindMerge, What: run.String(), Before: before, After: Size{1, run.Bytes},
			Run: func(ctx context.Context) (Done, error) {
				o, err := m.merger.Merge(ctx, run)
				if errors.Is(err, smelt.ErrNotFound) {
					return Done{Lost: "others have merged the objects"}, nil
				}
				return Done{Before: before, After: Size{1, o.Size}}, err
			},
		})
	}
	return jobs, nil
}

func (m *merging) planClean(ctx context.Context, now time.Time) ([]Job, error) {
	plan, err := m.plan(ctx, now)
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for _, l := range plan.Leftovers {
		before := Size{len(l.Keys), l.Bytes}
		jobs = append(jobs, Job{
			Table: "bronze." + m.Pipeline.Name, Kind: KindClean, Before: before,
			What: fmt.Sprintf("partition %d: %s in a merged one", l.Partition, human.Count(int64(len(l.Keys)), "object")),
			Run: func(ctx context.Context) (Done, error) {
				err := m.merger.Clean(ctx, l)
				if errors.Is(err, smelt.ErrNotFound) {
					return Done{Lost: "others have merged the objects"}, nil
				}
				return Done{Before: before}, err
			},
		})
	}
	return jobs, nil
}
