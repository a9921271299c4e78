package main

import (
	"context"
	"time"

	"smelt"
	"smelt/internal/audit"
	"smelt/internal/telemetry"
)

// gaugeEvery is how often the tables' state is read for the metrics: a few
// requests each time.
const gaugeEvery = 10 * time.Second

// gauge keeps the metrics' gauges up to date until ctx ends.
func (s *settings) gauge(ctx context.Context, l *lake, pipelines []*smelt.Pipeline, metrics *telemetry.Metrics) {
	probe := audit.Probe{
		Store: l.Store, Lake: l.Tables, Describe: s.describe,
		Live: func(context.Context) error { return nil },
	}
	for {
		for _, p := range pipelines {
			status := audit.Gather(ctx, probe, p, time.Now())
			for _, stage := range status.Stages {
				metrics.Layer(stage.Table, layer(stage))
			}
			if status.Unmatched != nil {
				metrics.Quality(p.Name, status.Quarantined, *status.Unmatched)
			}
		}
		if !pause(ctx, gaugeEvery) {
			return
		}
	}
}

// layer is what is known of a table.
func layer(s audit.StageStatus) (l telemetry.Layer) {
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
