package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"smelt"
	"smelt/bronze"
	"smelt/internal/human"
)

// sourceAcceptGapCmd accepts gaps.
type sourceAcceptGapCmd struct{ decision }

// sourceSwitchCmd accepts other logs.
type sourceSwitchCmd struct {
	decision
	From string `placeholder:"earliest|latest|OFFSET" help:"Where to go on in the topic. Without it nothing that it holds, and the lake has not, is left out."`
}

// decision is what an operator says of stopped partitions.
type decision struct {
	Pipeline   string  `arg:"" help:"Name of the pipeline."`
	Partitions []int32 `name:"partition" placeholder:"N,…" help:"Partitions; all that are stopped for this reason without it."`
	Why        string  `placeholder:"TEXT" help:"Kept in the lake, with the decision."`
	Yes        bool    `help:"Do not ask."`
}

// Run accepts gaps.
func (c sourceAcceptGapCmd) Run(ctx context.Context, s *settings, io *streams) error {
	objects, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	return c.run(ctx, s, objects, io)
}

func (c sourceAcceptGapCmd) run(ctx context.Context, s *settings, objects smelt.Store, io *streams) error {
	return c.decide(ctx, s, objects, io, []bronze.Misfit{bronze.MisfitGap}, func(stop *bronze.Stop, _ smelt.Extent) (int64, string, error) {
		return stop.From(), fmt.Sprintf("%s deleted offsets are given up", human.Number(stop.From()-stop.Next())), nil
	})
}

// Run accepts other logs.
func (c sourceSwitchCmd) Run(ctx context.Context, s *settings, io *streams) error {
	objects, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	return c.run(ctx, s, objects, io)
}

func (c sourceSwitchCmd) run(ctx context.Context, s *settings, objects smelt.Store, io *streams) error {
	return c.decide(ctx, s, objects, io, []bronze.Misfit{bronze.MisfitOther, bronze.MisfitBack}, func(stop *bronze.Stop, log smelt.Extent) (int64, string, error) {
		from, err := c.from(stop, log)
		if err != nil {
			return 0, "", err
		}
		will := fmt.Sprintf("of the topic, %s offsets will be read", human.Number(max(0, log.End-from)))
		switch first := stop.From(); {
		case from > first:
			will += fmt.Sprintf(", and %s are left out", human.Number(from-first))
		case from < first:
			will += fmt.Sprintf(", of which the lake may have %s already", human.Number(first-from))
		}
		return from, will, nil
	})
}

// from is where to continue, by the log's offsets. An open transaction may hold back the readable end to before the lake's position.
func (c sourceSwitchCmd) from(stop *bronze.Stop, log smelt.Extent) (int64, error) {
	log.End = max(log.End, stop.From())
	switch c.From {
	case "":
		return stop.From(), nil
	case "earliest":
		return log.Start, nil
	case "latest":
		return log.End, nil
	}
	from, err := strconv.ParseInt(c.From, 10, 64)
	if err != nil {
		return 0, usagef("--from %q: want earliest, latest or an offset", c.From)
	}
	if from < log.Start || from > log.End {
		return 0, usagef("--from %d: partition %d of the topic holds %d to %d", from, stop.Partition, log.Start, log.End)
	}
	return from, nil
}

// decide shows what accepting the log of stopped partitions means, asks, and does so.
func (d decision) decide(ctx context.Context, s *settings, objects smelt.Store, io *streams, of []bronze.Misfit, choose func(*bronze.Stop, smelt.Extent) (from int64, will string, err error)) error {
	if len(strconv.QuoteToASCII(d.Why)) > bronze.WhyMax {
		return usagef("--why: no more than %d characters of ASCII", bronze.WhyMax-2)
	}
	pipelines, err := s.named([]string{d.Pipeline})
	if err != nil {
		return err
	}
	j, err := s.joints(ctx, objects, pipelines[0])
	if err != nil {
		return err
	}
	stops, err := d.choose(j, of)
	if err != nil {
		return err
	}
	if len(stops) == 0 {
		_, err := fmt.Fprintf(io.Out, "There is nothing to accept: %s\n", j.otherwise())
		return err
	}
	from := make([]int64, len(stops))
	for i, stop := range stops {
		var will string
		if from[i], will, err = choose(stop, j.source.Partitions[stop.Partition]); err != nil {
			return err
		}
		fmt.Fprintf(io.Out, "partition %d: %s\n  it goes on at %s: %s\n", stop.Partition, stop.Wrong(), human.Number(from[i]), will)
	}
	if !d.Yes {
		if err := ask(ctx, io, "Go on so?"); err != nil {
			return err
		}
	}
	for i, stop := range stops {
		seam, err := bronze.Sew(ctx, objects, stop, from[i], d.Why, bronze.Codec(s.Codec))
		if errors.Is(err, bronze.ErrMoved) {
			return usageError{err}
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(io.Out, "partition %d goes on: offset %s of the topic is %s in the lake\n", stop.Partition, human.Number(from[i]), human.Number(from[i]+seam.Base))
	}
	_, err = fmt.Fprintln(io.Err, "smelt run goes on within some seconds.")
	return err
}

// choose takes the stops that the decision is about.
func (d decision) choose(j *joints, of []bronze.Misfit) (stops []*bronze.Stop, err error) {
	for _, id := range d.Partitions {
		if _, has := j.ends[id]; !has {
			return nil, usagef("the lake has nothing of partition %d of %s", id, d.Pipeline)
		}
	}
	for _, stop := range j.stops {
		if slices.Contains(of, stop.Misfit) && (len(d.Partitions) == 0 || slices.Contains(d.Partitions, stop.Partition)) {
			stops = append(stops, stop)
		}
	}
	return stops, nil
}

// otherwise reports that there is nothing to accept.
func (j *joints) otherwise() string {
	if len(j.stops) == 0 {
		return "every partition goes on where the lake is."
	}
	return fmt.Sprintf("partition %d is stopped for another reason, which ./bin/%s accepts.", j.stops[0].Partition, j.stops[0].Command())
}
