package main

import (
	"context"
	"log/slog"
	"maps"
	"testing"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/ingest"
	"smelt/internal/store"
)

func TestTrims(t *testing.T) {
	t.Parallel()
	const stack, user = "/home/x/.smelt/stack.env", "/home/x/.smelt/smelt.env"
	for _, c := range []struct {
		name          string
		trim          bool
		from, brokers string // where the settings come from; "": the command line
		want          bool
	}{
		{"the embedded stack", true, stack, stack, true},
		{"brokers in the environment", true, stack, "SMELT_KAFKA_BROKERS", false},
		{"brokers in the user's file", true, stack, user, false},
		{"brokers on the command line", true, stack, "", false},
		{"asked for in the environment", true, "SMELT_KAFKA_TRIM", "SMELT_KAFKA_BROKERS", true},
		{"asked for on the command line", true, "", user, true},
		{"turned off", false, user, stack, false},
	} {
		s := settings{KafkaTrim: c.trim, origins: map[string]origin{}, explicit: map[string]bool{}}
		for flag, from := range map[string]string{"kafka-trim": c.from, "kafka-brokers": c.brokers} {
			if from == "" {
				s.explicit[flag] = true
			} else {
				s.origins[flag] = origin{Name: from}
			}
		}
		if got := s.trims(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestInLake(t *testing.T) {
	t.Parallel()
	objects, topic := store.NewMemory(), ingest.NewLog(2)
	take := func(pipeline string) {
		t.Helper()
		w := bronze.NewWriter(bronze.Config{
			Pipeline: pipeline, Store: objects, ID: pipeline, Log: slog.New(slog.DiscardHandler),
			Flush: time.Millisecond, RecordMax: bronze.DefaultRecordMax,
			Open: func(_ context.Context, resume smelt.Resume) (smelt.Source, error) { return topic.Open(resume), nil },
		})
		for records := int64(1); records > 0; {
			p, err := w.Step(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			records = p.Records
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	send := func(partitions ...int32) {
		for _, p := range partitions {
			topic.Append(smelt.Record{Partition: p, Value: []byte("{}")})
		}
	}
	send(0, 0)
	take("q")
	send(0, 1)
	take("p")
	source := topic.Open(nil)
	now, err := source.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, elsewhere := now, now
	other.Topic, elsewhere.Cluster = "another", "another"
	back := now
	back.Shared = map[int32]int64{0: 2, 1: 1}
	for _, c := range []struct {
		name      string
		pipelines []string
		topic     smelt.Description
		want      map[int32]int64
	}{
		{"one", []string{"p"}, now, map[int32]int64{0: 3, 1: 1}},
		{"the least of two, and what both have", []string{"p", "q"}, now, map[int32]int64{0: 2}},
		{"one that has nothing yet", []string{"p", "none"}, now, map[int32]int64{}},
		{"a topic that was made anew", []string{"p"}, other, map[int32]int64{}},
		{"another cluster", []string{"p"}, elsewhere, map[int32]int64{}},
		{"a log that has lost its end, and grown since", []string{"p"}, back, map[int32]int64{1: 1}},
	} {
		got, err := inLake(t.Context(), objects, c.pipelines, func(context.Context, map[int32]int32) (smelt.Description, error) { return c.topic, nil })
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}
