package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"smelt"
)

// LogSource is an instance of a [Log] as a source. What it does follows from
// the calls alone, so that a test can be run again.
type LogSource struct {
	log    *Log
	id     string // of the topic, when it was opened
	resume smelt.Resume
	places []place // by partition
	turn   int     // the partition that is read first
	arena  []byte  // holds the bytes of the records that Poll returned last
	closed bool
}

// place is where an instance is in a partition.
type place struct {
	handover int // the assignment that it belongs to
	next     int64
	epoch    int32 // of the last record read, or smelt.NoEpoch
}

// Poll returns records that follow those it returned before. When ctx has ended
// already it returns those that are here, and takes its partitions first. The
// bytes of the records are overwritten at the next Poll, so that a caller that
// keeps them is found out.
func (s *LogSource) Poll(ctx context.Context, max int) ([]smelt.Record, error) {
	for i := range s.arena {
		s.arena[i] = 0xff
	}
	s.arena = nil
	for {
		if err := s.settle(ctx); err != nil {
			return nil, err
		}
		records, changed, err := s.read(max)
		if len(records) > 0 || err != nil {
			return records, err
		}
		select {
		case <-changed: // there may be records, even if ctx has ended
			continue
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// settle asks the lake where newly assigned partitions begin. It asks even after ctx has ended, because
// a test that does not wait needs an answer.
func (s *LogSource) settle(ctx context.Context) error {
	for partition := range s.places {
		handover, ours := s.owns(partition)
		if !ours || handover == s.places[partition].handover {
			continue
		}
		next, err := s.resume(context.WithoutCancel(ctx), int32(partition), s.held(partition))
		if errors.Is(err, smelt.ErrStopped) {
			continue // it is asked about again at the next Poll
		}
		if err != nil {
			return fmt.Errorf("resume partition %d: %w", partition, err)
		}
		s.places[partition] = place{handover, next, smelt.NoEpoch}
	}
	return nil
}

// held says what a partition holds, when it is called.
func (s *LogSource) held(partition int) func(context.Context, int32) (smelt.Extent, error) {
	return func(_ context.Context, epoch int32) (smelt.Extent, error) {
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
		return s.log.partitions[partition].held(epoch), nil
	}
}

func (s *LogSource) owns(partition int) (handover int, ours bool) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	p := &s.log.partitions[partition]
	return p.handovers, p.owner == s
}

// read returns what the instance's partitions hold, one after the other, from
// another one first each time. With nothing to return, changed says when to
// look again.
func (s *LogSource) read(max int) (records []smelt.Record, changed <-chan struct{}, err error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.closed {
		return nil, nil, smelt.Mark(smelt.ErrSource, errors.New("the source is closed"))
	}
	if s.id != s.log.id {
		return nil, nil, smelt.Mark(smelt.ErrSource, errors.New("the topic was re-created"))
	}
	size, again := 0, false
	for i := range s.places {
		partition := (s.turn + i) % len(s.places)
		p, at := &s.log.partitions[partition], &s.places[partition]
		if p.owner != s || p.handovers != at.handover {
			continue
		}
		if held := p.held(at.epoch); at.next < held.Start || at.next > held.End {
			at.handover = -1 // as if it was assigned again
			again = true
			continue
		}
		for _, r := range p.records[p.from(at.next):] {
			if size > 0 && size+len(r.Value) > max {
				break
			}
			size += len(r.Key) + len(r.Value) + recordOverhead
			records = append(records, r)
			at.next, at.epoch = r.Offset+1, r.Epoch
		}
	}
	s.turn++
	s.borrow(records)
	if again {
		return records, closed, nil
	}
	return records, s.log.changed, nil
}

// closed is a channel that was closed: there is a reason to look again at once.
var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// borrow moves the records' bytes into the arena.
func (s *LogSource) borrow(records []smelt.Record) {
	size := 0
	for _, r := range records {
		size += len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			size += len(h.Value)
		}
	}
	s.arena = make([]byte, 0, size)
	for i := range records {
		r := &records[i]
		r.Key, r.Value = s.copied(r.Key), s.copied(r.Value)
		r.Headers = slices.Clone(r.Headers)
		for j := range r.Headers {
			r.Headers[j].Value = s.copied(r.Headers[j].Value)
		}
	}
}

// copied is b's copy in the arena, which has room for it.
func (s *LogSource) copied(b []byte) []byte {
	if b == nil {
		return nil
	}
	from := len(s.arena)
	s.arena = append(s.arena, b...)
	return s.arena[from:len(s.arena):len(s.arena)]
}

// Commit notes up to where the lake has each partition.
func (s *LogSource) Commit(_ context.Context, next map[int32]int64) error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for partition, offset := range next {
		s.log.partitions[partition].committed = offset
	}
	return nil
}

// Describe returns the partitions' extents, under made-up ids.
func (s *LogSource) Describe(context.Context) (smelt.Description, error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	d := smelt.Description{Cluster: "memory", Topic: s.log.id, Partitions: make(map[int32]smelt.Extent)}
	for i := range s.log.partitions {
		d.Partitions[int32(i)] = s.log.partitions[i].extent()
	}
	return d, nil
}

// Close gives the instance's partitions up. They belong to none until another
// instance is opened or they are assigned.
func (s *LogSource) Close() error {
	s.log.change(func() {
		s.closed = true
		for i := range s.log.partitions {
			if p := &s.log.partitions[i]; p.owner == s {
				p.assign(nil)
			}
		}
	})
	return nil
}
