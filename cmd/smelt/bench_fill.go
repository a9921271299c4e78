//go:build bench

package main

import (
	"bufio"
	"context"
	"fmt"
	stdio "io"
	"time"

	"smelt/ingest"
)

// benchFillCmd sends events to the pipeline's topic.
type benchFillCmd struct {
	Count int64         `arg:"" help:"Events."`
	Span  time.Duration `default:"6h" help:"Of event time, up to now; the fleet's events have times of their own."`
}

const (
	benchPartitions = 4
	benchSeed       = 1

	// fleetTopic is what the pipeline of bench/pipelines/fleet reads.
	fleetTopic = "telemetry.events.v1"
)

// Run makes the topic and fills it.
func (c *benchFillCmd) Run(ctx context.Context, s *settings, io *streams) error {
	cluster, err := s.cluster()
	if err != nil {
		return err
	}
	pipelines, err := s.pipelines()
	if err != nil {
		return err
	}
	topic := pipelines[0].Topic
	if err := ingest.EnsureTopic(ctx, cluster, topic, benchPartitions); err != nil {
		return err
	}
	event := func(i int64) []byte { return fleetEvent(benchSeed, i) }
	if topic != fleetTopic {
		event = c.readings()
	}
	reader, writer := stdio.Pipe()
	go func() { writer.CloseWithError(c.write(writer, event)) }()
	n, err := ingest.Produce(ctx, cluster, topic, reader, nil)
	fmt.Fprintf(io.Err, "%d events wait in Kafka\n", n)
	return err
}

// readings makes those of the demo's sensors, spread over the span.
func (c *benchFillCmd) readings() func(i int64) []byte {
	readings := ingest.NewReadings(benchSeed, ingest.DefaultMess)
	begin := time.Now().Add(-c.Span)
	return func(i int64) []byte {
		_, value := readings.Next(begin.Add(c.Span / time.Duration(c.Count) * time.Duration(i)))
		return value
	}
}

func (c *benchFillCmd) write(w stdio.Writer, event func(i int64) []byte) error {
	lines := bufio.NewWriterSize(w, 1<<20)
	for i := range c.Count {
		lines.Write(event(i))
		if err := lines.WriteByte('\n'); err != nil {
			return err
		}
	}
	return lines.Flush()
}
