package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt"
	"smelt/ingest"
	"smelt/ingest/sourcetest"
)

const topicName = "readings"

// broker is a Kafka broker in this process.
type broker struct {
	*kfake.Cluster
	cluster ingest.Cluster
	client  *kgo.Client
}

// newBroker starts a broker on a free port, with one topic.
func newBroker(t testing.TB, partitions int, opts ...kfake.Opt) broker {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.SeedTopics(int32(partitions), topicName),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "33554432"}),
	}, opts...)...)
	if err != nil {
		t.Fatalf("start kfake: %v", err)
	}
	t.Cleanup(fake.Close)
	return broker{Cluster: fake, cluster: ingest.Cluster{Brokers: fake.ListenAddrs()}}
}

// withClient adds a client that writes to the partitions that records name.
func (b broker) withClient(t testing.TB, opts ...kgo.Opt) broker {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.ListenAddrs()...),
		kgo.DefaultProduceTopic(topicName),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(32 << 20),
	}, opts...)...)
	if err != nil {
		t.Fatalf("kafka client: %v", err)
	}
	t.Cleanup(client.Close)
	b.client = client
	return b
}

func (b broker) append(t testing.TB, records ...smelt.Record) {
	t.Helper()
	produced := make([]*kgo.Record, len(records))
	for i, r := range records {
		p := &kgo.Record{Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			p.Headers = append(p.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		produced[i] = p
	}
	if err := b.client.ProduceSync(deadline(t), produced...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// abort writes a record in a transaction that is then aborted.
func (b broker) abort(t testing.TB, partition int32) {
	t.Helper()
	writer := b.withClient(t, kgo.TransactionalID(fmt.Sprintf("%s-%d", t.Name(), partition))).client
	if err := writer.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	record := &kgo.Record{Partition: partition, Value: []byte("aborted")}
	if err := writer.ProduceSync(deadline(t), record).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
	if err := writer.EndTransaction(deadline(t), kgo.TryAbort); err != nil {
		t.Fatalf("abort: %v", err)
	}
}

// open opens the topic as a source that goes on at next.
func (b broker) open(t testing.TB, resume smelt.Resume) *ingest.Kafka {
	t.Helper()
	source, err := ingest.OpenKafka(deadline(t), ingest.KafkaConfig{
		Cluster: b.cluster, Topic: topicName, Group: "smelt", Resume: resume,
	})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return source
}

func (b broker) committed(t testing.TB, partition int32) int64 {
	t.Helper()
	offsets, err := kadm.NewClient(b.client).FetchOffsets(deadline(t), "smelt")
	if err != nil {
		t.Fatalf("fetch offsets: %v", err)
	}
	o, _ := offsets.Lookup(topicName, partition)
	return o.At
}

// deadline is far above what a slow machine takes.
func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestKafkaContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, func(t testing.TB, partitions int) sourcetest.Topic {
		b := newBroker(t, partitions).withClient(t)
		return sourcetest.Topic{
			Append:    b.append,
			Skip:      b.abort,
			Open:      func(t testing.TB, resume smelt.Resume) smelt.Source { return b.open(t, resume) },
			Committed: b.committed,
		}
	})
}
