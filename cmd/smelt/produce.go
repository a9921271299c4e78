package main

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"os"

	"github.com/schollz/progressbar/v3"

	"smelt"
	"smelt/ingest"
)

// produceCmd sends lines as records.
type produceCmd struct {
	Topic      string `required:"" placeholder:"NAME" help:"Topic."`
	Partitions int32  `default:"0" help:"Make the topic when it is missing, with so many partitions; 0 does not."`
}

// Run sends standard input, a line a record, and says how many it sent.
func (c *produceCmd) Run(ctx context.Context, s *settings, io *streams) error {
	if c.Partitions < 0 {
		return usagef("--partitions %d: it must not be negative", c.Partitions)
	}
	cluster, err := s.cluster()
	if err != nil {
		return err
	}
	if c.Partitions > 0 {
		if err := ingest.EnsureTopic(ctx, cluster, c.Topic, c.Partitions); err != nil {
			return smelt.Mark(smelt.ErrSource, err)
		}
	}
	progress, done := produced(io)
	n, err := ingest.Produce(ctx, cluster, c.Topic, untilDone(ctx, io.In), progress)
	done()
	if errors.Is(err, errInterrupted) {
		return err
	}
	if err != nil {
		return smelt.Mark(smelt.ErrSource, err)
	}
	fmt.Fprintf(io.Err, "%d records sent to %s\n", n, c.Topic)
	return nil
}

// produced gives a progress bar on a terminal, and nothing elsewhere.
func produced(io *streams) (progress func(records, bytes int64), done func()) {
	if !isTerminal(io.Err) {
		return func(int64, int64) {}, func() {}
	}
	bar := progressbar.NewOptions64(size(io.In), progressbar.OptionSetWriter(io.Err),
		progressbar.OptionShowBytes(true), progressbar.OptionSetDescription("sending"), progressbar.OptionClearOnFinish())
	return func(_, bytes int64) { _ = bar.Set64(bytes) }, func() { _ = bar.Finish() }
}

// size is how long an input is; -1 when only its end will tell.
func size(r stdio.Reader) int64 {
	f, ok := r.(*os.File)
	if !ok {
		return -1
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}
