package ingest_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"smelt"
)

// A source that begins many partitions asks about each of them, not about all of them
// each time.
func TestKafkaAsksAboutOnePartition(t *testing.T) {
	t.Parallel()
	const partitions = 100
	b := newBroker(t, partitions).withClient(t)
	b.append(t, smelt.Record{Partition: partitions - 1, Value: []byte("x")})
	var listed atomic.Int64 // partitions, in all requests
	b.ControlKey(int16(kmsg.ListOffsets), func(request kmsg.Request) (kmsg.Response, error, bool) {
		for _, topic := range request.(*kmsg.ListOffsetsRequest).Topics {
			listed.Add(int64(len(topic.Partitions)))
		}
		return nil, nil, false
	})
	var resumed atomic.Int64
	source := b.open(t, func(ctx context.Context, partition int32, held func(context.Context, int32) (smelt.Extent, error)) (int64, error) {
		resumed.Add(1)
		extent, err := held(ctx, smelt.NoEpoch)
		if want := int64(partition / (partitions - 1)); err == nil && (extent.Start != 0 || extent.End != want) {
			t.Errorf("partition %d: got %+v, want an end of %d", partition, extent, want)
		}
		return extent.Start, err
	})
	defer source.Close()
	if records, err := source.Poll(deadline(t), 1<<20); err != nil || len(records) != 1 {
		t.Fatalf("poll: got %d records and error %v, want one", len(records), err)
	}
	const each = 2 // its start and its end
	if got, want := listed.Load(), each*resumed.Load(); resumed.Load() < partitions || got != want {
		t.Errorf("%d partitions were listed for %d that were resumed, want %d", got, resumed.Load(), want)
	}
}
