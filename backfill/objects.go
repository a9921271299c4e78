package backfill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"smelt"
	"smelt/bronze"
	"smelt/silver"
)

// objectsOf gives the objects of bronze that hold some records, in order. One that is
// missing is an error that names it.
func (j *Job) objectsOf(ctx context.Context, records silver.Lineages) (refs []bronze.Ref, err error) {
	for _, p := range records.Partitions() {
		offsets := records[p]
		found, err := j.list(ctx, span{p, int64(offsets.Minimum()), int64(offsets.Maximum())})
		if err != nil {
			return nil, err
		}
		refs = append(refs, holding(found, offsets)...)
	}
	return refs, nil
}

// holding are those of a partition's objects, in order, that hold one of some offsets.
func holding(refs []bronze.Ref, offsets *roaring64.Bitmap) (out []bronze.Ref) {
	rest := offsets.Iterator()
	for i, r := range refs {
		if i > 0 {
			rest.AdvanceIfNeeded(uint64(r.From))
		}
		if rest.HasNext() && (i+1 == len(refs) || rest.PeekNext() < uint64(refs[i+1].From)) {
			out = append(out, r)
		}
	}
	return out
}

// span is a part of a partition: offsets from first to last, both inclusive.
type span struct {
	partition   int32
	first, last int64
}

// list lists the objects of a span. Cleaning may leave a hole between two of them, which shows
// when they are read. Where the first object ends is in its metadata. It may be left over
// from a merge; then the next object in the listing need not follow it.
func (j *Job) list(ctx context.Context, s span) (all []bronze.Ref, err error) {
	first, meta, err := j.Bronze.Find(ctx, s.partition, s.first)
	if errors.Is(err, smelt.ErrNotFound) {
		err = smelt.Mark(smelt.ErrStore, fmt.Errorf("bronze.%s has no object with record %d:%d, which silver has: it was deleted (%w)", j.Pipeline.Name, s.partition, s.first, err))
	}
	if err != nil {
		return nil, err
	}
	all = append(all, first)
	for position := meta.End; position <= s.last; {
		refs, err := j.Bronze.After(ctx, s.partition, position, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		beyond := slices.IndexFunc(refs, func(r bronze.Ref) bool { return r.From > s.last })
		if beyond >= 0 {
			return append(all, refs[:beyond]...), nil
		}
		all = append(all, refs...)
		if len(refs) == 0 || !refs[len(refs)-1].Followed() {
			return all, nil
		}
		last, err := j.Bronze.Stat(ctx, refs[len(refs)-1])
		if err != nil {
			return nil, err
		}
		position = last.End
	}
	return all, nil
}

// Bronze is read in chunks. A chunk is large enough to outweigh its overhead, and small enough to show
// progress.
const (
	chunkBytes   = 8 << 20
	chunkObjects = 100
)
