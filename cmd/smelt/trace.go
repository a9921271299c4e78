package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"smelt/inspect"
	"smelt/internal/staging"
	"smelt/internal/store"
)

// traceCmd follows one record.
type traceCmd struct {
	JSON     bool    `help:"Print JSON."`
	Pipeline string  `arg:"" help:"Name of the pipeline."`
	Record   lineage `arg:"" placeholder:"PARTITION:OFFSET" help:"Lineage of the record, such as 0:17."`
}

// lineage is the place of a record: its partition and offset.
type lineage struct {
	partition int32
	offset    int64
}

// UnmarshalText reads PARTITION:OFFSET.
func (l *lineage) UnmarshalText(text []byte) error {
	partition, offset, _ := strings.Cut(string(text), ":")
	p, err := strconv.ParseUint(partition, 10, 31)
	o, err2 := strconv.ParseUint(offset, 10, 63)
	if err != nil || err2 != nil {
		return fmt.Errorf("%q is not PARTITION:OFFSET, such as 0:17", text)
	}
	*l = lineage{int32(p), int64(o)}
	return nil
}

// Run prints where the record is, and what has become of it.
func (c traceCmd) Run(ctx context.Context, s *settings, io *streams) (err error) {
	pipelines, err := s.named([]string{c.Pipeline})
	if err != nil {
		return err
	}
	lake, err := s.openReader(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	name := fmt.Sprintf("trace-%d", os.Getpid()) // a folder of its own: a cache belongs to one process
	db, err := s.openDuck(name)
	if err != nil {
		return err
	}
	dir := s.tempDir(name)
	defer func() { err = errors.Join(err, db.Close(), os.RemoveAll(dir)) }()
	cache, err := store.NewCache(lake.Store, filepath.Join(dir, "cache"), int64(s.Cache))
	if err != nil {
		return err
	}
	tracer := inspect.Tracer{Area: staging.Area{Store: lake.Store, Lake: lake.Tables, Cache: cache}, Duck: db}
	trace, err := tracer.Trace(ctx, pipelines[0], c.Record.partition, c.Record.offset)
	if errors.Is(err, inspect.ErrNoRecord) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if !c.JSON {
		_, err = fmt.Fprint(io.Out, trace.Text(colours(io.Out)))
		return err
	}
	out := json.NewEncoder(io.Out)
	out.SetEscapeHTML(false) // the record is printed unchanged
	return out.Encode(trace)
}
