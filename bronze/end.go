package bronze

import (
	"context"
	"fmt"
	"math"

	"smelt"
)

// listMax is how many objects one listing brings: what S3 gives at most.
const listMax = 1000

// Last returns the metadata of the last object of a partition's chain: where the chain ends
// and its total counts. It fails with ErrNotFound if the lake has nothing of the partition.
//
// The object that starts last also ends last, because a merged object never contains the
// chain's last object.
func (r *Reader) Last(ctx context.Context, partition int32) (Meta, error) {
	_, m, found, err := r.end(ctx, partition)
	if err == nil && !found {
		err = fmt.Errorf("partition %d of %s in bronze: %w", partition, r.pipeline, smelt.ErrNotFound)
	}
	return m, err
}

// Ends returns the metadata of the last object of each partition's chain.
func (r *Reader) Ends(ctx context.Context) (map[int32]Meta, error) {
	partitions, err := r.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	ends := make(map[int32]Meta, len(partitions))
	for _, id := range partitions {
		if ends[id], err = r.Last(ctx, id); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// Epochs are those of the last records of chains, with which a source is described
// for [Stops].
func Epochs(ends map[int32]Meta) map[int32]int32 {
	epochs := make(map[int32]int32, len(ends))
	for id, end := range ends {
		epochs[id] = end.Epoch
	}
	return epochs
}

func (r *Reader) end(ctx context.Context, partition int32) (name Name, m Meta, found bool, err error) {
	name, found, err = r.last(ctx, partition)
	if err == nil && found {
		m, err = r.stat(ctx, name)
	}
	return name, m, found, err
}

// last finds the last object of a partition. With up to listMax objects that takes one request. In a longer
// chain it leaps twice as far each time, until nothing lies beyond. Then it halves the leap until about one
// page is left. That takes about two requests per doubling of the chain's length.
func (r *Reader) last(ctx context.Context, partition int32) (at Name, found bool, err error) {
	after := Name{Pipeline: r.pipeline, Partition: partition}.from()
	for {
		page, err := r.list(ctx, partition, after, r.page)
		if err != nil {
			return Name{}, false, err
		}
		if len(page) > 0 {
			at, found = page[len(page)-1].Name, true
		}
		if len(page) < r.page {
			return at, found, nil
		}
		if at, err = r.leap(ctx, at, max(1, at.Start-page[0].Start)); err != nil {
			return Name{}, false, err
		}
		after = at.beyond()
	}
}

// leap finds an object that is less than span before the last position, or the
// last one, starting from one that exists.
func (r *Reader) leap(ctx context.Context, at Name, span int64) (Name, error) {
	end := int64(math.MaxInt64) // no object starts after it
	for step := span; end-at.Start > span; {
		probe := at
		if end == math.MaxInt64 {
			probe.Start += min(step, end-at.Start-1)
			step = 2 * min(step, end/4)
		} else {
			probe.Start += (end - at.Start) / 2
		}
		found, err := r.list(ctx, at.Partition, probe.beyond(), 1)
		if err != nil {
			return Name{}, err
		}
		if len(found) > 0 {
			at = found[0].Name
		} else {
			end = probe.Start
		}
	}
	return at, nil
}
