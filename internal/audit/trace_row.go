package audit

import (
	"context"
	"fmt"
	"slices"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
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
	for _, batch := range batches(list) {
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

// findReject finds the record's row in quarantine, or in a file that silver has
// handed over and quarantine has not taken in yet.
func (r *tracing) findReject(ctx context.Context) error {
	handed, err := r.handovers()
	if err != nil {
		return err
	}
	row, err := r.lookUp(ctx, r.quarantine)
	if err != nil {
		return err
	}
	if row != nil {
		r.Quarantine = &TracedReject{TracedRow: *row}
		if i := slices.IndexFunc(handed, func(h handover) bool { return h.file.Path == row.File }); i >= 0 {
			r.Quarantine.Silver = tracedSnapshot(r.silver, handed[i].snapshot)
		}
		return nil
	}
	for _, h := range handed {
		if h.snapshot == r.quarantineLedger.SilverSnapshot || r.quarantine == nil {
			break
		}
		f, err := r.quarantine.NewFile(h.file)
		if err != nil {
			return err
		}
		row, err := r.search(ctx, r.quarantine, []table.File{f})
		if err != nil {
			return err
		}
		if row != nil {
			r.Quarantine = &TracedReject{*row, tracedSnapshot(r.silver, h.snapshot), true}
			return nil
		}
	}
	return errLost
}

// handover is a file of rejects that a silver snapshot has handed to quarantine.
type handover struct {
	snapshot int64
	file     smelt.DataFile
}

// handovers lists those of silver's snapshots, the newest first.
func (r *tracing) handovers() (out []handover, err error) {
	for _, s := range r.silver.Ancestors() {
		l, _, err := ledger.Of[ledger.Silver](s)
		if err != nil {
			return nil, err
		}
		if l.Rejects != nil {
			out = append(out, handover{s.ID, l.Rejects.File})
		}
	}
	return out, nil
}
