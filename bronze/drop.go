package bronze

import (
	"context"
	"fmt"
	"slices"
	"time"

	"smelt"
)

// dropPage is how many objects are deleted at once: what one S3 request takes.
const dropPage = 1000

// Objects lists all objects of a pipeline in key order.
func Objects(ctx context.Context, store smelt.Store, pipeline string) (objects []smelt.Object, err error) {
	for after := ""; ; {
		page, err := store.List(ctx, Prefix(pipeline), after, dropPage)
		if err != nil {
			return nil, smelt.Mark(smelt.ErrStore, err)
		}
		objects = append(objects, page...)
		if len(page) < dropPage {
			return objects, nil
		}
		after = page[len(page)-1].Key
	}
}

// Drop deletes objects that Objects has listed, the last ones first: so what a Drop
// that dies has left is still the beginning of each chain.
func Drop(ctx context.Context, store smelt.Store, objects []smelt.Object) error {
	keys := make([]string, len(objects))
	for i, o := range objects {
		keys[len(keys)-1-i] = o.Key
	}
	for page := range slices.Chunk(keys, dropPage) {
		if err := store.Delete(ctx, page...); err != nil {
			return smelt.Mark(smelt.ErrStore, fmt.Errorf("delete %s and %d more: %w", page[0], len(page)-1, err))
		}
	}
	return nil
}

// RetiredRecords counts the records that retention has removed from a pipeline's chains,
// and returns when the last of them was written.
func (r *Reader) RetiredRecords(ctx context.Context) (n int64, last time.Time, err error) {
	partitions, err := r.Partitions(ctx)
	if err != nil {
		return 0, last, err
	}
	for _, id := range partitions {
		const one = 1 // byte: After gives one object at least
		refs, err := r.After(ctx, id, -1, one)
		if err != nil {
			return 0, last, err
		}
		if len(refs) == 0 || !refs[0].Retired {
			continue
		}
		m, err := r.Stat(ctx, refs[0])
		if err != nil {
			return 0, last, err
		}
		if n += m.Retired.Count; m.Retired.Count > 0 && m.Written.After(last) {
			last = m.Written
		}
	}
	return n, last, nil
}
