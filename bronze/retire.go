package bronze

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"smelt"
)

// PlanRetire finds what to retire: the beginning of each chain whose objects were all written
// before a time and end at or below silver's position. It never includes the chain's last
// object. There is nothing to do if that equals an earlier retirement.
func (m *Merger) PlanRetire(ctx context.Context, below map[int32]int64, before time.Time) (out []Run, err error) {
	partitions, err := m.reader.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range partitions {
		listed, err := m.list(ctx, id)
		if err != nil {
			return nil, err
		}
		chain := cover(listed, 0)
		written, err := m.times(ctx, chain)
		if err != nil {
			return nil, err
		}
		n := 0
		for n < len(chain) && chain[n].next >= 0 && chain[n].next <= below[id] {
			known, ok := written[chain[n].Key]
			if !ok || !known.at.Before(before) {
				break
			}
			n++
		}
		if n > 1 || n == 1 && !chain[0].Retired {
			run := newRun(id, chain[:n])
			run.When = before
			out = append(out, run)
		}
	}
	return out, nil
}

// Retire removes the records of a run, except those with the offsets in keep, which are
// sorted. It puts one object with the kept records, perhaps none, and returns it with its
// metadata. The removed records are deleted when Clean deletes the covered objects.
// Records of an earlier retirement do not come back. Like Merge it fails with
// smelt.ErrNotFound if others were at work.
func (m *Merger) Retire(ctx context.Context, run Run, keep []int64) (o smelt.Object, meta Meta, err error) {
	name := Name{Pipeline: m.cfg.Pipeline, Partition: run.Partition, Start: run.Start, End: run.End, Retired: true, Codec: m.cfg.Codec}
	o, err = m.compose(ctx, name, func(w io.Writer) (Meta, error) {
		last, err := m.whole(ctx, run.members)
		if err != nil {
			return Meta{}, err
		}
		left := last.without()
		left.Members = int64(len(run.members))
		for _, ref := range run.members {
			if err := m.appendKept(ctx, w, ref, keep, &left); err != nil {
				return Meta{}, err
			}
		}
		return left, nil
	})
	if err == nil {
		meta, err = metaOf(name, o)
	}
	if err != nil {
		return o, meta, fmt.Errorf("retire partition %d up to %d: %w", run.Partition, run.End, err)
	}
	return o, meta, nil
}

// whole checks that the members of a run form a chain, and returns the last one's metadata. A
// break must not be taken for retired records.
func (m *Merger) whole(ctx context.Context, members []Ref) (last Meta, err error) {
	metas, err := m.metas(ctx, members)
	if err != nil {
		return Meta{}, err
	}
	for i, ref := range members {
		switch last = metas[i]; {
		case last.End == 0:
			return Meta{}, fmt.Errorf("%s: %w", ref.Key, smelt.ErrNotFound)
		case last.End != ref.next:
			return Meta{}, broken("%s ends at %d, but the next object starts at %d", ref.Key, last.End, ref.next)
		}
	}
	return last, nil
}

// appendKept writes the lines of a member that are kept. It does not read a member without
// any.
func (m *Merger) appendKept(ctx context.Context, w io.Writer, ref Ref, keep []int64, left *Meta) error {
	from, _ := slices.BinarySearch(keep, ref.From)
	to, _ := slices.BinarySearch(keep, ref.next)
	if keep = keep[from:to]; len(keep) == 0 {
		return nil
	}
	_, err := m.reader.Lines(ctx, ref, func(line []byte) error {
		offset, err := lineOffset(line)
		if err != nil {
			return smelt.Mark(smelt.ErrStore, fmt.Errorf("read %s: %w", ref.Key, err))
		}
		if _, kept := slices.BinarySearch(keep, offset); !kept {
			return nil
		}
		return left.write(w, line)
	})
	return err
}
