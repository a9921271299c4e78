package inspect

import (
	"context"
	"fmt"
	"math"
	"slices"

	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// Columns by which rows of silver and quarantine are found.
const (
	columnPartition = "_partition_id"
	columnOffset    = "_partition_offset"
)

// lookUp finds the record's row in a table's newest snapshot. Without one it is
// nil.
func (r *tracing) lookUp(ctx context.Context, t *table.Table) (*TracedRow, error) {
	list, err := files(ctx, t)
	if err != nil {
		return nil, err
	}
	return r.search(ctx, t, list)
}

// search finds the record's row in some files. Only those are opened that may
// have it by their statistics.
func (r *tracing) search(ctx context.Context, t *table.Table, list []table.File) (*TracedRow, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(f table.File) bool {
		return !within(f, columnPartition, int64(r.Partition)) || !within(f, columnOffset, r.Offset)
	})
	for _, batch := range staging.Batches(list, staging.FileSize, math.MaxInt, batchBytes) {
		found, err := r.searchBatch(ctx, t, batch)
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// within says whether a file may have a value in a column.
func within(f table.File, column string, value int64) bool {
	lo, hi, known := f.IntRange(column)
	return !known || lo <= value && value <= hi
}

func (r *tracing) searchBatch(ctx context.Context, t *table.Table, batch []table.File) (*TracedRow, error) {
	paths, release, err := r.Area.Fetch(ctx, batch)
	if err != nil {
		return nil, err
	}
	defer release()
	condition := fmt.Sprintf("%s = %d AND %s = %d", columnPartition, r.Partition, columnOffset, r.Offset)
	for i, f := range batch {
		found, err := selectRows(ctx, r.session, t.Columns(), duck.ReadParquet(t.Columns(), paths[i:i+1]), "WHERE "+condition)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return &TracedRow{Table: t.Name(), Row: found[0], File: f.Key, Snapshot: tracedSnapshot(t, f.Snapshot)}, nil
		}
	}
	return nil, nil
}

// findReject finds the record's row in quarantine, and the snapshot of silver that
// rejected it: the one that was committed together with the row's file.
func (r *tracing) findReject(ctx context.Context) error {
	row, err := r.lookUp(ctx, r.quarantine)
	if err != nil {
		return err
	}
	if row == nil {
		return errLost
	}
	r.Quarantine = &TracedReject{TracedRow: *row}
	if row.Snapshot == nil {
		return nil
	}
	added, ok := r.quarantine.Snapshot(row.Snapshot.ID)
	if !ok {
		return nil
	}
	is, ok, err := ledger.Of[ledger.Quarantine](added)
	if err != nil || !ok {
		return err // compaction has rewritten the file
	}
	for _, s := range r.silver.Ancestors() {
		l, ok, err := ledger.Of[ledger.Silver](s)
		if err != nil {
			return err
		}
		if ok && l.Quarantine == is.ID {
			r.Quarantine.Silver = tracedSnapshot(r.silver, s.ID) // the oldest is the last that is found
		}
	}
	return nil
}
