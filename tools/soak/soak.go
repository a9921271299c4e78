package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

var (
	// errDiscrepancies says that something was not as it has to be.
	errDiscrepancies = errors.New("there are discrepancies")

	errInterrupted = errors.New("interrupted")
)

// soak is one run.
type soak struct {
	options
	t          *tally
	fleet      *fleet
	s3         *s3Wire
	postgres   *streamWire
	kafka      *streamWire
	topics     *topics
	generators []*generator
	operator   *operator
	striker    *striker

	events []eventCount
	layers []layerCount
}

// eventCount is what became of a pipeline's events.
type eventCount struct {
	topic                              string
	made, acknowledged, given, inTopic int
}

// run goes through the whole of it. The state folder is deleted unless something was
// wrong.
func run(ctx context.Context, o options, out io.Writer) error {
	s := &soak{options: o, t: newTally(out)}
	s.t.say("seed %d, %s, %d pipeline processes", o.seed, o.lasting, instances)
	err := s.all(ctx)
	s.close()
	if ctx.Err() != nil {
		err = errInterrupted
	}
	if err == nil || errors.Is(err, errInterrupted) {
		err = errors.Join(err, os.RemoveAll(o.dir))
	}
	return err
}

// all starts everything, lets it loose, and tells what has come of it.
func (s *soak) all(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.storm(ctx); err != nil {
		s.t.discrepancy("%v", err)
	}
	if err := s.settle(ctx); err != nil && ctx.Err() == nil {
		s.t.discrepancy("%v", err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.print()
	if s.report != "" {
		if err := os.WriteFile(s.report, []byte(s.markdown(time.Now())), 0o644); err != nil {
			return err
		}
	}
	if s.t.wrong > 0 {
		return errDiscrepancies
	}
	return nil
}

// open starts the stack, the wires, the topics and the pipelines.
func (s *soak) open(ctx context.Context) error {
	var err error
	if s.binary, err = filepath.Abs(s.binary); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "logs"), 0o755); err != nil {
		return err
	}
	if err := writePipelines(filepath.Join(s.dir, "pipelines")); err != nil {
		return err
	}
	if err := s.prepareTools(); err != nil {
		return err
	}
	ports, err := freePorts(7 + instances)
	if err != nil {
		return err
	}
	s.fleet = &fleet{
		binary: s.binary, dir: s.dir, base: cleanEnvironment(), runHTTP: ports[7:], t: s.t,
		stackEnv: []string{
			"SMELT_KAFKA_PORT=" + portOf(ports[0]), "SMELT_S3_PORT=" + portOf(ports[1]),
			"SMELT_CONSOLE_PORT=" + portOf(ports[2]), "SMELT_POSTGRES_PORT=" + portOf(ports[3]),
		},
	}
	if err := s.fleet.startStack(ctx); err != nil {
		return err
	}
	if s.s3, err = openS3Wire(ports[4], ports[1], s.t); err != nil {
		return err
	}
	if s.postgres, err = openPostgresWire(ports[5], ports[3], s.t); err != nil {
		return err
	}
	if s.kafka, err = openKafkaWire(ports[6], ports[0], s.t); err != nil {
		return err
	}
	if s.fleet.direct, err = readSettings(filepath.Join(s.fleet.home("stack"), "stack.env")); err != nil {
		return err
	}
	s.fleet.wired = rewired(s.fleet.direct, ports[1], ports[4], ports[3], ports[5], ports[0], ports[6])
	if s.topics, err = openTopics(ports[0]); err != nil {
		return err
	}
	if err := s.topics.create(ctx); err != nil {
		return err
	}
	s.operator = &operator{fleet: s.fleet, t: s.t, rng: random(s.seed, "operator"), places: map[string]place{}, known: map[string]int64{}}
	for i := range placed {
		s.operator.locate(ctx, sensor(i), cities[i%len(cities)])
	}
	s.striker = &striker{fleet: s.fleet, topics: s.topics, t: s.t}
	for _, p := range pipelines() {
		s.generators = append(s.generators, newGenerator(p, s.topics.client))
	}
	return s.fleet.ensure(ctx)
}

