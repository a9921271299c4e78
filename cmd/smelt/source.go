package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"smelt"
	"smelt/bronze"
)

// sourceCmd shows how the logs of a pipeline's partitions continue what the lake has,
// and goes on where they do not.
type sourceCmd struct {
	Show      sourceShowCmd      `cmd:"" default:"withargs" help:"Show each partition: what the lake has, what the topic holds, and whether the one continues the other."`
	AcceptGap sourceAcceptGapCmd `cmd:"" name:"accept-gap" help:"Go on after records that were deleted from the topic before they were read."`
	Switch    sourceSwitchCmd    `cmd:"" help:"Go on with the topic as it is now: re-created, of another cluster, or gone back."`
}

// sourceShowCmd shows the partitions.
type sourceShowCmd struct {
	Pipeline string `arg:"" optional:"" help:"Name of the pipeline; all without one."`
	JSON     bool   `help:"Print JSON, a line a partition."`
}

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

// joints are how a pipeline's chains and logs fit together.
type joints struct {
	pipeline *smelt.Pipeline
	reader   *bronze.Reader
	ends     map[int32]bronze.Meta
	source   smelt.Description
	stops    []*bronze.Stop
}

// joints looks at the chains, and then at the topic.
func (s *settings) joints(ctx context.Context, objects smelt.Store, p *smelt.Pipeline) (*joints, error) {
	reader := bronze.NewReader(objects, p.Name)
	ends, epochs, err := chainEnds(ctx, reader)
	if err != nil {
		return nil, err
	}
	source, err := s.describe(ctx, p, epochs)
	if err != nil {
		return nil, err
	}
	return &joints{pipeline: p, reader: reader, ends: ends, source: source, stops: bronze.Stops(p.Name, ends, source)}, nil
}

// chainEnds are the last objects of a pipeline's chains, by partition, and the epochs of
// their records.
func chainEnds(ctx context.Context, reader *bronze.Reader) (ends map[int32]bronze.Meta, epochs map[int32]int32, err error) {
	partitions, err := reader.Partitions(ctx)
	if err != nil {
		return nil, nil, err
	}
	ends, epochs = map[int32]bronze.Meta{}, map[int32]int32{}
	for _, id := range partitions {
		if ends[id], err = reader.Last(ctx, id); err != nil {
			return nil, nil, err
		}
		epochs[id] = ends[id].Epoch
	}
	return ends, epochs, nil
}

// Run shows the partitions of pipelines.
func (c sourceShowCmd) Run(ctx context.Context, s *settings, io *streams) error {
	var names []string
	if c.Pipeline != "" {
		names = []string{c.Pipeline}
	}
	pipelines, err := s.named(names)
	if err != nil {
		return err
	}
	objects, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	for _, p := range pipelines {
		j, err := s.joints(ctx, objects, p)
		if err != nil {
			return err
		}
		shown, err := j.show(ctx)
		if err != nil {
			return err
		}
		if !c.JSON {
			fmt.Fprint(io.Out, j.text(shown))
			continue
		}
		for _, partition := range shown {
			if err := json.NewEncoder(io.Out).Encode(partition); err != nil {
				return err
			}
		}
	}
	return nil
}

// shownPartition is a partition as it is shown. Its keys in JSON are stable.
type shownPartition struct {
	Pipeline  string      `json:"pipeline"`
	Partition int32       `json:"partition"`
	Lake      *int64      `json:"lake"`  // the next offset in the lake; null: it has nothing of the partition
	Next      *int64      `json:"next"`  // the same in the topic as it was read
	Start     *int64      `json:"start"` // of the topic's log; null: the topic has no such partition
	End       *int64      `json:"end"`
	Stopped   string      `json:"stopped"` // why it is not read; "" when it is
	Command   string      `json:"command"` // that accepts it
	Seams     []shownSeam `json:"seams"`
}

// shownSeam is a decision that was made earlier.
type shownSeam struct {
	Kind  bronze.SeamKind `json:"kind"`
	Start int64           `json:"start"` // offsets of the lake
	End   int64           `json:"end"`
	Base  int64           `json:"base"` // what is added to the topic's offsets from there on
	Topic string          `json:"topic"`
	At    time.Time       `json:"at"`
	Why   string          `json:"why"`
}

