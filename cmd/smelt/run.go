package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/ingest"
	"smelt/internal/line"
	"smelt/internal/telemetry"
	"smelt/upkeep"
)

// runCmd runs the pipelines.
type runCmd struct{}

// leastFreshness is about what one step of each stage takes.
const leastFreshness = 100 * time.Millisecond

// Run checks everything that can be checked, reports faults, and then runs all stages of all pipelines until it is stopped.
func (runCmd) Run(ctx context.Context, s *settings, io *streams) error {
	presence, err := daemonize(s.Home, "run")
	if err != nil {
		return err
	}
	defer presence.release()
	s.log = newLog(keepLog(s.logPath("run"), io.Err))
	log := s.log
	policy, err := s.policy()
	if err != nil {
		return err
	}
	if time.Duration(s.Freshness) < leastFreshness {
		return usagef("SMELT_FRESHNESS is %s: at least %s, or the stages would do nothing but commit", s.Freshness, leastFreshness)
	}
	pipelines, err := s.pipelines()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(s.tempDir("run")); err != nil { // what a killed one has left
		return err
	}
	db, err := s.openLineDuck("run")
	if err != nil {
		return err
	}
	defer db.Close()
	lake, err := s.openLake(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	parts, err := s.parts(lake, db, "run", log)
	if err != nil {
		return err
	}
	lines, err := s.openLines(ctx, pipelines, lake, parts)
	if err != nil {
		return err
	}
	defer closeLines(lines, log)

	defer tuneHeap(len(lines))()
	metrics := telemetry.New()
	schedule := new(dueTimes)
	server, err := telemetry.Serve(telemetry.Config{
		Address: s.HTTP, Token: s.HTTPToken, Metrics: metrics, Log: log,
		Pages: []telemetry.Page{{Path: maintenancePath, JSON: func() any { return schedule.all() }}},
	})
	if err != nil {
		return usageError{err}
	}
	defer server.Close()
	if err := presence.ready(server.Address()); err != nil {
		return err
	}
	log.Info("running", "pipelines", len(lines), "http", server.Address())
	return s.drive(ctx, lines, parts, policy, metrics, schedule)
}

// drive runs the lines, and what watches them, until ctx ends.
func (s *settings) drive(ctx context.Context, lines []*line.Line, parts line.Parts, policy upkeep.Policy, metrics *telemetry.Metrics, schedule *dueTimes) error {
	all := stages(lines)
	all.Freshness = time.Duration(s.Freshness)
	tally := newTally()
	all.Log = parts.Log
	all.Observe = func(stage string, p smelt.Progress, took time.Duration, err error) {
		metrics.Observe(stage, p, took, err)
		tally.observe(stage, p)
	}
	var pipelines []*smelt.Pipeline
	var healing, keeping sync.Mutex
	due, err := readDue(s.duePath())
	if err != nil {
		parts.Log.Warn("maintenance comes at times of its own", "error", err)
	}
	for _, l := range lines {
		if s.Maintain {
			for _, k := range upkeep.NewKeepers(maintenance(l.Pipeline, parts, policy), counting(metrics)) {
				k.GoOn(due)
				schedule.add(k)
				all.Keep = append(all.Keep, &inTurn{k, &keeping})
			}
		}
		if s.Heal {
			all.Mend = append(all.Mend, &inTurn{backfill.NewHealer(line.SilverConfig(l.Pipeline, parts)), &healing})
		}
		pipelines = append(pipelines, l.Pipeline)
	}
	trimmers, err := s.trimmers(pipelines, parts.Area.Store, parts.Log)
	if err != nil {
		return err
	}
	all.Keep = append(all.Keep, trimmers...)
	for _, s := range slices.Concat(all.Ingest, all.Refine, all.Refresh, all.Mend) {
		metrics.Expect(s.Name())
	}
	all.Begin = func(stage string) {
		if !slices.ContainsFunc(all.Mend, func(s smelt.Stage) bool { return s.Name() == stage }) { // which may well take long
			metrics.Begin(stage)
		}
	}
	var watchers sync.WaitGroup
	defer watchers.Wait()
	watchers.Go(func() { s.gauge(ctx, parts, pipelines, metrics, schedule) })
	watchers.Go(func() { tally.log(ctx, parts.Log) })
	if s.Maintain {
		watchers.Go(func() { noteDue(ctx, s.duePath(), schedule.all, parts.Log) })
	}
	return smelt.Run(ctx, all)
}

// inTurn is one of several stages that step one at a time. A healer takes a database lock while it holds another one. If all
// pipelines did that at once, none would get its second lock. The same holds for upkeep, which also shares DuckDB's memory with
// the stages.
type inTurn struct {
	smelt.Stage
	turn *sync.Mutex
}

// Step does nothing while another has the turn: it comes again soon. To wait would
// count as the step's own time, after four times which it may be stepped again.
func (s *inTurn) Step(ctx context.Context) (smelt.Progress, error) {
	if !s.turn.TryLock() {
		return smelt.Progress{}, nil
	}
	defer s.turn.Unlock()
	return s.Stage.Step(ctx)
}

// openLines checks the pipelines against the real source, store and database,
// and makes their stages.
func (s *settings) openLines(ctx context.Context, pipelines []*smelt.Pipeline, lake *lake, parts line.Parts) ([]*line.Line, error) {
	if err := lake.Store.Check(ctx); err != nil {
		return nil, err
	}
	cluster, err := s.cluster()
	if err != nil {
		return nil, err
	}
	var lines []*line.Line
	for _, p := range pipelines {
		l, err := openLine(ctx, p, parts, lake, cluster)
		if err != nil {
			closeLines(lines, parts.Log)
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func openLine(ctx context.Context, p *smelt.Pipeline, parts line.Parts, lake *lake, cluster ingest.Cluster) (*line.Line, error) {
	if _, err := line.Check(ctx, parts.Duck, p); err != nil {
		return nil, err
	}
	if err := lake.Database.Prepare(ctx, p.References); err != nil {
		return nil, err
	}
	if err := cluster.Check(ctx, p.Topic); err != nil {
		return nil, err
	}
	l, err := line.Open(ctx, p, parts)
	if err != nil {
		return nil, err
	}
	if err := l.Prepare(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// stages sorts the lines' stages by how they are driven.
func stages(lines []*line.Line) smelt.Line {
	var all smelt.Line
	readers := map[string][]string{}
	for _, l := range lines {
		all.Ingest = append(all.Ingest, l.Bronze)
		all.Refine = append(all.Refine, l.Silver)
		readers[l.Bronze.Name()] = []string{l.Silver.Name()}
		for _, g := range l.Gold {
			all.Refresh = append(all.Refresh, g)
			readers[l.Silver.Name()] = append(readers[l.Silver.Name()], g.Name())
		}
	}
	all.Readers = func(stage string) []string { return readers[stage] }
	return all
}

func closeLines(lines []*line.Line, log *slog.Logger) {
	for _, l := range lines {
		if err := l.Close(); err != nil {
			log.Warn("close", "pipeline", l.Pipeline.Name, "error", err)
		}
	}
}

// usagef is a mistake in how a command was called.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
