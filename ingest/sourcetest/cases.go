package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"

	"smelt"
)

// testOrder reads partitions with holes: each one's records come in order, none
// left out and none twice.
func testOrder(t *testing.T, open func(testing.TB, int) Topic) {
	topic := open(t, 3)
	lake := newLake()
	first := numbered(0, 300, 3)
	topic.Append(t, first...)
	topic.Skip(t, 1)
	second := numbered(300, 300, 3)
	topic.Append(t, second...)

	source := openSource(t, topic, lake.resume)
	lake.fill(t, source, 600)
	third := numbered(600, 30, 3)
	topic.Append(t, third...)
	lake.fill(t, source, 630)

	lake.check(t, append(append(first, second...), third...))
	if got := lake.next[1] - int64(len(lake.values(1))); got < 1 {
		t.Errorf("partition 1 has no hole in its offsets")
	}
}

// testResume begins at any position that the lake may have.
func testResume(t *testing.T, open func(testing.TB, int) Topic) {
	topic := open(t, 1)
	records := numbered(0, 10, 1)
	topic.Append(t, records...)
	for _, next := range []int64{-1, 0, 1, 7, 9, 10} {
		lake := newLake()
		if next >= 0 {
			lake.next[0] = next
		}
		source := topic.Open(t, lake.resume)
		more := numbered(len(records), 1, 1)
		topic.Append(t, more...)
		records = append(records, more...)
		want := records[max(next, 0):]
		lake.fill(t, source, len(want))
		lake.check(t, want)
		if err := source.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
}

// testResumeFails has the lake out of reach for a while: Poll says so, delivers
// nothing, and asks again.
func testResumeFails(t *testing.T, open func(testing.TB, int) Topic) {
	topic := open(t, 1)
	records := numbered(0, 10, 1)
	topic.Append(t, records...)
	lake, down := newLake(), errors.New("the lake is out of reach")
	fails := 2
	source := openSource(t, topic, func(ctx context.Context, partition int32, log held) (int64, error) {
		if fails > 0 {
			fails--
			return 0, down
		}
		return lake.resume(ctx, partition, log)
	})
	for range 2 {
		if records, err := source.Poll(deadline(t), pollBytes); !errors.Is(err, down) || len(records) > 0 {
			t.Fatalf("poll: got %d records and error %v, want none and %v", len(records), err, down)
		}
	}
	lake.fill(t, source, len(records))
	lake.check(t, records)
}

// testStopped has one partition that is not to be read: the others are, and it is
// when the lake says so.
func testStopped(t *testing.T, open func(testing.TB, int) Topic) {
	topic := open(t, 2)
	records := numbered(0, 20, 2)
	topic.Append(t, records...)
	lake := newLake()
	var stopped atomic.Bool
	stopped.Store(true)
	source := openSource(t, topic, func(ctx context.Context, partition int32, log held) (int64, error) {
		if partition == 1 && stopped.Load() {
			return 0, fmt.Errorf("partition 1: %w", smelt.ErrStopped)
		}
		return lake.resume(ctx, partition, log)
	})
	lake.fill(t, source, 10)
	more := numbered(20, 10, 1)
	topic.Append(t, more...)
	lake.fill(t, source, 20)
	if got := len(lake.values(1)); got > 0 {
		t.Fatalf("%d records came of a partition that is not to be read", got)
	}
	stopped.Store(false)
	lake.fill(t, source, 30)
	lake.check(t, append(records, more...))
}

// testRoundTrip checks that a record arrives as it was sent.
func testRoundTrip(t *testing.T, open func(testing.TB, int) Topic) {
	topic := open(t, 1)
	const now = 1_789_221_600_123
	sent := []smelt.Record{
		{Timestamp: now, Key: []byte("k"), Value: []byte("v")},
		{Timestamp: now + 1, Key: []byte("tombstone")},
		{Timestamp: now - 1, Key: []byte{}, Value: []byte{}},
		{Timestamp: 0, Value: []byte("no key, in 1970")},
		{Timestamp: now, Value: []byte("\x00\xff\n"), Headers: []smelt.Header{
			{Name: "a", Value: []byte("1")}, {Name: "a", Value: []byte("2")}, {Name: "", Value: []byte{}}, {Name: "nil"},
		}},
	}
	topic.Append(t, sent...)
	lake := newLake()
	lake.fill(t, openSource(t, topic, lake.resume), len(sent))
	for i, want := range sent {
		got := lake.records[0][i]
		if want.Offset = int64(i); !reflect.DeepEqual(got, want) {
			t.Errorf("record %d:\ngot  %#v\nwant %#v", i, got, want)
		}
	}
}

// testEndOfContext checks that Poll ends with its context, without an error,
// and that it does not wait when the context has ended before.
func testEndOfContext(t *testing.T, open func(testing.TB, int) Topic) {
	topic := open(t, 1)
	lake := newLake()
	source := openSource(t, topic, lake.resume)
	topic.Append(t, numbered(0, 1, 1)...)
	lake.fill(t, source, 1)

	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(deadline(t), cancel)
	done := make(chan error, 1)
	go func() {
		records, err := source.Poll(ctx, pollBytes)
		if len(records) > 0 {
			err = fmt.Errorf("got %d records, want none", len(records))
		}
		done <- err
	}()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("poll: %v", err)
	}
	if records, err := source.Poll(ctx, pollBytes); len(records) > 0 || err != nil {
		t.Errorf("poll with an ended context: got %d records and error %v, want none", len(records), err)
	}
	topic.Append(t, numbered(1, 1, 1)...)
	lake.fill(t, source, 2)
}

