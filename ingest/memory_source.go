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
		case <-ctx.Done():
			return nil, nil
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// settle asks the lake where the partitions begin that this instance was given.
// It asks when ctx has ended too: a test that does not wait is to be answered.
func (s *LogSource) settle(ctx context.Context) error {
	for partition := range s.places {
		handover, ours := s.owns(partition)
		if !ours || handover == s.places[partition].handover {
			continue
		}
		next, err := s.resume(context.WithoutCancel(ctx), int32(partition))
		if err != nil {
			return fmt.Errorf("resume partition %d: %w", partition, err)
		}
		if err := s.begin(partition, handover, next); err != nil {
			return err
		}
	}
	return nil
}

func (s *LogSource) begin(partition, handover int, next int64) error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	next, err := s.log.partitions[partition].begin(int32(partition), next)
	if err != nil {
		return err
	}
	s.places[partition] = place{handover, next}
	return nil
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
	size := 0
	for i := range s.places {
		partition := (s.turn + i) % len(s.places)
		p, at := &s.log.partitions[partition], &s.places[partition]
		if p.owner != s || p.handovers != at.handover {
			continue
		}
		if at.next < p.start {
			_, err := p.begin(int32(partition), at.next)
			return nil, nil, err
		}
		for _, r := range p.records[p.from(at.next):] {
			if size > 0 && size+len(r.Value) > max {
				break
			}
			size += len(r.Key) + len(r.Value) + recordOverhead
			records = append(records, r)
			at.next = r.Offset + 1
		}
	}
	s.turn++
	s.borrow(records)
	return records, s.log.changed, nil
}

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
	d := smelt.Description{Cluster: "memory", Topic: "log", Partitions: make(map[int32]smelt.Extent)}
	for i, p := range s.log.partitions {
		d.Partitions[int32(i)] = smelt.Extent{Start: p.start, End: p.end}
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
