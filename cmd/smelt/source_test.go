package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt"
	"smelt/bronze"
	"smelt/ingest"
	"smelt/internal/store"
)

const sourceTopic = "sensor.readings"

// ingesting is a topic of a broker, and a writer that takes it into a lake.
type ingesting struct {
	*testing.T
	broker   *kfake.Cluster
	settings *settings
	lake     smelt.Store
	writer   *bronze.Writer
}

func newIngesting(t *testing.T) *ingesting {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, sourceTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return &ingesting{T: t, broker: broker, settings: &settings{KafkaBrokers: broker.ListenAddrs(), Codec: "zstd"}, lake: store.NewMemory()}
}

// start starts a writer, as smelt run does.
func (in *ingesting) start() {
	in.writer = bronze.NewWriter(bronze.Config{
		Pipeline: "sensors", Store: in.lake, Log: slog.New(slog.DiscardHandler), Flush: 20 * time.Millisecond,
		Open: func(ctx context.Context, resume smelt.Resume) (smelt.Source, error) {
			return ingest.OpenKafka(ctx, ingest.KafkaConfig{Cluster: ingest.Cluster{Brokers: in.settings.KafkaBrokers}, Topic: sourceTopic, Group: "smelt-sensors", Resume: resume})
		},
	})
	in.Cleanup(func() { in.writer.Close() })
}

// send sends some records to a partition; their values tell them apart.
func (in *ingesting) send(partition int32, values ...string) {
	in.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(in.settings.KafkaBrokers...), kgo.DefaultProduceTopic(sourceTopic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		in.Fatal(err)
	}
	defer client.Close()
	for _, value := range values {
		if err := client.ProduceSync(in.Context(), &kgo.Record{Partition: partition, Value: fmt.Appendf(nil, "%q", value)}).FirstErr(); err != nil {
			in.Fatal(err)
		}
	}
}

// await steps the writer until a partition of the lake ends with a value, and wants to
// hear that partitions are stopped, or not.
func (in *ingesting) await(partition int32, value string, stopped bool) {
	in.Helper()
	ctx, cancel := context.WithTimeout(in.Context(), time.Minute)
	defer cancel()
	for {
		_, err := in.writer.Step(ctx)
		if err != nil && !errors.Is(err, smelt.ErrStopped) || ctx.Err() != nil {
			in.Fatalf("%s does not come: %v", value, err)
		}
		records := in.records(partition)
		if len(records) > 0 && strings.HasSuffix(records[len(records)-1], value) && errors.Is(err, smelt.ErrStopped) == stopped {
			return
		}
	}
}

// records are a partition's in the lake, each as its offset and value.
func (in *ingesting) records(partition int32) (out []string) {
	in.Helper()
	reader := bronze.NewReader(in.lake, "sensors")
	refs, err := reader.Cover(in.Context(), partition)
	for _, ref := range refs {
		_, failed := reader.Lines(in.Context(), ref, func(b []byte) error {
			line, err := bronze.Decode(b)
			out = append(out, fmt.Sprintf("%d %s", line.Record.Offset, strings.Trim(string(line.Record.Value), `"`)))
			return err
		})
		err = errors.Join(err, failed)
	}
	if err != nil {
		in.Fatal(err)
	}
	return out
}

// show is what smelt source says, without ids and times.
func (in *ingesting) show() string {
	in.Helper()
	pipelines, err := in.settings.named([]string{"sensors"})
	if err != nil {
		in.Fatal(err)
	}
	j, err := in.settings.joints(in.Context(), in.lake, pipelines[0])
	if err != nil {
		in.Fatal(err)
	}
	shown, err := j.show(in.Context())
	if err != nil {
		in.Fatal(err)
	}
	return ids.ReplaceAllString(j.text(shown), "")
}

var ids = regexp.MustCompile(`, id \S+, cluster \S+|topic [A-Za-z0-9+/_=-]{22,},? |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: `)

// decide runs a command, and returns what it says.
func (in *ingesting) decide(run func(context.Context, *settings, smelt.Store, *streams) error) string {
	in.Helper()
	var out strings.Builder
	if err := run(in.Context(), in.settings, in.lake, &streams{Out: &out, Err: &out}); err != nil {
		in.Fatal(err)
	}
	return ids.ReplaceAllString(out.String(), "")
}

