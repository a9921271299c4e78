package main

import (
	"context"
	"errors"
	stdio "io"

	"smelt"
	"smelt/backfill"
	"smelt/inspect"
	"smelt/internal/line"
	"smelt/internal/table"
	"smelt/silver"
)

// counter counts the rows of a pipeline that were enriched with older versions of
// references.
type counter func(context.Context, *smelt.Pipeline, *table.Table) ([]inspect.Stale, error)

// newCounter makes a counter for some pipelines. open gives what silver is read
// with, when there is something to be read.
func newCounter(pipelines []*smelt.Pipeline, references smelt.References, open func(*smelt.Pipeline) (silver.Config, error)) counter {
	each := map[string]*backfill.Stale{}
	for _, p := range pipelines {
		each[p.Name] = backfill.NewStale(p, references, func(context.Context) (silver.Config, error) { return open(p) })
	}
	return func(ctx context.Context, p *smelt.Pipeline, t *table.Table) ([]inspect.Stale, error) {
		found, err := each[p.Name].Count(ctx, t)
		if err != nil {
			return nil, err
		}
		stale := make([]inspect.Stale, len(found))
		for i, f := range found {
			stale[i] = inspect.Stale(f)
		}
		return stale, nil
	}
}

// silverReader is what a command reads silver with that seldom has to: it opens a
// DuckDB, and folders of its own, when it is first asked.
type silverReader struct {
	settings *settings
	lake     *lake
	log      stdio.Writer

	opened bool
	parts  line.Parts
	close  []func() error // in the order opened
}

func (r *silverReader) open(p *smelt.Pipeline) (silver.Config, error) {
	if r.opened {
		return line.SilverConfig(p, r.parts), nil
	}
	name, done := r.settings.scratch("status")
	r.close = append(r.close, done)
	db, err := r.settings.openDuck(name)
	if err != nil {
		return silver.Config{}, err
	}
	r.close = append(r.close, db.Close)
	if r.parts, err = r.settings.parts(r.lake, db, name, newLog(r.log)); err != nil {
		return silver.Config{}, err
	}
	r.opened = true
	return line.SilverConfig(p, r.parts), nil
}

// Close closes what was opened, the last first.
func (r *silverReader) Close() error {
	var errs []error
	for ; len(r.close) > 0; r.close = r.close[:len(r.close)-1] {
		errs = append(errs, r.close[len(r.close)-1]())
	}
	return errors.Join(errs...)
}
