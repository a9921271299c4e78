package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"smelt/inspect"
	"smelt/internal/staging"
	"smelt/internal/store"
)

// verifyCmd recounts the lake.
type verifyCmd struct {
	JSON     bool     `help:"Print JSON, a line a pipeline."`
	Pipeline []string `arg:"" optional:"" help:"Names of pipelines; all by default."`
}

// Run recounts each pipeline and prints its receipt. The error says which ones
// do not add up.
func (c verifyCmd) Run(ctx context.Context, s *settings, io *streams) (err error) {
	pipelines, err := s.named(c.Pipeline)
	if err != nil {
		return err
	}
	lake, err := s.openReader(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	// A folder of its own: others may verify at the same time, and a cache
	// belongs to one process.
	name := fmt.Sprintf("verify-%d", os.Getpid())
	db, err := s.openDuck(name)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.Home, "tmp", name)
	defer func() { err = errors.Join(err, db.Close(), os.RemoveAll(dir)) }()
	cache, err := store.NewCache(lake.Store, filepath.Join(dir, "cache"), int64(s.Cache))
	if err != nil {
		return err
	}
	verifier := inspect.Verifier{
		Area: staging.Area{Store: lake.Store, Lake: lake.Tables, Cache: cache}, Duck: db, RecordMax: int(s.RecordMax),
	}
	var errs []error
	for _, p := range pipelines {
		verdict, err := verifier.Verify(ctx, p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := c.print(io, verdict); err != nil {
			return err
		}
		errs = append(errs, verdict.Err())
	}
	return errors.Join(errs...)
}

func (c verifyCmd) print(io *streams, v inspect.Verdict) error {
	if c.JSON {
		return json.NewEncoder(io.Out).Encode(v)
	}
	fmt.Fprintf(io.Out, "%s  %s\n", v.Pipeline, v.Receipt)
	for _, m := range v.Mismatches {
		fmt.Fprintf(io.Out, "  ✗ %s\n", m.Message)
	}
	return nil
}
