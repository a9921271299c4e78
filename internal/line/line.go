// Package line wires the stages of one pipeline together: the same way for the
// running system, for a pipeline's own test and for the simulation.
package line

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/silver"
)

// Parts are what a line is made of.
type Parts struct {
	Area       staging.Area
	Duck       *duck.DB
	References smelt.References
	Locker     smelt.Locker
	Log        *slog.Logger

	// Source opens a pipeline's source.
	Source func(context.Context, *smelt.Pipeline, smelt.Resume) (smelt.Source, error)

	Flush      time.Duration // of bronze; its default when zero
	RecordMax  int           // bytes; bronze's default when zero
	Codec      bronze.Codec
	ListEvery  time.Duration // how often silver lists bronze; 0: at each step
	BatchBytes int           // of events that silver works on at once; its default when zero
}

// Line is the stages of one pipeline.
type Line struct {
	Pipeline *smelt.Pipeline
	Bronze   *bronze.Writer
	Silver   *silver.Stage
	Gold     []*gold.Stage
}

// Open makes the stages. Nothing is read or written before their first steps.
func Open(ctx context.Context, p *smelt.Pipeline, parts Parts) (*Line, error) {
	if parts.RecordMax == 0 {
		parts.RecordMax = bronze.DefaultRecordMax
	}
	l := &Line{Pipeline: p, Bronze: bronze.NewWriter(bronze.Config{
		Pipeline: p.Name,
		Store:    parts.Area.Store,
		Open: func(ctx context.Context, resume smelt.Resume) (smelt.Source, error) {
			return parts.Source(ctx, p, resume)
		},
		ID: newID(), Log: parts.Log, Flush: parts.Flush, RecordMax: parts.RecordMax, Codec: parts.Codec,
	})}
	var err error
	if l.Silver, err = silver.Open(ctx, SilverConfig(p, parts)); err != nil {
		return nil, errors.Join(err, l.Bronze.Close())
	}
	if l.Gold, err = OpenGold(ctx, p, parts); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// SilverConfig is the configuration of a pipeline's silver stage, and of everything that replays its records.
func SilverConfig(p *smelt.Pipeline, parts Parts) silver.Config {
	return silver.Config{
		Pipeline: p, Bronze: bronze.NewReader(parts.Area.Store, p.Name), Area: parts.Area, Duck: parts.Duck,
		References: parts.References, Locker: parts.Locker, Log: parts.Log,
		Codec: parts.Codec, ListEvery: parts.ListEvery, BatchBytes: parts.BatchBytes,
	}
}

// OpenGold makes the gold stages of a pipeline, in the order declared.
func OpenGold(ctx context.Context, p *smelt.Pipeline, parts Parts) ([]*gold.Stage, error) {
	var stages []*gold.Stage
	for _, m := range p.Gold {
		g, err := gold.Open(ctx, gold.Config{
			Pipeline: p, Model: m, Area: parts.Area, Duck: parts.Duck, Locker: parts.Locker, Log: parts.Log,
		})
		if err != nil {
			return nil, errors.Join(err, CloseGold(stages))
		}
		stages = append(stages, g)
	}
	return stages, nil
}

// CloseGold closes gold stages.
func CloseGold(stages []*gold.Stage) error {
	var errs []error
	for _, g := range stages {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// Prepare creates or evolves the tables, and reports faults of the pipeline's SQL and its current references.
func (l *Line) Prepare(ctx context.Context) error {
	if err := l.Silver.Prepare(ctx); err != nil {
		return err
	}
	var errs []error // of all models
	for _, g := range l.Gold {
		errs = append(errs, g.Prepare(ctx))
	}
	return errors.Join(errs...)
}

// Close closes the stages, the last one first.
func (l *Line) Close() error {
	return errors.Join(CloseGold(l.Gold), l.Silver.Close(), l.Bronze.Close())
}

// newID is 128 random bits: no two processes ever share it.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