// prepareTools makes the state folder of the commands, with DuckDB's extensions.
func (s *soak) prepareTools() error {
	home := filepath.Join(s.dir, "tools")
	if err := os.MkdirAll(home, 0o755); err != nil || s.extensions == "" {
		return err
	}
	extensions, err := filepath.Abs(s.extensions)
	if err != nil {
		return err
	}
	return os.Symlink(extensions, filepath.Join(home, "extensions"))
}

// storm runs all strikes and faults for the requested time.
func (s *soak) storm(ctx context.Context) error {
	s.t.say("the storm begins")
	sending, stopSending := context.WithCancel(ctx)
	defer stopSending()
	var senders, troubles sync.WaitGroup
	for _, g := range s.generators {
		senders.Go(func() { g.run(sending, s.seed) })
	}
	if _, err := s.striker.recover(ctx, time.Now()); err != nil { // the first events are in gold
		return fmt.Errorf("at the beginning: %w", err)
	}
	storm, calm := context.WithTimeout(ctx, s.lasting)
	defer calm()
	troubles.Go(func() { watch(storm, s.fleet) })
	troubles.Go(func() {
		blow(storm, random(s.seed, "weather"), []*wire{&s.s3.wire, &s.postgres.wire, &s.kafka.wire}, s.t)
	})
	troubles.Go(func() { s.operator.run(storm) })
	err := s.striker.run(storm, random(s.seed, "strikes"))
	if err != nil {
		calm()
	}
	troubles.Wait()
	stopSending()
	senders.Wait()
	return err
}

// settle brings all that was sent through, has history follow the references, and
// compares.
func (s *soak) settle(ctx context.Context) error {
	s.t.say("the storm is over: %d kills; draining", s.t.total(groupKills))
	if err := s.fleet.ensure(ctx); err != nil {
		return err
	}
	if err := s.topics.client.Flush(ctx); err != nil {
		return err
	}
	records := make([][]held, len(s.generators))
	for i, g := range s.generators {
		var err error
		if records[i], err = s.topics.read(ctx, g.pipeline); err != nil {
			return err
		}
		made, acknowledged, failed := g.counts()
		s.events = append(s.events, eventCount{g.pipeline.topic, made, acknowledged, failed, len(records[i])})
		checkTopic(g, records[i], s.t)
		if err := s.fleet.drained(ctx, g.pipeline, len(records[i]), tombstones(records[i])); err != nil {
			return err
		}
	}
	s.t.say("history follows the references")
	if err := s.operator.settle(ctx); err != nil {
		return err
	}
	_, runs := s.fleet.running()
	for _, p := range runs { // they drain: gold has everything then
		s.striker.end(p, 0)
	}
	if err := s.operator.maintain(ctx); err != nil {
		return err
	}
	s.operator.verifyDirect(ctx)
	s.t.say("every layer is compared with the truth")
	for i, g := range s.generators {
		counts, err := s.fleet.compareAll(ctx, g.pipeline, records[i], s.operator.places)
		if err != nil {
			return err
		}
		s.layers = append(s.layers, counts...)
	}
	return nil
}

// tombstones counts the records without a value.
func tombstones(records []held) (n int) {
	for _, r := range records {
		if r.value == nil {
			n++
		}
	}
	return n
}

// close ends all that was started.
func (s *soak) close() {
	if s.fleet != nil {
		s.fleet.close()
	}
	if s.topics != nil {
		s.topics.client.Close()
		s.topics = nil
	}
	if s.s3 != nil {
		s.s3.close()
	}
	if s.postgres != nil {
		s.postgres.close()
	}
	if s.kafka != nil {
		s.kafka.close()
	}
}
