package ingest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"smelt"
	"smelt/ingest"
)

// TestTrimmer has one partition per case; the newest 100 records of each stay.
func TestTrimmer(t *testing.T) {
	t.Parallel()
	const keep = 100
	cases := []struct {
		name   string
		extent smelt.Extent
		have   int64 // -1: the lake has nothing of the partition
		want   int64 // where its log begins afterwards
	}{
		{"all in the lake", smelt.Extent{Start: 0, End: 1000}, 1000, 900},
		{"trimmed before", smelt.Extent{Start: 850, End: 1000}, 1000, 900},
		{"trimmed already", smelt.Extent{Start: 900, End: 1000}, 1000, 900},
		{"the lake is behind", smelt.Extent{Start: 0, End: 1000}, 500, 500},
		{"the lake is at the start", smelt.Extent{Start: 500, End: 1000}, 500, 500},
		{"the lake is before the start", smelt.Extent{Start: 500, End: 1000}, 400, 500},
		{"the lake has more than there is", smelt.Extent{Start: 0, End: 1000}, 5000, 900},
		{"nothing in the lake", smelt.Extent{Start: 0, End: 1000}, -1, 0},
		{"few records", smelt.Extent{Start: 0, End: keep}, keep, 0},
		{"no records", smelt.Extent{Start: 0, End: 0}, 0, 0},
	}
	b := newBroker(t, len(cases)).withClient(t)
	have, deleted := map[int32]int64{}, int64(0)
	for i, c := range cases {
		p := int32(i)
		records := make([]smelt.Record, c.extent.End)
		for n := range records {
			records[n] = smelt.Record{Partition: p, Value: []byte("x")}
		}
		b.append(t, records...)
		if c.extent.Start > 0 {
			if err := b.DeleteRecords(topicName, p, c.extent.Start); err != nil {
				t.Fatal(err)
			}
		}
		if c.have >= 0 {
			have[p] = c.have
		}
		deleted += c.want - c.extent.Start
	}
	asked := 0
	trimmer := ingest.NewTrimmer(ingest.TrimConfig{
		Cluster: b.cluster, Topic: topicName, Log: slog.New(slog.DiscardHandler), Keep: keep,
		Have: func(ctx context.Context, describe ingest.Describe) (map[int32]int64, error) {
			d, err := describe(ctx, map[int32]int32{0: 0})
			if err != nil || d.Shared[0] != d.Partitions[0].End {
				t.Errorf("described as %+v, error %v", d, err)
			}
			if asked++; len(d.Partitions) != len(cases) || d.Topic == "" || d.Cluster == "" {
				t.Errorf("asked of %+v", d)
			}
			return have, nil
		},
	})
	for step, want := range []int64{deleted, 0} { // the second comes too soon
		p, err := trimmer.Step(t.Context())
		if err != nil || p.Records != want {
			t.Errorf("step %d: %d records and %v, want %d", step, p.Records, err, want)
		}
	}
	if asked != 1 {
		t.Errorf("the lake was asked %d times, want once", asked)
	}
	topic, err := ingest.DescribeTopic(t.Context(), b.cluster, topicName, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if got, want := topic.Partitions[int32(i)], (smelt.Extent{Start: c.want, End: c.extent.End}); got != want {
			t.Errorf("%s: the log is %+v, want %+v", c.name, got, want)
		}
	}
}

// What the lake has must be known before anything is deleted.
func TestTrimmerTrouble(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	records := make([]smelt.Record, 10)
	b.append(t, records...)
	unknown := errors.New("unknown")
	trimmer := ingest.NewTrimmer(ingest.TrimConfig{
		Cluster: b.cluster, Topic: topicName, Log: slog.New(slog.DiscardHandler), Keep: 1,
		Have: func(context.Context, ingest.Describe) (map[int32]int64, error) {
			return map[int32]int64{0: 10}, unknown
		},
	})
	if _, err := trimmer.Step(t.Context()); !errors.Is(err, unknown) {
		t.Errorf("got %v, want that it is unknown", err)
	}
	topic, err := ingest.DescribeTopic(t.Context(), b.cluster, topicName, nil)
	if err != nil || topic.Partitions[0].Start != 0 {
		t.Errorf("the log begins at %d (%v), want 0", topic.Partitions[0].Start, err)
	}
	nobody := ingest.NewTrimmer(ingest.TrimConfig{Cluster: ingest.Cluster{Brokers: []string{unusedAddress(t)}}, Topic: topicName})
	if _, err := nobody.Step(soon(t)); !errors.Is(err, smelt.ErrSource) {
		t.Errorf("without a broker: got %v, want ErrSource", err)
	}
}
