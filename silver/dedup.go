package silver

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/table"
)

// deduplicator keeps, of rows that share the declared key, the first. Two rows
// are the same event when their keys are equal and their event times are no
// more than the watermark apart; a key with a NULL in it is like no other. So
// only the silver files around the new rows' times are looked at, and what is a
// duplicate does not depend on how rows are spread over files.
type deduplicator struct {
	session  *duck.Session
	pipeline *smelt.Pipeline
}

// Fresh are rows that may repeat what silver has.
type Fresh struct {
	Rows    string // the relation that has them, with silver's columns
	Records string // a relation with the lineage, _timestamp and _key of each
	Beside  string // rows that are as good as in silver, though not in its files; "" for none
	Left    string // a table of the lineages of rows in silver's files that are there no more; "" for none
}

// Duplicates fills work.duplicates with the lineage of each fresh row that
// repeats one of silver, or an earlier fresh one, and that of its twin.
func (r *Refiner) Duplicates(ctx context.Context, t *table.Table, fresh Fresh) error {
	lo, hi, ok, err := r.dedup.span(ctx, fresh)
	if err != nil {
		return err
	}
	var near []table.File
	if current, committed := t.Current(); ok && committed {
		files, err := t.Files(ctx, current.ID)
		if err != nil {
			return err
		}
		for _, f := range files {
			first, last, known := f.Range(r.Pipeline.Events.Time)
			if !known || !last.Before(lo) && !first.After(hi) {
				near = append(near, f)
			}
		}
	}
	paths, release, err := r.Area.Fetch(ctx, near)
	if err != nil {
		return err
	}
	defer release()
	return r.dedup.find(ctx, fresh, duck.ReadParquet(r.transform.columns, paths))
}

// DuplicateRejects is the query that gives the rejects for duplicates: a
// relation like work.duplicates, with the relation of their records.
func DuplicateRejects(duplicates, records string, now time.Time) string {
	return fmt.Sprintf(`SELECT _partition_id, _partition_offset, b._timestamp, b._key, NULL AS raw, 'silver' AS stage, '%s' AS reason,
			NULL AS field, d.twin AS detail, %s AS quarantined_at
		FROM %s AS d JOIN %s AS b USING (_partition_id, _partition_offset)`, ReasonDuplicate, duck.Timestamp(now), duplicates, records)
}

// span gives the event times between which silver rows may be twins of fresh
// ones. ok is false when there are none.
func (d *deduplicator) span(ctx context.Context, fresh Fresh) (lo, hi time.Time, ok bool, err error) {
	column := duck.Quote(d.pipeline.Events.Time)
	var first, last duck.NullTime
	err = d.session.Row(ctx, fmt.Sprintf("SELECT min(%s), max(%s) FROM %s", column, column, fresh.Rows), &first, &last)
	tolerance := d.pipeline.Events.Watermark
	return first.Time.Add(-tolerance), last.Time.Add(tolerance), first.Valid, err
}

// find fills work.duplicates. silver is the relation of the rows of silver that lie
// within the span.
func (d *deduplicator) find(ctx context.Context, fresh Fresh, silver string) error {
	if err := d.gather(ctx, fresh, silver); err != nil {
		return err
	}
	twins, err := d.twins(ctx)
	if err != nil {
		return err
	}
	found := []smelt.Column{rejectColumns[0], rejectColumns[1], {Name: "twin", Type: smelt.Type{Name: "varchar"}}}
	return d.session.Load(ctx, "work", "duplicates", found, rowsOf(twins))
}

