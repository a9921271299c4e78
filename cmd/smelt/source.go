package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/human"
)

// sourceCmd shows how the logs of a pipeline's partitions continue what the lake has,
// and goes on where they do not.
type sourceCmd struct {
	Show      sourceShowCmd      `cmd:"" default:"withargs" help:"Show each partition: what the lake has, what the topic holds, and whether the one continues the other."`
	AcceptGap sourceAcceptGapCmd `cmd:"" name:"accept-gap" help:"Go on after records that were deleted from the topic before they were read."`
	Switch    sourceSwitchCmd    `cmd:"" help:"Continue with the topic as it is now: re-created, of another cluster, or truncated."`
}

// sourceShowCmd shows the partitions.
type sourceShowCmd struct {
	Pipeline string `arg:"" optional:"" help:"Name of the pipeline; all without one."`
	JSON     bool   `help:"Print JSON, a line a partition."`
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
	ends, err := reader.Ends(ctx)
	if err != nil {
		return nil, err
	}
	source, err := s.describe(ctx, p, bronze.Epochs(ends))
	if err != nil {
		return nil, err
	}
	return &joints{pipeline: p, reader: reader, ends: ends, source: source, stops: bronze.Stops(p.Name, ends, source)}, nil
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

// shownPartition is a printed partition. Its keys in JSON are stable.
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

// show gathers what to print.
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
		return fmt.Sprintf("the lake has it up to %s; the topic has no such partition now", human.Number(*p.Next))
	case p.Lake == nil:
		return fmt.Sprintf("the lake has nothing of it; the topic holds %s to %s", human.Number(*p.Start), human.Number(*p.End))
	case *p.Lake != *p.Next:
		return fmt.Sprintf("the lake has it up to %s, as %s of its own; the topic holds %s to %s", human.Number(*p.Next), human.Number(*p.Lake), human.Number(*p.Start), human.Number(*p.End))
	}
	return fmt.Sprintf("the lake has it up to %s; the topic holds %s to %s", human.Number(*p.Next), human.Number(*p.Start), human.Number(*p.End))
}

// String says what was decided.
func (s shownSeam) String() string {
	what := fmt.Sprintf("a gap, %s to %s in the lake", human.Number(s.Start), human.Number(s.End))
	if s.Kind == bronze.SeamLog {
		what = fmt.Sprintf("another log from %s in the lake on, where offsets are the topic's plus %s", human.Number(s.End), human.Number(s.Base))
	}
	if s.Why != "" {
		what += fmt.Sprintf(" (%s)", s.Why)
	}
	return s.At.Format(time.DateTime) + " UTC: " + what
}