func (in *ingesting) same(what, got, want string) {
	in.Helper()
	if got != want {
		in.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// TestSource follows a topic whose records are deleted before they are read, and that
// is then re-created.
func TestSource(t *testing.T) {
	t.Parallel()
	in := newIngesting(t)
	in.start()
	in.send(0, "a", "b")
	in.send(1, "A")
	in.await(0, "b", false)
	in.await(1, "A", false)
	if err := in.writer.Close(); err != nil {
		t.Fatal(err)
	}

	in.send(0, "c", "d", "e")
	in.send(1, "B")
	if err := in.broker.DeleteRecords(sourceTopic, 0, 4); err != nil {
		t.Fatal(err)
	}
	in.start()
	in.await(1, "B", true) // the other partition goes on
	in.same("a gap", in.show(), `sensors  topic sensor.readings
  0  the lake has it up to 2; the topic holds 4 to 5
     ! stopped: the lake goes on at offset 2, but the log begins at 4: what is in between was deleted before it was read
       ./bin/smelt source accept-gap sensors
  1  the lake has it up to 2; the topic holds 0 to 2
`)
	accept := sourceAcceptGapCmd{decision{Pipeline: "sensors", Why: "retention", Yes: true}}
	in.same("the wrong decision", in.decide(sourceSwitchCmd{decision: accept.decision}.run),
		"There is nothing to accept: partition 0 is stopped for another reason, which ./bin/smelt source accept-gap sensors accepts.\n")
	in.same("accept", in.decide(accept.run), `partition 0: the lake goes on at offset 2, but the log begins at 4: what is in between was deleted before it was read
  it goes on at 4: 2 deleted offsets are given up
partition 0 goes on: offset 4 of the topic is 4 in the lake
smelt run goes on within some seconds.
`)
	in.await(0, "e", false)
	in.same("accept again", in.decide(accept.run), "There is nothing to accept: every partition goes on where the lake is.\n")
	if err := in.writer.Close(); err != nil {
		t.Fatal(err)
	}

	if err := errors.Join(in.broker.DeleteTopic(sourceTopic), in.broker.CreateTopic(sourceTopic, 2, nil)); err != nil {
		t.Fatal(err)
	}
	in.send(0, "f", "g")
	in.start() // a client that runs takes ten seconds to believe it
	in.await(0, "e", true)
	in.same("switch", in.decide(sourceSwitchCmd{decision: decision{Pipeline: "sensors", Yes: true}}.run), `partition 0: the lake was filled from up to offset 5, but this is which holds 0 to 2: it was deleted and re-created
  it goes on at 0: of the topic, 2 offsets will be read
partition 1: the lake was filled from up to offset 2, but this is which holds 0 to 0: it was deleted and re-created
  it goes on at 0: of the topic, 0 offsets will be read
partition 0 goes on: offset 0 of the topic is 6 in the lake
partition 1 goes on: offset 0 of the topic is 3 in the lake
smelt run goes on within some seconds.
`)
	in.await(0, "g", false)
	in.send(1, "C")
	in.await(1, "C", false)
	if got, want := append(in.records(0), in.records(1)...), []string{"0 a", "1 b", "4 e", "6 f", "7 g", "0 A", "1 B", "3 C"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	in.same("the end", in.show(), `sensors  topic sensor.readings
  0  the lake has it up to 2, as 8 of its own; the topic holds 0 to 2
     a gap, 2 to 4 in the lake (retention)
     another log from 6 in the lake on, where offsets are the topic's plus 6
  1  the lake has it up to 1, as 4 of its own; the topic holds 0 to 1
     another log from 3 in the lake on, where offsets are the topic's plus 3
`)
}

// TestSwitchOverOpenTransaction goes on with a log that has lost its end, and with it the
// mark of a transaction that the lake has: it is open again, and nothing after it can be
// read. What the log still shares with the lake is not read again.
func TestSwitchOverOpenTransaction(t *testing.T) {
	t.Parallel()
	in := newIngesting(t)
	in.send(0, "a", "b")
	writer, err := kgo.NewClient(kgo.SeedBrokers(in.settings.KafkaBrokers...), kgo.DefaultProduceTopic(sourceTopic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("open"))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := errors.Join(writer.BeginTransaction(), writer.ProduceSync(t.Context(), &kgo.Record{Value: []byte("c")}).FirstErr()); err != nil {
		t.Fatal(err)
	}
	in.send(0, "d")
	ends := map[int32]bronze.Meta{0: {End: 6}}
	source, err := ingest.DescribeTopic(t.Context(), ingest.Cluster{Brokers: in.settings.KafkaBrokers}, sourceTopic, bronze.Epochs(ends))
	if err != nil || source.Partitions[0].End != 2 {
		t.Fatalf("described as %+v, error %v", source, err)
	}
	stops := bronze.Stops("sensors", ends, source)
	if len(stops) != 1 || stops[0].Misfit != bronze.MisfitBack {
		t.Fatalf("got %v", stops)
	}
	for from, want := range map[string]int64{"": 4, "latest": 4, "4": 4, "1": 1, "earliest": 0} {
		if got, err := (sourceSwitchCmd{From: from}).from(stops[0], source.Partitions[0]); got != want || err != nil {
			t.Errorf("--from %q: got %d and error %v, want %d", from, got, err, want)
		}
	}
	if _, err := (sourceSwitchCmd{From: "5"}).from(stops[0], source.Partitions[0]); err == nil {
		t.Error("--from 5 is beyond the log's end, and no error")
	}
}
