package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"smelt/internal/telemetry"
	"smelt/upkeep"
)

// maintenancePath is where smelt run says what maintenance comes when.
const maintenancePath = "/maintenance"

// dueTimes are the keepers of all tables, which know when what comes next.
type dueTimes struct {
	mu      sync.Mutex
	keepers []*upkeep.Keeper
}

func (d *dueTimes) add(k *upkeep.Keeper) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keepers = append(d.keepers, k)
}

// all says when each task of each table comes next.
func (d *dueTimes) all() []upkeep.Due {
	d.mu.Lock()
	defer d.mu.Unlock()
	due := []upkeep.Due{} // never null
	for _, k := range d.keepers {
		due = append(due, k.Due()...)
	}
	return due
}

// duePath is where smelt run notes the times for the next one on its state folder.
func (s *settings) duePath() string { return filepath.Join(s.Home, "run", "maintenance.json") }

// noteEvery is how often it is looked whether they have changed: less than it takes
// until one that has just begun is killed.
const noteEvery = 5 * time.Second

// noteDue keeps a file of the times until ctx ends.
func noteDue(ctx context.Context, path string, all func() []upkeep.Due, log *slog.Logger) {
	var noted []upkeep.Due
	for ended := false; ; ended = !pause(ctx, noteEvery) {
		if due := all(); !slices.Equal(due, noted) {
			noted = due // an error is reported once
			text, err := json.Marshal(due)
			if err == nil {
				err = writeFile(path, text)
			}
			if err != nil {
				log.Warn("when maintenance is due cannot be noted for the next start", "error", err)
			}
		}
		if ended {
			return
		}
	}
}

// readDue reads the times that an earlier smelt run has noted, if there was one.
func readDue(path string) (due []upkeep.Due, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &due)
	}
	if err != nil {
		return nil, fmt.Errorf("read when maintenance is due from %s: %w", path, err)
	}
	return due, nil
}

// counting tells the metrics of each piece of maintenance.
func counting(metrics *telemetry.Metrics) upkeep.Observe {
	return func(j upkeep.Job, d upkeep.Done, _ time.Duration, err error) {
		outcome, written := "done", int64(0)
		switch {
		case err != nil:
			outcome = "failed"
		case d.Lost != "":
			outcome = "lost"
		case j.Kind == upkeep.KindMerge || j.Kind == upkeep.KindCompact:
			written = d.After.Bytes
		}
		metrics.Maintained(j.Table, j.Kind, outcome, written)
	}
}

// due asks smelt run when maintenance comes next.
func (s *settings) due(ctx context.Context) (due []upkeep.Due, err error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	response, err := s.askRun(ctx, maintenancePath)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	return due, json.NewDecoder(response.Body).Decode(&due)
}
