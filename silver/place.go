package silver

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// place writes the rows as Parquet, a file a partition value, in the order of their
// event time.
func (r *Refiner) place(ctx context.Context, t *table.Table, s *sifted, dir string, now time.Time) ([]smelt.DataFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	layout := duck.Layout{FieldIDs: t.FieldIDs(), Partition: duck.PartitionValues(t.Partition())}
	if len(r.Pipeline.References) > 0 { // DuckDB may turn a join around, and then its rows come in another order
		layout.Sort = fmt.Sprintf("%s, %s, %s", duck.Quote(r.Pipeline.Events.Time), colPartition, colOffset)
	}
	relation := staging.Relation(r.silverRows(now), t, r.transform.columns)
	var files []smelt.DataFile
	for n, g := range s.inOrder() {
		if len(g.rows) == 0 {
			continue
		}
		r.shown.Only = g.rows
		file, err := r.session.WriteFile(ctx, relation, filepath.Join(dir, fmt.Sprintf("%05d.parquet", n)), layout)
		if err != nil {
			return nil, r.transform.blame(err)
		}
		if file.Rows != int64(len(g.rows)) {
			return nil, fmt.Errorf("silver.sql gave %d rows and then, for the same records, %d: this is a bug in smelt, and nothing was committed", len(g.rows), file.Rows)
		}
		file.Partition = layout.Values(g.values)
		files = append(files, file)
	}
	return files, nil
}

// ordered is the records of a partition value, in the order of their event time.
type ordered struct {
	values []any
	rows   []int32
}

// inOrder gives the rows that stay, by partition value.
func (s *sifted) inOrder() []ordered {
	sorted := make([][]siftedRow, len(s.groups))
	for i, g := range s.groups {
		sorted[i] = make([]siftedRow, 0, g.rows)
	}
	for _, row := range s.rows {
		if !row.gone {
			sorted[row.group] = append(sorted[row.group], row)
		}
	}
	out := make([]ordered, len(s.groups))
	for i, rows := range sorted {
		slices.SortFunc(rows, func(a, b siftedRow) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.record, b.record)) })
		out[i] = ordered{s.groups[i].values, make([]int32, len(rows))}
		for j, row := range rows {
			out[i].rows[j] = row.record
		}
	}
	return out
}

// stay are the records of the rows that stay, in their order.
func (s *sifted) stay() []int32 {
	rows := make([]int32, 0, len(s.rows))
	for _, row := range s.rows {
		if !row.gone {
			rows = append(rows, row.record)
		}
	}
	return rows
}

// unmatched is how many of the rows that stay lack a reference row.
func (s *sifted) unmatched() (n int64) {
	for _, row := range s.rows {
		if row.unmatched && !row.gone {
			n++
		}
	}
	return n
}

// newest is the latest event time of the rows that stay. ok is false without such rows.
func (s *sifted) newest() (at time.Time, ok bool) {
	var last int64
	for _, row := range s.rows {
		if !row.gone && (!ok || row.at > last) {
			last, ok = row.at, true
		}
	}
	return time.UnixMicro(last).UTC(), ok
}
