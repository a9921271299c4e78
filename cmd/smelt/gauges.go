package main

import (
	"context"
	"time"

	"smelt"
	"smelt/inspect"
	"smelt/internal/line"
	"smelt/internal/telemetry"
	"smelt/silver"
)

// gaugeEvery is how often the tables' state is read for the metrics: a few
// requests each time. After a reference has changed, files of silver are read once.
const gaugeEvery = 10 * time.Second

// gauge keeps the metrics' gauges up to date until ctx ends.
func (s *settings) gauge(ctx context.Context, parts line.Parts, pipelines []*smelt.Pipeline, metrics *telemetry.Metrics, schedule *dueTimes) {
	probe := inspect.Probe{
		Store: parts.Area.Store, Lake: parts.Area.Lake, Describe: s.describe, Group: s.processes,
		Live: func(context.Context) error { return nil },
		CountStale: newCounter(pipelines, parts.References, func(p *smelt.Pipeline) (silver.Config, error) {
			return line.SilverConfig(p, parts), nil
		}),
	}
	for {
		for _, p := range pipelines {
			status := inspect.Gather(ctx, probe, p, time.Now())
			for _, process := range status.Processes {
				if process.Name == smelt.Instance() {
					metrics.Partitions("bronze."+p.Name, len(process.Partitions))
				}
			}
			for _, stage := range status.Stages {
				metrics.Layer(stage.Table, layer(stage))
			}
			for _, t := range status.Tables {
				if t.Health != nil {
					metrics.Health(t.Table, telemetry.Health{
						Files: t.DataFiles, Deletes: t.DeleteFiles, Snapshots: int64(t.Snapshots), Manifests: int64(t.Manifests),
						Bytes: t.Bytes, MetadataBytes: t.MetadataBytes + t.ManifestBytes,
					})
				}
			}
			if status.Stopped != nil {
				metrics.Stopped(p.Name, len(status.Stopped))
			}
			if status.Unmatched != nil {
				metrics.Quality(p.Name, status.Quarantined, *status.Unmatched)
			}
			if status.Stale != nil {
				metrics.Stale(p.Name, staleRows(p, status.Stale))
			}
		}
		for _, d := range schedule.all() {
			metrics.Due(d.Table, d.Kind, d.Next)
		}
		if !pause(ctx, gaugeEvery) {
			return
		}
	}
}

// staleRows are the stale rows of each of a pipeline's references; one with too
// many files to count in is left out.
func staleRows(p *smelt.Pipeline, stale []inspect.Stale) map[string]int64 {
	rows := map[string]int64{}
	for _, r := range p.References {
		rows[r.Name] = 0
	}
	for _, s := range stale {
		if rows[s.Reference] = s.Rows; !s.Exact {
			delete(rows, s.Reference)
		}
	}
	return rows
}

// layer is what is known of a table.
func layer(s inspect.StageStatus) (l telemetry.Layer) {
	if s.LagRecords != nil {
		l.Lag, l.Known = *s.LagRecords, true
	}
	if s.LagSeconds != nil {
		l.LagSeconds = *s.LagSeconds
	}
	if s.Newest != nil {
		l.Newest = *s.Newest
	}
	return l
}
