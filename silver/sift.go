package silver

import (
	"context"
	"fmt"
	"time"

	"smelt/bronze"
)

// sift puts what is in bronze files, or of that the records whose lineage is
// wanted, into work.silver and work.rejects, with what it read in work.records.
func (r *Refiner) sift(ctx context.Context, paths []string, longest int64, wanted string, now time.Time) error {
	if err := r.extract.extract(ctx, paths, longest); err != nil {
		return err
	}
	if wanted != "" {
		err := r.session.Exec(ctx, "DELETE FROM work.records WHERE (_partition_id, _partition_offset) NOT IN (SELECT _partition_id, _partition_offset FROM "+wanted+")")
		if err != nil {
			return err
		}
	}
	if err := r.transform.transform(ctx, r.refs, now); err != nil {
		return err
	}
	return r.transform.reject(ctx, now)
}

// partBytes is how much of an object that does not fit into memory as a whole
// is taken at a time. DuckDB's JSON functions hold what they parse of up to 2,048
// records at once, and short numbers take eight times their length there.
const partBytes = 2 << 20

// siftParts does the same with a few lines of one object at a time. Of what it
// read it keeps in work.records what deduplication needs.
func (r *Refiner) siftParts(ctx context.Context, path, wanted string, now time.Time) error {
	gathered := []struct{ name, columns string }{
		{"silver", "*"},
		{"rejects", "*"},
		{"records", "_partition_id, _partition_offset, _timestamp, _key, __tombstone, __reason"},
	}
	gather := "CREATE OR REPLACE TABLE work.all_%s AS SELECT %s FROM work.%s"
	err := bronze.Split(path, partBytes, func(part string, longest int64) error {
		if err := r.sift(ctx, []string{part}, longest, wanted, now); err != nil {
			return err
		}
		for _, g := range gathered {
			if err := r.session.Exec(ctx, fmt.Sprintf(gather, g.name, g.columns, g.name)); err != nil {
				return err
			}
		}
		gather = "INSERT INTO work.all_%s SELECT %s FROM work.%s"
		return nil
	})
	if err != nil {
		return err
	}
	for _, g := range gathered {
		err := r.session.Exec(ctx,
			"TRUNCATE work."+g.name,
			fmt.Sprintf("INSERT INTO work.%s BY NAME FROM work.all_%s", g.name, g.name),
			"DROP TABLE work.all_"+g.name)
		if err != nil {
			return err
		}
	}
	return nil
}
