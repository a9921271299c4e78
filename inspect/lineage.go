package inspect

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// batchBytes of bronze objects or data files, compressed, are on the local disk at
// a time: large enough for DuckDB to use all cores.
const batchBytes = 256 << 20

// The layers of work.seen, which has the lineage of every record and row.
const (
	layerRecord     = 0
	layerTombstone  = 1
	layerSilver     = 2
	layerQuarantine = 3
)

// Columns of silver and quarantine that the recount reads.
var lineage = []smelt.Column{
	{Name: "_partition_id", Type: smelt.Type{Name: "bigint"}},
	{Name: "_partition_offset", Type: smelt.Type{Name: "bigint"}},
}

// countSilver reads the lineage of all silver rows.
func (r *recounting) countSilver(ctx context.Context) error {
	list, err := files(ctx, r.silver)
	if err != nil {
		return err
	}
	columns := append(slices.Clone(lineage), smelt.Column{Name: "_unmatched", Type: smelt.Type{Name: "varchar"}})
	return r.readFiles(ctx, list, columns, layerSilver, func(from string) error {
		var n, unmatched int64
		err := r.session.Row(ctx, "SELECT count(*), count(_unmatched) FROM "+from, &n, &unmatched)
		r.verdict.Silver += n
		r.verdict.Unmatched += unmatched
		return err
	})
}

// countQuarantine reads the lineage of all that is in quarantine.
func (r *recounting) countQuarantine(ctx context.Context) error {
	list, err := files(ctx, r.quarantine)
	if err != nil {
		return err
	}
	columns := append(slices.Clone(lineage), smelt.Column{Name: "reason", Type: smelt.Type{Name: "varchar"}})
	return r.readFiles(ctx, list, columns, layerQuarantine, func(from string) error {
		found, err := r.session.Query(ctx, "SELECT coalesce(reason, ''), count(*) FROM "+from+" GROUP BY reason")
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var reason string
			var n int64
			if err := found.Scan(&reason, &n); err != nil {
				return err
			}
			r.verdict.Quarantined[reason] += n
			r.verdict.Quarantine += n
		}
		return found.Err()
	})
}

// readFiles adds the lineage of data files to work.seen, and lets count look at
// each batch of them.
func (r *recounting) readFiles(ctx context.Context, list []table.File, columns []smelt.Column, layer int, count func(from string) error) error {
	for _, batch := range staging.Batches(list, staging.FileSize, math.MaxInt, batchBytes) {
		paths, release, err := r.Area.Fetch(ctx, batch)
		if err != nil {
			return err
		}
		from := duck.ReadParquet(columns, paths)
		err = r.session.Exec(ctx, fmt.Sprintf("INSERT INTO work.seen SELECT _partition_id, _partition_offset, %d FROM %s", layer, from))
		if err == nil {
			err = count(from)
		}
		release()
		if err != nil {
			return err
		}
	}
	return nil
}

// keys are the keys of both maps, sorted.
func keys[K int32 | string, A, B any](a map[K]A, b map[K]B) []K {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
