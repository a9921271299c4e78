package ingest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"smelt"
	"smelt/ingest"
)

// TestKafkaWithoutEpochs reads from a broker that cannot be asked about epochs.
func TestKafkaWithoutEpochs(t *testing.T) {
	t.Parallel()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetForLeaderEpoch), -1)
	b := newBroker(t, 1, kfake.MaxVersions(versions)).withClient(t)
	b.append(t, make([]smelt.Record, 3)...)
	source := b.open(t, func(ctx context.Context, _ int32, held func(context.Context, int32) (smelt.Extent, error)) (int64, error) {
		extent, err := held(ctx, 0)
		return extent.End - 1, err
	})
	defer source.Close()
	if records, err := source.Poll(deadline(t), 1<<20); err != nil || len(records) != 1 || records[0].Offset != 2 {
		t.Errorf("poll: got %v and error %v, want the record at offset 2", records, err)
	}
	if d, err := ingest.DescribeTopic(deadline(t), b.cluster, topicName, map[int32]int32{0: 0}); err != nil || d.Shared[0] != 3 || d.Partitions[0].End != 3 {
		t.Errorf("describe: got %+v and error %v", d, err)
	}
}

// TestKafkaEndLostWhileIdle has a log lose its end, and grow past the offset at which a
// reader waits that has read nothing of it yet: the lake is asked where to go on.
func TestKafkaEndLostWhileIdle(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	b.append(t, make([]smelt.Record, 10)...)
	ctx, asked := context.WithCancel(deadline(t))
	source := b.open(t, func(ctx context.Context, _ int32, held func(context.Context, int32) (smelt.Extent, error)) (int64, error) {
		defer asked()
		log, err := held(ctx, 0)
		if err == nil && log.End < 10 {
			err = smelt.ErrStopped
		}
		return 10, err
	})
	defer source.Close()
	if records, err := source.Poll(ctx, 1<<20); err != nil || len(records) > 0 {
		t.Fatalf("poll: got %d records and error %v, want none", len(records), err)
	}
	b.endEpoch(0, 5)                                              // the records from there on are another leader's
	if err := b.MoveTopicPartition(topicName, 0, 0); err != nil { // a new epoch
		t.Fatal(err)
	}
	b.append(t, smelt.Record{Value: []byte("past the offset")})
	ctx, asked = context.WithCancel(deadline(t))
	defer asked()
	if records, err := source.Poll(ctx, 1<<20); err != nil || len(records) > 0 || ctx.Err() != context.Canceled {
		t.Errorf("poll: got %d records and error %v, want none, and the lake to be asked again", len(records), err)
	}
}

// TestKafkaEndBack has a new leader say once that the log has lost its end, which it has
// when the lake is asked: it is read on from where the lake is, not from where the client
// went meanwhile.
func TestKafkaEndBack(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	b.append(t, make([]smelt.Record, 10)...)
	asked := 0
	source := b.open(t, func(ctx context.Context, _ int32, held func(context.Context, int32) (smelt.Extent, error)) (int64, error) {
		if asked++; asked == 1 {
			return 0, nil
		}
		log, err := held(ctx, 0)
		if err == nil && log.End < 10 {
			err = smelt.ErrStopped
		}
		return 10, err
	})
	defer source.Close()
	for read := 0; read < 10; {
		records, err := source.Poll(deadline(t), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		read += len(records)
	}
	b.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		return endOfEpoch(request, 0, 5), nil, true
	})
	if err := b.MoveTopicPartition(topicName, 0, 0); err != nil { // a new epoch
		t.Fatal(err)
	}
	b.append(t, smelt.Record{Value: []byte("what comes next")})
	records, err := source.Poll(deadline(t), 1<<20)
	if err != nil || len(records) != 1 || records[0].Offset != 10 || asked != 2 {
		t.Errorf("poll: got %v and error %v, the lake asked %d times; want the record at offset 10, and twice", records, err, asked)
	}
}

// endEpoch has the broker say of partition 0 that the records of an epoch end at an offset.
func (b broker) endEpoch(epoch int32, end int64) {
	b.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		return endOfEpoch(request, epoch, end), nil, true
	})
}

// endOfEpoch is a reply that says so.
func endOfEpoch(request kmsg.Request, epoch int32, end int64) kmsg.Response {
	response := request.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	partition.LeaderEpoch, partition.EndOffset = epoch, end
	topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
	topic.Topic, topic.Partitions = topicName, append(topic.Partitions, partition)
	response.Topics = append(response.Topics, topic)
	return response
}

// TestKafkaEndOfEpoch: the log holds other records than the lake has read. It continues the lake up to the end of the
// lake's epoch.
func TestKafkaEndOfEpoch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		epoch     int32
		end, want int64
	}{
		{"there", 0, 12, 10}, // and the leader is ahead of what it lets be read
		{"lost its end", 0, 7, 7},
		{"lost all that is left", 0, 3, 5},
		{"an epoch that nobody knows", -1, -1, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1).withClient(t)
			b.append(t, make([]smelt.Record, 10)...)
			if err := b.DeleteRecords(topicName, 0, 5); err != nil {
				t.Fatal(err)
			}
			b.endEpoch(c.epoch, c.end)
			ctx, asked := context.WithCancel(deadline(t))
			var log smelt.Extent
			source := b.open(t, func(ctx context.Context, _ int32, held func(context.Context, int32) (smelt.Extent, error)) (next int64, err error) {
				defer asked()
				log, err = held(ctx, 0)
				return log.Start, err
			})
			defer source.Close()
			if _, err := source.Poll(ctx, 1<<20); err != nil {
				t.Fatal(err)
			}
			if want := (smelt.Extent{Start: 5, End: c.want}); log != want {
				t.Errorf("got %+v, want %+v", log, want)
			}
		})
	}
}

// TestKafkaMarkOfAnotherEpoch has the leader change while a transaction is open: the log
// that has the mark is the one that the lake continues.
func TestKafkaMarkOfAnotherEpoch(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	b.append(t, smelt.Record{})
	writer := b.withClient(t, kgo.TransactionalID("marked")).client
	if err := errors.Join(writer.BeginTransaction(), writer.ProduceSync(deadline(t), &kgo.Record{}).FirstErr(),
		b.MoveTopicPartition(topicName, 0, 0), writer.EndTransaction(deadline(t), kgo.TryCommit)); err != nil {
		t.Fatal(err)
	}
	source := b.open(t, at(0))
	defer source.Close()
	var end int64 // of what was read
	var epoch int32
	for end < 2 {
		records, err := source.Poll(deadline(t), 1<<20)
		if err != nil || len(records) == 0 {
			t.Fatalf("poll: got %d records and error %v", len(records), err)
		}
		last := records[len(records)-1]
		end, epoch = last.Offset+1+last.Skip, last.Epoch
	}
	d, err := ingest.DescribeTopic(deadline(t), b.cluster, topicName, map[int32]int32{0: epoch})
	if err != nil || end != 3 || d.Shared[0] != end {
		t.Errorf("read up to %d in epoch %d, error %v: the log shares %d, want 3 of both", end, epoch, err, d.Shared[0])
	}
}
