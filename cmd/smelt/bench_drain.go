//go:build bench

package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"smelt"
	"smelt/gold"
	"smelt/ingest"
	"smelt/internal/ledger"
	"smelt/internal/line"
	"smelt/silver"
)

// benchDrainCmd takes a backlog through the line.
type benchDrainCmd struct {
	Stepwise bool `help:"One stage after the other, to tell their CPU apart."`
}

// backlog is what waits in a pipeline's topic, and who takes it.
type backlog struct {
	line    *line.Line
	parts   line.Parts
	waiting int64
	bytes   atomic.Int64 // of the values that the source has delivered
}

// Run measures until everything that waits is in gold, and counts what is there.
func (c *benchDrainCmd) Run(ctx context.Context, s *settings, io *streams, bench *benchCmd) error {
	pipelines, err := s.pipelines()
	if err != nil {
		return err
	}
	db, err := s.openLineDuck("bench")
	if err != nil {
		return err
	}
	defer db.Close()
	lake, err := s.openLake(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	log := newLog(io.Err)
	b := new(backlog)
	if b.parts, err = s.parts(lake, db, "bench", log); err != nil {
		return err
	}
	open := b.parts.Source
	b.parts.Source = func(ctx context.Context, p *smelt.Pipeline, resume smelt.Resume) (smelt.Source, error) {
		source, err := open(ctx, p, resume)
		return &weighed{source, &b.bytes}, err
	}
	lines, err := s.openLines(ctx, pipelines[:1], lake, b.parts)
	if err != nil {
		return err
	}
	defer closeLines(lines, log)
	defer tuneHeap(len(lines))()
	b.line = lines[0]
	if b.waiting, err = s.waiting(ctx, b.line.Pipeline); err != nil {
		return err
	}
	take := b.together
	if c.Stepwise {
		take = b.stepwise
	}
	samples, err := take(ctx)
	if err != nil {
		return err
	}
	if err := b.count(ctx); err != nil {
		return err
	}
	return bench.Samples.record(io.Out, samples...)
}

// weighed is a source that counts the bytes that it delivers.
type weighed struct {
	smelt.Source
	bytes *atomic.Int64
}

// Poll adds up the values of the records.
func (w *weighed) Poll(ctx context.Context, max int) ([]smelt.Record, error) {
	records, err := w.Source.Poll(ctx, max)
	n := 0
	for i := range records {
		n += len(records[i].Value)
	}
	w.bytes.Add(int64(n))
	return records, err
}

// waiting counts the records in a pipeline's topic.
func (s *settings) waiting(ctx context.Context, p *smelt.Pipeline) (n int64, err error) {
	cluster, err := s.cluster()
	if err != nil {
		return 0, err
	}
	d, err := ingest.DescribeTopic(ctx, cluster, p.Topic, nil)
	for _, e := range d.Partitions {
		n += e.End - e.Start
	}
	return n, err
}

// together runs the line as in production until gold has everything.
func (b *backlog) together(ctx context.Context) (samples []benchSample, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all := stages([]*line.Line{b.line})
	all.Log = b.parts.Log
	m, err := startMeter()
	if err != nil {
		return nil, err
	}
	var once sync.Once
	var failure error
	all.Observe = func(stage string, _ smelt.Progress, _ time.Duration, err error) {
		done := false
		if err == nil && strings.HasPrefix(stage, "gold.") {
			done, err = b.drained(ctx)
		}
		if done || err != nil {
			once.Do(func() { samples, failure = m.samples("all stages", b.waiting, b.bytes.Load()), err })
			stop()
		}
	}
	err = smelt.Run(ctx, all)
	return samples, errors.Join(failure, err)
}

// drained says whether gold has been computed from all records.
func (b *backlog) drained(ctx context.Context) (bool, error) {
	p := b.line.Pipeline
	rows, err := b.parts.Area.Lake.Load(ctx, silver.TableName(p.Name))
	if err != nil {
		return false, err
	}
	have, at, _, err := ledger.Read[ledger.Silver](rows)
	if err != nil || have.Records < b.waiting {
		return false, err
	}
	for _, m := range p.Gold {
		windows, err := b.parts.Area.Lake.Load(ctx, gold.TableName(p.Name, m.Name))
		if err != nil {
			return false, err
		}
		if computed, _, _, err := ledger.Read[ledger.Gold](windows); err != nil || computed.SilverSnapshot != at.ID {
			return false, err
		}
	}
	return true, nil
}

// stepwise takes everything through one stage, then the next.
func (b *backlog) stepwise(ctx context.Context) (samples []benchSample, err error) {
	stages := []smelt.Stage{b.line.Bronze, b.line.Silver}
	for _, g := range b.line.Gold {
		stages = append(stages, g)
	}
	for i, s := range stages {
		m, err := startMeter()
		if err != nil {
			return nil, err
		}
		for done, idle := int64(0), false; !idle; {
			p, err := s.Step(ctx)
			if err != nil {
				return nil, err
			}
			done += p.Records
			idle = !p.More && (i > 0 || done >= b.waiting)
		}
		samples = append(samples, m.samples(s.Name(), b.waiting, b.bytes.Load())...)
	}
	return samples, nil
}
