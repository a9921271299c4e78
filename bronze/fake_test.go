package bronze_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"smelt"
	"smelt/bronze"
)

// topic is a log in memory whose sources give every partition to each of them,
// as to instances that have not noticed a rebalance yet.
type topic struct {
	mu        sync.Mutex
	id        string
	start     int64 // the first offset that is still there
	epoch     int32 // of the records to come
	records   map[int32][]smelt.Record
	away      error // why nobody can be asked what it holds; nil: they can
	committed map[int32]int64
	opened    int
	newest    *source
	polled    func() // called when records are returned; nil: not
}

func newTopic() *topic {
	return &topic{id: "topic-1", records: make(map[int32][]smelt.Record), committed: make(map[int32]int64)}
}

// produce adds a record after a hole of some offsets.
func (tp *topic) produce(r smelt.Record, hole int64) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	log := tp.records[r.Partition]
	r.Offset, r.Epoch = hole, tp.epoch
	if len(log) > 0 {
		r.Offset += log[len(log)-1].Offset + 1
	}
	tp.records[r.Partition] = append(log, r)
}

// fill adds n records to each of some partitions.
func (tp *topic) fill(partitions int32, n int) {
	for i := range n {
		for p := range partitions {
			tp.produce(smelt.Record{Partition: p, Timestamp: int64(i), Key: []byte("k"), Value: fmt.Appendf(nil, `{"n":%d}`, i)}, int64(i%3))
		}
	}
}

func (tp *topic) open(_ context.Context, resume smelt.Resume) (smelt.Source, error) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.opened++
	tp.newest = &source{topic: tp, was: tp.id, resume: resume, next: make(map[int32]int64), epoch: make(map[int32]int32)}
	return tp.newest, nil
}

type source struct {
	*topic
	was    string // the topic's id
	resume smelt.Resume
	next   map[int32]int64
	epoch  map[int32]int32 // of the last record of each partition
	failed bool
}

func (s *source) Poll(ctx context.Context, max int) ([]smelt.Record, error) {
	if s.failed {
		return nil, fmt.Errorf("poll of a source that has failed")
	}
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.records))
	s.failed = s.id != s.was
	s.mu.Unlock()
	if s.failed {
		return nil, fmt.Errorf("the topic was re-created")
	}
	var records []smelt.Record
	for _, id := range ids {
		epoch, ok := s.epoch[id]
		if !ok {
			epoch = smelt.NoEpoch
		}
		if log, err := s.held(id)(ctx, epoch); err != nil || s.next[id] < log.Start || s.next[id] > log.End {
			delete(s.next, id) // the lake is asked again
			delete(s.epoch, id)
		}
		if _, ok := s.next[id]; !ok {
			next, err := s.resume(ctx, id, s.held(id))
			if errors.Is(err, smelt.ErrStopped) {
				continue
			}
			if err != nil {
				s.failed = true
				return nil, err
			}
			s.next[id] = next
		}
		s.mu.Lock()
		for _, r := range s.records[id] {
			if r.Offset >= s.next[id] && r.Offset >= s.start && max > 0 {
				records = append(records, r)
				max -= len(r.Key) + len(r.Value)
				s.next[id], s.epoch[id] = r.Offset+1, r.Epoch
			}
		}
		s.mu.Unlock()
	}
	if len(records) == 0 {
		<-ctx.Done()
	} else if s.polled != nil {
		s.polled()
	}
	return records, nil
}

// held says what a partition holds, when it is called.
func (s *source) held(partition int32) func(context.Context, int32) (smelt.Extent, error) {
	return func(_ context.Context, epoch int32) (smelt.Extent, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.away != nil {
			return smelt.Extent{}, s.away
		}
		held := smelt.Extent{Start: s.start, End: s.start}
		for _, r := range s.records[partition] {
			if epoch != smelt.NoEpoch && r.Epoch > epoch {
				held.End = r.Offset
				break
			}
			held.End = r.Offset + 1
		}
		return held, nil
	}
}

func (s *source) Commit(_ context.Context, next map[int32]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.committed, next)
	return nil
}

func (s *source) Describe(context.Context) (smelt.Description, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return smelt.Description{Cluster: "cluster-1", Topic: s.id}, nil
}

func (s *source) Close() error { return nil }

// newWriter returns a writer of the pipeline "p" that is closed with the test.
func newWriter(t testing.TB, id string, store smelt.Store, tp *topic, change ...func(*bronze.Config)) *bronze.Writer {
	cfg := bronze.Config{Pipeline: "p", Store: store, Open: tp.open, ID: id, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	w := bronze.NewWriter(cfg)
	t.Cleanup(func() { w.Close() })
	return w
}

// step steps and wants no error.
func step(t testing.TB, w *bronze.Writer) smelt.Progress {
	t.Helper()
	progress, err := w.Step(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return progress
}

// readAll reads the chain of a partition and checks that it is one.
func readAll(t testing.TB, store smelt.Store, partition int32) (lines []bronze.Line, metas []bronze.Meta) {
	t.Helper()
	ctx := context.Background()
	r := bronze.NewReader(store, "p")
	position := int64(-1)
	var chain bronze.Counts
	for {
		refs, err := r.After(ctx, partition, position, 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		if len(refs) == 0 {
			return lines, metas
		}
		for _, ref := range refs {
			m, err := r.Lines(ctx, ref, func(b []byte) error {
				line, err := bronze.Decode(bytes.Clone(b))
				lines = append(lines, line)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			chain.Count += m.Count
			if m.Start != ref.Start || m.Chain.Count != chain.Count || m.Written.IsZero() || time.Since(m.Written) < 0 {
				t.Errorf("metadata of %s: %+v", ref.Key, m)
			}
			metas = append(metas, m)
			position = m.End
		}
	}
}

// checkLake wants each record of the topic in the lake exactly once, in order.
func checkLake(t testing.TB, store smelt.Store, tp *topic) {
	t.Helper()
	for id, want := range tp.records {
		got, _ := readAll(t, store, id)
		if len(got) != len(want) {
			t.Fatalf("partition %d: %d records, want %d", id, len(got), len(want))
		}
		for i := range got {
			if r := got[i].Record; r.Offset != want[i].Offset || !bytes.Equal(r.Value, want[i].Value) {
				t.Fatalf("partition %d: got offset %d %s, want %d %s", id, r.Offset, r.Value, want[i].Offset, want[i].Value)
			}
		}
	}
}
