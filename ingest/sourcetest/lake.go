package sourcetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"smelt"
)

// lake is what the records of a source end up in. It may be used by several
// instances at once.
type lake struct {
	mu      sync.Mutex
	next    map[int32]int64
	records map[int32][]smelt.Record
	resumed map[int32]int // how often each partition was resumed
	total   int
	grown   chan struct{} // closed, and replaced, when records come in
}

func newLake() *lake {
	return &lake{
		next:    make(map[int32]int64),
		records: make(map[int32][]smelt.Record),
		resumed: make(map[int32]int),
		grown:   make(chan struct{}),
	}
}

// held asks a source what a partition's log holds.
type held = func(context.Context, int32) (smelt.Extent, error)

func (l *lake) resume(ctx context.Context, partition int32, log held) (int64, error) {
	extent, err := log(ctx, smelt.NoEpoch)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resumed[partition]++
	next, ok := l.next[partition]
	if !ok {
		next = extent.Start
	}
	if err == nil && (next < extent.Start || next > extent.End) {
		return 0, smelt.ErrStopped
	}
	return next, err
}

// add takes records in. A record that does not come after what is here is an
// error: it was delivered twice, or in the wrong order.
func (l *lake) add(records []smelt.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		if next, ok := l.next[r.Partition]; ok && r.Offset < next {
			return fmt.Errorf("partition %d: offset %d came, want %d or above", r.Partition, r.Offset, next)
		}
		if l.resumed[r.Partition] == 0 {
			return fmt.Errorf("partition %d: offset %d came before Resume was called", r.Partition, r.Offset)
		}
		l.next[r.Partition] = r.Offset + 1
		l.records[r.Partition] = append(l.records[r.Partition], clone(r))
		l.total++
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return nil
}

func (l *lake) count() int {
	n, _ := l.size()
	return n
}

// size is how many records there are, and what is closed when more come.
func (l *lake) size() (n int, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.grown
}

// await waits until the lake holds n records that others bring in.
func (l *lake) await(t testing.TB, n int) {
	t.Helper()
	ctx := deadline(t)
	for {
		got, grown := l.size()
		if got >= n {
			return
		}
		select {
		case <-grown:
		case <-ctx.Done():
			t.Fatalf("the lake has %d records after %v, want %d", got, patience, n)
		}
	}
}

// fill polls until the lake holds n records.
func (l *lake) fill(t testing.TB, source smelt.Source, n int) {
	t.Helper()
	ctx := deadline(t)
	for l.count() < n {
		records, err := source.Poll(ctx, pollBytes)
		if err != nil {
			t.Fatalf("poll: %v", err)
		}
		if len(records) == 0 {
			t.Fatalf("the lake has %d records after %v, want %d", l.count(), patience, n)
		}
		if err := l.add(records); err != nil {
			t.Fatal(err)
		}
	}
}

// values are the values of a partition's records.
func (l *lake) values(partition int32) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var values []string
	for _, r := range l.records[partition] {
		values = append(values, string(r.Value))
	}
	return values
}

// check compares each partition's values with those that were appended.
func (l *lake) check(t testing.TB, appended []smelt.Record) {
	t.Helper()
	want := make(map[int32][]string)
	for _, r := range appended {
		want[r.Partition] = append(want[r.Partition], string(r.Value))
	}
	for partition, values := range want {
		if got := l.values(partition); !slices.Equal(got, values) {
			t.Errorf("partition %d: got %d values %.200q, want %d values %.200q",
				partition, len(got), got, len(values), values)
		}
	}
}

func clone(r smelt.Record) smelt.Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	r.Headers = slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = bytes.Clone(r.Headers[i].Value)
	}
	return r
}

// numbered makes n records whose values tell them apart, over the partitions in
// turn.
func numbered(from, n, partitions int) []smelt.Record {
	records := make([]smelt.Record, n)
	for i := range records {
		records[i] = smelt.Record{
			Partition: int32(i % partitions),
			Timestamp: 1_789_221_600_000 + int64(i),
			Value:     fmt.Appendf(nil, `{"n":%d}`, from+i),
		}
	}
	return records
}
