package backfill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
)

// objectsOf gives the objects of bronze that hold the records of a table of
// lineages, in order. One that is missing is an error that names it.
func (j *Job) objectsOf(ctx context.Context, lineages string) ([]bronze.Ref, error) {
	rows, err := j.session.Query(ctx, "SELECT _partition_id, min(_partition_offset), max(_partition_offset) FROM "+lineages+" GROUP BY 1 ORDER BY 1")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var spans []span
	for rows.Next() {
		var s span
		if err := rows.Scan(&s.partition, &s.first, &s.last); err != nil {
			return nil, err
		}
		spans = append(spans, s)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	var refs []bronze.Ref
	for _, s := range spans {
		found, err := j.list(ctx, s)
		if err != nil {
			return nil, err
		}
		refs = append(refs, found...)
	}
	return j.holding(ctx, refs, lineages)
}

// span is a part of a partition: offsets from first to last, both inclusive.
type span struct {
	partition   int32
	first, last int64
}

// list lists the objects of a span. A hole between two of them, which objects that
// are being cleaned may leave, shows when they are read. Where the first one ends it
// says itself: it may be left of what was merged, and then what the listing shows
// after it need not be what comes next.
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

// holding are those of some objects that hold records of a table of lineages.
func (j *Job) holding(ctx context.Context, refs []bronze.Ref, lineages string) ([]bronze.Ref, error) {
	columns := []smelt.Column{
		{Name: "object", Type: smelt.Type{Name: "integer"}},
		{Name: "_partition_id", Type: smelt.Type{Name: "integer"}},
		{Name: "_partition_offset", Type: smelt.Type{Name: "bigint"}},
	}
	rows := make([][]any, len(refs))
	for i, r := range refs {
		rows[i] = []any{int32(i), r.Partition, r.From}
	}
	if err := j.session.Load(ctx, "work", "objects", columns, duck.Rows(rows)); err != nil {
		return nil, err
	}
	places, err := j.session.Ints(ctx, `SELECT DISTINCT o.object FROM `+lineages+` AS l
		ASOF JOIN work.objects AS o ON l._partition_id = o._partition_id AND l._partition_offset >= o._partition_offset ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	out := make([]bronze.Ref, len(places))
	for i, n := range places {
		out[i] = refs[n]
	}
	return out, nil
}

// A chunk of bronze is read at a time: so much that reading it outweighs what
// each one costs, and so little that it shows how far a run has got.
const (
	chunkBytes   = 8 << 20
	chunkObjects = 100
)

// chunks cuts objects, in their order, into parts.
func chunks(refs []bronze.Ref) (out [][]bronze.Ref) {
	var size int64
	for _, r := range refs {
		last := len(out) - 1
		if last < 0 || size+r.Size > chunkBytes || len(out[last]) == chunkObjects {
			out, size, last = append(out, nil), 0, last+1
		}
		out[last] = append(out[last], r)
		size += r.Size
	}
	return out
}
