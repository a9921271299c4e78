package bronze

import (
	"context"
	"errors"
	"fmt"
	"math"

	"smelt"
)

// A search for an offset looks that far back from it at first, in offsets, and
// that many times as far with each step that finds nothing.
const (
	findStep   = 4096
	findGrowth = 16
)

// relists is how often a search starts over because the object that it found was deleted.
// Each time, something else must have merged and cleaned in the meantime.
const relists = 3

// Find returns the object of a partition's chain that covers an offset: start <= offset <
// end. The record need not exist, since offsets have gaps. It fails with
// smelt.ErrNotFound if the chain ends at or before the offset, and with ErrBreak if an
// object is missing there. It usually takes two or three requests.
func (r *Reader) Find(ctx context.Context, partition int32, offset int64) (Ref, Meta, error) {
	if offset < 0 {
		return Ref{}, Meta{}, r.noOffset(partition, offset)
	}
	ref, m, err := r.covering(ctx, partition, offset)
	ref.From = ref.Start
	return ref, m, err
}

func (r *Reader) noOffset(partition int32, offset int64) error {
	return fmt.Errorf("offset %d of partition %d of %s in bronze: %w", offset, partition, r.pipeline, smelt.ErrNotFound)
}

// covering finds an object that covers an offset, which counts from there on. It
// fails like Find when none does.
func (r *Reader) covering(ctx context.Context, partition int32, offset int64) (ref Ref, m Meta, err error) {
	for try := 0; ; try++ {
		if ref, err = r.floor(ctx, partition, offset); err != nil {
			return Ref{}, Meta{}, err
		}
		if ref.Key == "" {
			return Ref{}, Meta{}, r.lacks(ctx, partition, offset, "the chain begins at 0")
		}
		m, err = r.stat(ctx, ref.Name)
		if err == nil && m.End <= offset {
			if ref, err = r.reaching(ctx, partition, offset, fmt.Sprintf("%s ends at %d", ref.Key, m.End)); err != nil {
				return Ref{}, Meta{}, err
			}
			m, err = r.stat(ctx, ref.Name)
		}
		if err == nil {
			ref.From, ref.next, ref.more = offset, m.End, true
			return ref, m, nil
		}
		if !errors.Is(err, smelt.ErrNotFound) || try == relists {
			return Ref{}, Meta{}, err
		}
	}
}

// lacks is the error of an offset that no object covers: before says where the
// chain ends before it.
func (r *Reader) lacks(ctx context.Context, partition int32, offset int64, before string) error {
	next, err := r.list(ctx, partition, Name{Pipeline: r.pipeline, Partition: partition, Start: offset}.beyond(), 1)
	switch {
	case err != nil:
		return err
	case len(next) == 0:
		return r.noOffset(partition, offset)
	}
	return broken("%s, but the next object is %s", before, next[0].Key)
}

// floor finds the last object that starts at or below an offset, or one listed with it that
// covers its start and reaches further. It looks back in growing steps, one page at a
// time. If a page does not reach the offset, it halves the rest. In a chain without
// leftovers that is the object that covers the offset. It returns the zero Ref if there is
// none.
func (r *Reader) floor(ctx context.Context, partition int32, offset int64) (at Ref, err error) {
	low, high := int64(0), offset // the object starts between them, both inclusive
	for step := int64(findStep); low <= high; {
		probe := low + (high-low)/2
		if at.Key == "" {
			probe = max(0, high-step)
			step = min(step, math.MaxInt64/findGrowth) * findGrowth
		}
		page, err := r.list(ctx, partition, Name{Pipeline: r.pipeline, Partition: partition, Start: probe}.from(), r.page)
		if err != nil {
			return Ref{}, err
		}
		n := 0 // how many objects of the page start at or below the offset
		for n < len(page) && page[n].Start <= offset {
			n++
		}
		if n == 0 {
			high = probe - 1
			continue
		}
		last := page[n-1].Start
		at, low = cover(page[:n], last)[0], last+1
		if n < len(page) || len(page) < r.page {
			return at, nil
		}
	}
	return at, nil
}

// reaching finds the merged object that covers an offset if the last object below the
// offset does not. That one is a member that a cleaner has left. Nearby objects are
// examined first. before is where that last object ends.
func (r *Reader) reaching(ctx context.Context, partition int32, offset int64, before string) (best Ref, err error) {
	none := r.lacks(ctx, partition, offset, before)
	if errors.Is(none, smelt.ErrNotFound) { // the chain's last object is never merged
		return Ref{}, none
	}
	for high, step := offset, int64(findStep); high >= 0 && best.Key == ""; {
		low := max(0, high-step)
		step = min(step, math.MaxInt64/findGrowth) * findGrowth
		err := r.each(ctx, partition, low, high, func(ref Ref) {
			if ref.End > offset && (best.Key == "" || ref.outranks(best.Name)) {
				best = ref
			}
		})
		if err != nil {
			return Ref{}, err
		}
		high = low - 1
	}
	if best.Key == "" {
		return Ref{}, none
	}
	return best, nil
}

// each lists the objects that start from one position to another, both inclusive.
func (r *Reader) each(ctx context.Context, partition int32, first, last int64, yield func(Ref)) error {
	after := Name{Pipeline: r.pipeline, Partition: partition, Start: first}.from()
	for {
		page, err := r.list(ctx, partition, after, r.page)
		if err != nil {
			return err
		}
		for _, ref := range page {
			if ref.Start > last {
				return nil
			}
			yield(ref)
		}
		if len(page) < r.page {
			return nil
		}
		after = page[len(page)-1].Key
	}
}
