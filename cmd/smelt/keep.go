package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"smelt/internal/maintain"
	"smelt/internal/telemetry"
)

// maintenancePath is where smelt run says what maintenance comes when.
const maintenancePath = "/maintenance"

// dueTimes are the keepers of all tables, which know when what comes next.
type dueTimes struct {
	mu      sync.Mutex
	keepers []*maintain.Keeper
}

func (d *dueTimes) add(k *maintain.Keeper) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keepers = append(d.keepers, k)
}

// all says when each task of each table comes next.
func (d *dueTimes) all() []maintain.Due {
	d.mu.Lock()
	defer d.mu.Unlock()
	due := []maintain.Due{} // never null
	for _, k := range d.keepers {
		due = append(due, k.Due()...)
	}
	return due
}

// counting tells the metrics of each piece of maintenance.
func counting(metrics *telemetry.Metrics) maintain.Observe {
	return func(j maintain.Job, d maintain.Done, _ time.Duration, err error) {
		outcome, written := "done", int64(0)
		switch {
		case err != nil:
			outcome = "failed"
		case d.Lost != "":
			outcome = "lost"
		case j.Kind == maintain.KindMerge || j.Kind == maintain.KindCompact:
			written = d.After.Bytes
		}
		metrics.Maintained(j.Table, j.Kind, outcome, written)
	}
}

// due asks smelt run when maintenance comes next.
func (s *settings) due(ctx context.Context) (due []maintain.Due, err error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	response, err := s.askRun(ctx, maintenancePath)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	return due, json.NewDecoder(response.Body).Decode(&due)
}
