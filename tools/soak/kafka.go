package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topics are the pipelines' topics on a broker that comes and goes.
type topics struct {
	brokers string
	client  *kgo.Client
	admin   *kadm.Client
}

func openTopics(brokers string) (*topics, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(100_000), // what a stop of the stack holds up
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.MetadataMinAge(time.Second),
		kgo.RetryTimeout(time.Second), // of requests other than records; the caller retries
	)
	if err != nil {
		return nil, err
	}
	return &topics{brokers, client, kadm.NewClient(client)}, nil
}

// create makes the topics.
func (t *topics) create(ctx context.Context) error {
	for _, p := range pipelines() {
		_, err := t.admin.CreateTopic(ctx, p.partitions, -1, nil, p.topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", p.topic, err)
		}
	}
	return nil
}

// ends are the offsets at which a topic's partitions end, or what a group has
// committed of them.
type ends map[int32]int64

// end asks where a topic ends.
func (t *topics) end(ctx context.Context, topic string) (ends, error) {
	listed, err := t.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	out := ends{}
	listed.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	return out, err
}

// committed asks up to where a pipeline's bronze has said that it has a topic.
func (t *topics) committed(ctx context.Context, p pipeline) (ends, error) {
	fetched, err := t.admin.FetchOffsets(ctx, "smelt-"+p.name)
	if err == nil {
		err = fetched.Error()
	}
	out := ends{}
	fetched.Each(func(o kadm.OffsetResponse) { out[o.Partition] = o.At })
	return out, err
}

// reached says whether every partition is as far as another says.
func (e ends) reached(want ends) bool {
	for p, end := range want {
		if e[p] < end {
			return false
		}
	}
	return true
}

// read reads a whole topic, as a consumer of its own.
func (t *topics) read(ctx context.Context, p pipeline) ([]held, error) {
	want, err := t.end(ctx, p.topic)
	if err != nil {
		return nil, err
	}
	from := map[string]map[int32]kgo.Offset{p.topic: {}}
	left := 0
	for partition, end := range want {
		from[p.topic][partition] = kgo.NewOffset().AtStart()
		if end > 0 {
			left++
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(t.brokers), kgo.ConsumePartitions(from))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var all []held
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read topic %s: %w", p.topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			h := held{lineage: lineage{r.Partition, r.Offset}, millis: r.Timestamp.UnixMilli(), key: string(r.Key), value: r.Value}
			for _, header := range r.Headers {
				if header.Key == kindHeader {
					h.kind = kind(header.Value)
				}
			}
			all = append(all, h)
			if r.Offset+1 == want[r.Partition] {
				left--
			}
		})
	}
	return all, nil
}