// testSize checks that Poll keeps to its bound, give or take a record, and lets
// a record through that is above it.
func testSize(t *testing.T, open func(testing.TB, int) Topic) {
	topic := open(t, 1)
	var sent []smelt.Record
	for _, size := range []int{100, 100, 5000, 100, 900, 900, 900} {
		sent = append(sent, smelt.Record{Timestamp: 1, Value: make([]byte, size)})
	}
	topic.Append(t, sent...)
	lake := newLake()
	source := openSource(t, topic, lake.resume)
	for lake.count() < len(sent) {
		records, err := source.Poll(deadline(t), 1000)
		if err != nil || len(records) == 0 {
			t.Fatalf("poll: got %d records and error %v", len(records), err)
		}
		size := 0
		for _, r := range records {
			size += len(r.Value)
		}
		if size > 1000 && len(records) > 1 {
			t.Errorf("poll: got %d records of %d bytes together, want about 1000", len(records), size)
		}
		if err := lake.add(records); err != nil {
			t.Fatal(err)
		}
	}
	lake.check(t, sent)
}

// testDescribe checks the extents, and that the ids stay.
func testDescribe(t *testing.T, open func(testing.TB, int) Topic) {
	topic := open(t, 2)
	lake := newLake()
	source := openSource(t, topic, lake.resume)
	topic.Append(t, numbered(0, 10, 1)...)
	got, err := source.Describe(deadline(t))
	if err != nil {
		t.Fatalf("describe: %v", err)
	}
	if got.Cluster == "" || got.Topic == "" {
		t.Errorf("describe: got ids %q and %q, want both", got.Cluster, got.Topic)
	}
	want := map[int32]smelt.Extent{0: {Start: 0, End: 10}, 1: {Start: 0, End: 0}}
	if !reflect.DeepEqual(got.Partitions, want) {
		t.Errorf("describe: got extents %v, want %v", got.Partitions, want)
	}
	again, err := source.Describe(deadline(t))
	if err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("describe again: got %v and error %v, want %v", again, err, got)
	}
}

// testCommit checks that the source's own tools see what was committed, and
// that it is not where the next instance begins.
func testCommit(t *testing.T, open func(testing.TB, int) Topic) {
	topic := open(t, 1)
	records := numbered(0, 10, 1)
	topic.Append(t, records...)
	lake := newLake()
	source := topic.Open(t, lake.resume)
	lake.fill(t, source, len(records))
	if err := source.Commit(deadline(t), map[int32]int64{0: 7}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if got := topic.Committed(t, 0); got != 7 {
		t.Errorf("committed: got %d, want 7", got)
	}
	if err := source.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	other := newLake()
	other.next[0] = 3
	other.fill(t, openSource(t, topic, other.resume), 7)
	other.check(t, records[3:])
}
