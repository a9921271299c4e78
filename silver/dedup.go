package silver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
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

// span gives the event times between which silver rows may be twins of those in
// work.silver. ok is false when there are none.
func (d *deduplicator) span(ctx context.Context) (lo, hi time.Time, ok bool, err error) {
	column := duck.Quote(d.pipeline.Events.Time)
	var first, last duck.NullTime
	err = d.session.Row(ctx, fmt.Sprintf("SELECT min(%s), max(%s) FROM work.silver", column, column), &first, &last)
	tolerance := d.pipeline.Events.Watermark
	return first.Time.Add(-tolerance), last.Time.Add(tolerance), first.Valid, err
}

// run moves duplicates from work.silver to work.rejects. known are the local
// Parquet files of silver whose rows lie within the span.
func (d *deduplicator) run(ctx context.Context, columns []smelt.Column, known []string, now time.Time) error {
	err := d.session.Exec(ctx,
		"CREATE OR REPLACE TABLE work.kept AS SELECT "+d.columns()+" FROM "+duck.ReadParquet(columns, known),
		"CREATE OR REPLACE TABLE work.duplicates (_partition_id INTEGER, _partition_offset BIGINT, twin VARCHAR)",
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.open AS
			SELECT %s, b._timestamp AS __order FROM work.silver AS s
			JOIN bronze.%s AS b USING (_partition_id, _partition_offset)`, d.columnsOf("s"), duck.Quote(d.pipeline.Name)))
	if err != nil {
		return err
	}
	// Each round settles the first open row of every key, and what lies within
	// the tolerance of a row that is kept. A key needs a second round only when
	// its events lie further apart than the tolerance.
	for {
		var open int64
		if err := d.settle(ctx); err != nil {
			return err
		}
		if err := d.session.Row(ctx, "SELECT count(*) FROM work.open", &open); err != nil {
			return err
		}
		if open == 0 {
			break
		}
	}
	return d.session.Exec(ctx,
		fmt.Sprintf(`INSERT INTO work.rejects
			SELECT _partition_id, _partition_offset, b._timestamp, b._key, NULL, 'silver', '%s', NULL, d.twin, %s
			FROM work.duplicates AS d JOIN bronze.%s AS b USING (_partition_id, _partition_offset)`,
			ReasonDuplicate, timestamp(now), duck.Quote(d.pipeline.Name)),
		`DELETE FROM work.silver USING work.duplicates AS d
			WHERE work.silver._partition_id = d._partition_id AND work.silver._partition_offset = d._partition_offset`)
}

func (d *deduplicator) settle(ctx context.Context) error {
	column := duck.Quote(d.pipeline.Events.Time)
	var keys, same []string
	for _, k := range d.pipeline.Silver.Unique {
		keys = append(keys, duck.Quote(k))
		same = append(same, fmt.Sprintf("o.%s = k.%s", duck.Quote(k), duck.Quote(k)))
	}
	near := fmt.Sprintf("%s AND o.%s BETWEEN k.%s - to_microseconds(%d) AND k.%s + to_microseconds(%d)",
		strings.Join(same, " AND "), column, column, d.pipeline.Events.Watermark.Microseconds(), column, d.pipeline.Events.Watermark.Microseconds())
	hasNull := "(" + strings.Join(keys, " IS NULL OR ") + " IS NULL)"
	return d.session.Exec(ctx,
		`CREATE OR REPLACE TABLE work.twins AS
			SELECT o._partition_id, o._partition_offset, min_by(k._partition_id || ':' || k._partition_offset, (k._partition_id, k._partition_offset)) AS twin
			FROM work.open AS o JOIN work.kept AS k ON `+near+` GROUP BY ALL`,
		"INSERT INTO work.duplicates FROM work.twins",
		"DELETE FROM work.open USING work.twins AS t WHERE work.open._partition_id = t._partition_id AND work.open._partition_offset = t._partition_offset",
		"DELETE FROM work.open WHERE "+hasNull,
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.first AS
			SELECT %s FROM work.open QUALIFY row_number() OVER (PARTITION BY %s ORDER BY __order NULLS FIRST, _partition_id, _partition_offset) = 1`,
			d.columns(), strings.Join(keys, ", ")),
		"INSERT INTO work.kept FROM work.first",
		"DELETE FROM work.open USING work.first AS f WHERE work.open._partition_id = f._partition_id AND work.open._partition_offset = f._partition_offset")
}

// columns lists what is needed of a row: its key, its time and its lineage.
func (d *deduplicator) columns() string { return d.columnsOf("") }

func (d *deduplicator) columnsOf(alias string) string {
	if alias != "" {
		alias += "."
	}
	var out []string
	for _, k := range d.pipeline.Silver.Unique {
		if k != d.pipeline.Events.Time {
			out = append(out, alias+duck.Quote(k))
		}
	}
	out = append(out, alias+duck.Quote(d.pipeline.Events.Time), alias+colPartition, alias+colOffset)
	return strings.Join(out, ", ")
}
