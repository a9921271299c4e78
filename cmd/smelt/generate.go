package main

import (
	"context"
	"time"

	"smelt"
	"smelt/ingest"
)

// generateCmd sends the demo's readings.
type generateCmd struct {
	Topic      string        `default:"sensor.readings" help:"Topic; it is made when it is missing."`
	Partitions int32         `default:"3" help:"Partitions of a topic that is made."`
	Rate       float64       `default:"3" help:"Readings a second, of the three sensors together."`
	Count      int64         `help:"End after so many; 0 never ends."`
	Mess       float64       `default:"0.01" help:"Share of readings that are late or malformed."`
	History    time.Duration `default:"3h" help:"History that a topic gets that is made."`
	Seed       uint64        `default:"1" help:"Same seed, same readings."`
}

// Run sends until it is stopped.
func (c *generateCmd) Run(ctx context.Context, s *settings, io *streams) error {
	switch {
	case c.Rate <= 0:
		return usagef("--rate %v: it must be above 0", c.Rate)
	case c.Mess < 0 || c.Mess > 1:
		return usagef("--mess %v: it must lie between 0 and 1", c.Mess)
	case c.Partitions < 1:
		return usagef("--partitions %d: there must be at least one", c.Partitions)
	case c.Count < 0:
		return usagef("--count %d: it must not be negative", c.Count)
	}
	cluster, err := s.cluster()
	if err != nil {
		return err
	}
	log := io.Err
	if c.Count == 0 { // with a count it ends, so it is not a daemon
		presence, err := daemonize(s.Home, "generate")
		if err != nil {
			return err
		}
		defer presence.release()
		log = keepLog(s.logPath("generate"), log)
		if err := presence.ready(""); err != nil {
			return err
		}
	}
	return smelt.Mark(smelt.ErrSource, ingest.Generate(ctx, ingest.GenerateConfig{
		Cluster: cluster, Topic: c.Topic, Partitions: c.Partitions, Rate: c.Rate, Mess: c.Mess,
		Seed: c.Seed, Count: c.Count, History: c.History, Log: newLog(log),
	}))
}