// show gathers what there is to show.
func (j *joints) show(ctx context.Context) (shown []shownPartition, err error) {
	ids := slices.Collect(maps.Keys(j.ends))
	for id := range j.source.Partitions {
		if _, has := j.ends[id]; !has {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		p := shownPartition{Pipeline: j.pipeline.Name, Partition: id, Seams: []shownSeam{}}
		if end, has := j.ends[id]; has {
			next := end.End - end.Base
			p.Lake, p.Next = &end.End, &next
			seams, err := j.reader.Seams(ctx, id)
			if err != nil {
				return nil, err
			}
			for _, m := range seams {
				p.Seams = append(p.Seams, shownSeam{m.Seam, m.Start, m.End, m.Base, m.Topic, m.Written.UTC(), m.Why})
			}
		}
		if log, there := j.source.Partitions[id]; there {
			p.Start, p.End = &log.Start, &log.End
		}
		if i := slices.IndexFunc(j.stops, func(s *bronze.Stop) bool { return s.Partition == id }); i >= 0 {
			p.Stopped, p.Command = j.stops[i].Wrong(), j.stops[i].Command()
		}
		shown = append(shown, p)
	}
	return shown, nil
}

// text writes a line a partition, and what is wrong with it.
func (j *joints) text(shown []shownPartition) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  topic %s, id %s, cluster %s\n", j.pipeline.Name, j.pipeline.Topic, j.source.Topic, j.source.Cluster)
	for _, p := range shown {
		fmt.Fprintf(&b, "  %d  %s\n", p.Partition, p.state())
		for _, seam := range p.Seams {
			fmt.Fprintf(&b, "     %s\n", seam)
		}
		if p.Stopped != "" {
			fmt.Fprintf(&b, "     ! stopped: %s\n       ./bin/%s\n", p.Stopped, p.Command)
		}
	}
	return b.String()
}

func (p *shownPartition) state() string {
	switch {
	case p.Start == nil:
		return fmt.Sprintf("the lake has it up to %s; the topic has no such partition now", grouped(*p.Next))
	case p.Lake == nil:
		return fmt.Sprintf("the lake has nothing of it; the topic holds %s to %s", grouped(*p.Start), grouped(*p.End))
	case *p.Lake != *p.Next:
		return fmt.Sprintf("the lake has it up to %s, as %s of its own; the topic holds %s to %s", grouped(*p.Next), grouped(*p.Lake), grouped(*p.Start), grouped(*p.End))
	}
	return fmt.Sprintf("the lake has it up to %s; the topic holds %s to %s", grouped(*p.Next), grouped(*p.Start), grouped(*p.End))
}

// String says what was decided.
func (s shownSeam) String() string {
	what := fmt.Sprintf("a gap, %s to %s in the lake", grouped(s.Start), grouped(s.End))
	if s.Kind == bronze.SeamLog {
		what = fmt.Sprintf("another log from %s in the lake on, where offsets are the topic's plus %s", grouped(s.End), grouped(s.Base))
	}
	if s.Why != "" {
		what += fmt.Sprintf(" (%s)", s.Why)
	}
	return s.At.Format(time.DateTime) + " UTC: " + what
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
		return stop.From(), fmt.Sprintf("%s offsets that are gone are given up", grouped(stop.From()-stop.Next())), nil
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
		will := fmt.Sprintf("of what the topic holds %s offsets are to be read", grouped(log.End-from))
		switch first := stop.From(); {
		case from > first:
			will += fmt.Sprintf(", and %s are left out", grouped(from-first))
		case from < first:
			will += fmt.Sprintf(", of which the lake may have %s already", grouped(first-from))
		}
		return from, will, nil
	})
}

// from is where to go on, by the log's offsets.
func (c sourceSwitchCmd) from(stop *bronze.Stop, log smelt.Extent) (int64, error) {
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
		fmt.Fprintf(io.Out, "partition %d: %s\n  it goes on at %s: %s\n", stop.Partition, stop.Wrong(), grouped(from[i]), will)
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
		fmt.Fprintf(io.Out, "partition %d goes on: offset %s of the topic is %s in the lake\n", stop.Partition, grouped(from[i]), grouped(from[i]+seam.Base))
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

// otherwise says what there is when there is nothing to accept.
func (j *joints) otherwise() string {
	if len(j.stops) == 0 {
		return "every partition goes on where the lake is."
	}
	return fmt.Sprintf("partition %d is stopped for another reason, which ./bin/%s accepts.", j.stops[0].Partition, j.stops[0].Command())
}
