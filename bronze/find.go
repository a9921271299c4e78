package bronze

import (
	"context"
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

// Find returns the object of a partition's chain that covers an offset: the
// offset is not below its start and below its end. A record need not be there,
// since offsets have holes. It fails with smelt.ErrNotFound when the chain ends
// at or before the offset, or there is none, and with ErrBreak when an object is
// missing where the offset would be. As a rule it takes two or three requests.
func (r *Reader) Find(ctx context.Context, partition int32, offset int64) (Ref, Meta, error) {
	none := fmt.Errorf("offset %d of partition %d of %s in bronze: %w", offset, partition, r.pipeline, smelt.ErrNotFound)
	if offset < 0 {
		return Ref{}, Meta{}, none
	}
	ref, next, err := r.floor(ctx, partition, offset)
	switch {
	case err != nil:
		return Ref{}, Meta{}, err
	case ref.Key == "" && next == "":
		return Ref{}, Meta{}, none
	case ref.Key == "":
		return Ref{}, Meta{}, broken("the first object of the chain is %s: what is before it is missing", next)
	}
	m, err := r.Stat(ctx, ref)
	if err == nil && m.End <= offset { // and nothing follows, or Stat would have found a break
		err = none
	}
	return ref, m, err
}

// floor finds the last object that starts at or below an offset. It looks for
// one further and further back, a page at a time, and then, should a page not
// reach up to the offset, halves what is left. Without such an object it returns
// the key of the chain's first one, "" when there is no chain.
func (r *Reader) floor(ctx context.Context, partition int32, offset int64) (at Ref, first string, err error) {
	low, high := int64(0), offset // the object starts between them, both inclusive
	for step := int64(findStep); low <= high; {
		probe := low + (high-low)/2
		if at.Key == "" {
			probe = max(0, high-step)
			step = min(step, math.MaxInt64/findGrowth) * findGrowth
		}
		page, err := r.list(ctx, partition, Name{Pipeline: r.pipeline, Partition: partition, Start: probe}.from(), listMax)
		if err != nil {
			return Ref{}, "", err
		}
		n := 0 // how many objects of the page start at or below the offset
		for n < len(page) && page[n].Start <= offset {
			n++
		}
		if n == 0 {
			high = probe - 1
			if len(page) > 0 {
				first = page[0].Key
			}
			continue
		}
		at, low = page[n-1], page[n-1].Start+1
		if n < len(page) || len(page) < listMax {
			return at, "", nil
		}
	}
	return at, first, nil
}
