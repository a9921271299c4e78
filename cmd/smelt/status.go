package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/ingest"
	"smelt/inspect"
)

// statusCmd shows how the pipelines are getting on.
type statusCmd struct {
	JSON     bool     `help:"Print JSON, a line a pipeline."`
	Watch    bool     `help:"Look again every second, until Ctrl-C."`
	Pipeline []string `arg:"" optional:"" help:"Names of pipelines; all by default."`
}

const (
	// watchEvery is how often a watched status is updated.
	watchEvery = time.Second
	// liveTimeout bounds the check whether smelt run is there. It usually is on this machine.
	liveTimeout = time.Second
	// describeTimeout bounds the question to Kafka, so that the rest shows soon
	// when it is down.
	describeTimeout = 4 * time.Second
	// openTimeout and lookTimeout bound how long a hanging store or database can delay status. Both usually answer in far less than a
	// second.
	openTimeout = 5 * time.Second
	lookTimeout = 15 * time.Second
)

// Run shows the status of the pipelines, once or again and again.
func (c statusCmd) Run(ctx context.Context, s *settings, io *streams) (err error) {
	pipelines, err := s.named(c.Pipeline)
	if err != nil {
		return err
	}
	objects, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	probe := inspect.Probe{Store: objects, Describe: s.describe, Live: s.live, Failing: s.failing, Group: s.processes, Heals: s.Heal, Due: s.due, CountObjects: true}
	if s.embedded() {
		probe.Restore = "./scripts/start.sh"
	}
	for {
		if probe.Lake == nil {
			open, cancel := context.WithTimeout(ctx, openTimeout)
			lake, failed := s.openReader(open)
			cancel()
			if probe.LakeError = failed; failed == nil {
				defer lake.Close() // at most once: from then on there is a lake
				reader := &silverReader{settings: s, lake: lake, log: io.Err}
				defer func() { err = errors.Join(err, reader.Close()) }()
				probe.Lake, probe.CountStale = lake.Tables, newCounter(pipelines, lake.Database, reader.open)
			}
		}
		err := c.show(ctx, probe, pipelines, io)
		if !c.Watch {
			return err
		}
		if !pause(ctx, watchEvery) {
			return nil
		}
	}
}

// show prints the status of each pipeline. The error says what could not be read.
func (c statusCmd) show(ctx context.Context, probe inspect.Probe, pipelines []*smelt.Pipeline, io *streams) error {
	var texts []string
	var errs []error
	for _, p := range pipelines {
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		status := inspect.Gather(look, probe, p, time.Now())
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, status.Err())
		if !c.JSON {
			texts = append(texts, status.Text(colours(io.Out)))
			continue
		}
		if err := json.NewEncoder(io.Out).Encode(status); err != nil {
			return err
		}
	}
	if !c.JSON && len(c.Pipeline) == 0 && probe.Lake != nil {
		text, err := unownedText(ctx, probe.Lake, pipelines)
		if errs = append(errs, err); text != "" {
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, "\n")
	if c.Watch && !c.JSON && isTerminal(io.Out) {
		text = redraw(text)
	}
	fmt.Fprint(io.Out, text)
	return errors.Join(errs...)
}

// redraw writes a text over what is on the screen, without a flicker.
func redraw(text string) string {
	const home, restOfLine, restOfScreen = "\x1b[H", "\x1b[K", "\x1b[J"
	return home + strings.ReplaceAll(text, "\n", restOfLine+"\n") + restOfScreen
}

// named are the pipelines of some names, or all.
func (s *settings) named(names []string) ([]*smelt.Pipeline, error) {
	all, err := s.pipelines()
	if err != nil || len(names) == 0 {
		return all, err
	}
	var known []string
	for _, p := range all {
		known = append(known, p.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, usageError{fmt.Errorf("there is no pipeline %q: there are %s", name, strings.Join(known, ", "))}
		}
	}
	return slices.DeleteFunc(all, func(p *smelt.Pipeline) bool { return !slices.Contains(names, p.Name) }), nil
}

// describe asks Kafka about a pipeline's topic.
func (s *settings) describe(ctx context.Context, p *smelt.Pipeline, epochs map[int32]int32) (smelt.Description, error) {
	cluster, err := s.cluster()
	if err != nil {
		return smelt.Description{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	return ingest.DescribeTopic(ctx, cluster, p.Topic, epochs)
}

// processes asks Kafka which processes share a pipeline's partitions.
func (s *settings) processes(ctx context.Context, p *smelt.Pipeline) ([]inspect.Process, error) {
	cluster, err := s.cluster()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	members, err := ingest.Members(ctx, cluster, group(p.Name), p.Topic)
	if err != nil {
		return nil, err
	}
	all := make([]inspect.Process, 0, len(members))
	for _, m := range members {
		all = append(all, inspect.Process{Name: m.Instance, Host: m.Host, Partitions: m.Partitions})
	}
	return all, nil
}

// live asks smelt run whether it is there.
func (s *settings) live(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	response, err := s.askRun(ctx, "/livez")
	if err != nil {
		return err
	}
	return response.Body.Close()
}