// gather fills work.seen with the rows, new and known, of every key that
// several rows share, a new one among them. Most keys are not shared.
func (d *deduplicator) gather(ctx context.Context, fresh Fresh, silver string) error {
	keys := make([]string, len(d.pipeline.Silver.Unique))
	given := make([]string, len(keys))
	for i, k := range d.pipeline.Silver.Unique {
		keys[i] = duck.Quote(k)
		given[i] = keys[i] + " IS NOT NULL"
	}
	list, at := strings.Join(keys, ", "), duck.Quote(d.pipeline.Events.Time)
	whole := " WHERE " + strings.Join(given, " AND ")
	columns := "SELECT " + list + ", " + at + ", _partition_id, _partition_offset FROM "
	known := columns + silver + whole
	if fresh.Left != "" {
		known += " AND (_partition_id, _partition_offset) NOT IN (SELECT _partition_id, _partition_offset FROM " + fresh.Left + ")"
	}
	if fresh.Beside != "" {
		known += " UNION ALL " + columns + fresh.Beside + whole
	}
	return d.session.Exec(ctx,
		"CREATE OR REPLACE VIEW work.known AS "+known,
		"CREATE OR REPLACE VIEW work.new AS "+columns+fresh.Rows+whole,
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.shared AS
			SELECT *, row_number() OVER () AS __id FROM (
				SELECT %[1]s FROM (SELECT %[1]s, 1 AS __new FROM work.new UNION ALL SELECT %[1]s, 0 FROM work.known)
				GROUP BY ALL HAVING count(*) > 1 AND max(__new) = 1)`, list),
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.seen AS
			SELECT __id, true AS known, NULL::TIMESTAMPTZ AS had, epoch_us(k.%[2]s) AS micros, _partition_id, _partition_offset
			FROM work.known AS k JOIN work.shared USING (%[1]s)
			UNION ALL
			SELECT __id, false, b._timestamp, epoch_us(n.%[2]s), n._partition_id, n._partition_offset
			FROM work.new AS n JOIN work.shared USING (%[1]s)
			JOIN %[3]s AS b ON b._partition_id = n._partition_id AND b._partition_offset = n._partition_offset`,
			list, at, fresh.Records))
}

// seen is a row by its event time and lineage.
type seen struct {
	at        int64 // microseconds since 1970
	partition int32
	offset    int64
}

// twin is a duplicate and the row that it is one of.
type twin struct{ row, of seen }

// twins goes through work.seen key by key, in the order in which the broker had
// the rows: one that is near to a row that stays is a duplicate of it, any other
// one stays.
func (d *deduplicator) twins(ctx context.Context) ([]twin, error) {
	rows, err := d.session.Query(ctx, `SELECT __id, known, micros, _partition_id, _partition_offset FROM work.seen
		ORDER BY __id, known DESC, had NULLS FIRST, _partition_id, _partition_offset`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []twin
	var kept []seen // of the key, in the order of their times
	last := int64(0)
	for rows.Next() {
		var id int64
		var known bool
		var row seen
		if err := rows.Scan(&id, &known, &row.at, &row.partition, &row.offset); err != nil {
			return nil, fmt.Errorf("rows of the same key: %w", err)
		}
		if id != last {
			kept, last = kept[:0], id
		}
		i, _ := slices.BinarySearchFunc(kept, row.at, func(k seen, at int64) int { return cmp.Compare(k.at, at) })
		if of, ok := d.near(kept, i, row); ok && !known {
			found = append(found, twin{row, of})
			continue
		}
		kept = slices.Insert(kept, i, row)
	}
	return found, rows.Err()
}

// near looks around place i of kept for rows within the tolerance, and gives
// the one with the lowest lineage.
func (d *deduplicator) near(kept []seen, i int, row seen) (of seen, ok bool) {
	tolerance := d.pipeline.Events.Watermark.Microseconds()
	take := func(k seen) {
		if !ok || cmp.Or(cmp.Compare(k.partition, of.partition), cmp.Compare(k.offset, of.offset)) < 0 {
			of, ok = k, true
		}
	}
	for j := i; j < len(kept) && kept[j].at-row.at <= tolerance; j++ {
		take(kept[j])
	}
	for j := i - 1; j >= 0 && row.at-kept[j].at <= tolerance; j-- {
		take(kept[j])
	}
	return of, ok
}

// rowsOf gives twins as rows: the duplicate's lineage, and that of its twin.
func rowsOf(twins []twin) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for _, t := range twins {
			if !yield([]any{t.row.partition, t.row.offset, fmt.Sprintf("%d:%d", t.of.partition, t.of.offset)}, nil) {
				return
			}
		}
	}
}
