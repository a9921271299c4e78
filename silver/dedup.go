package silver

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/table"
)

// Fresh are rows that may repeat what silver has.
type Fresh struct {
	Rows    string // the relation that has them, with silver's columns
	Records string // a relation with the lineage, _timestamp and _key of each
	Beside  string // rows that are as good as in silver, though not in its files
	Left    string // a table of the lineages of rows that silver's files still have, and that have left
}

// Duplicates fills work.duplicates with the lineage of each fresh row that
// repeats one of silver, or an earlier fresh one, and that of its twin.
func (r *Refiner) Duplicates(ctx context.Context, t *table.Table, fresh Fresh) error {
	found := newTwins(r.Pipeline.Events.Watermark.Microseconds())
	k := r.keys()
	var lo, hi int64
	rows := fmt.Sprintf("SELECT %s, epoch_us(b._timestamp) FROM %s AS s JOIN %s AS b USING (%s, %s)", k.columns("s"), fresh.Rows, fresh.Records, colPartition, colOffset)
	err := k.each(ctx, r.session, rows, func(key []byte, row seen) {
		if len(found.rows) == 0 {
			lo, hi = row.at, row.at
		}
		lo, hi = min(lo, row.at), max(hi, row.at)
		found.add(key, row)
	})
	if err != nil {
		return err
	}
	beside := fmt.Sprintf("SELECT %s, NULL::BIGINT FROM %s AS s", k.columns("s"), fresh.Beside)
	if err := k.each(ctx, r.session, beside, found.meet); err != nil {
		return err
	}
	if err := r.meetSilver(ctx, t, found, lo, hi, fresh.Left); err != nil {
		return err
	}
	columns := []smelt.Column{rejectColumns[0], rejectColumns[1], {Name: "twin", Type: smelt.Type{Name: "varchar"}}}
	return r.session.Load(ctx, "work", "duplicates", columns, rowsOf(found.found()))
}

// nearBytes of silver's files are looked at by one query, whose result is held in
// memory.
const nearBytes = 64 << 20

// meetSilver shows the rows of silver that may be twins of rows with event times
// between lo and hi: those of the files around, without those that have left.
func (r *Refiner) meetSilver(ctx context.Context, t *table.Table, found *twins, lo, hi int64, left string) error {
	current, committed := t.Current()
	if len(found.rows) == 0 || !committed {
		return nil
	}
	files, err := t.Files(ctx, current.ID)
	if err != nil {
		return err
	}
	lo, hi = lo-found.tolerance, hi+found.tolerance
	var near []table.File
	size := int64(0)
	for _, f := range files {
		first, last, known := f.Range(r.Pipeline.Events.Time)
		if known && (last.UnixMicro() < lo || first.UnixMicro() > hi) {
			continue
		}
		near, size = append(near, f), size+f.Bytes
		if size >= nearBytes {
			if err := r.meetFiles(ctx, near, found, lo, hi, left); err != nil {
				return err
			}
			near, size = nil, 0
		}
	}
	return r.meetFiles(ctx, near, found, lo, hi, left)
}

func (r *Refiner) meetFiles(ctx context.Context, files []table.File, found *twins, lo, hi int64, left string) error {
	if len(files) == 0 {
		return nil
	}
	paths, release, err := r.Area.Fetch(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	k := r.keys()
	query := fmt.Sprintf("SELECT %s, NULL::BIGINT FROM %s AS s WHERE s.%s BETWEEN make_timestamptz(%d) AND make_timestamptz(%d)",
		k.columns("s"), duck.ReadParquet(r.transform.columns, paths), duck.Quote(k.time), lo, hi)
	if left != "" {
		query += fmt.Sprintf(" AND (%s, %s) NOT IN (SELECT %[1]s, %[2]s FROM %[3]s)", colPartition, colOffset, left)
	}
	return k.each(ctx, r.session, query, found.meet)
}

// keys are the columns by which rows repeat each other.
type keys struct {
	exprs []string // with %s for the relation
	time  string
}

func (r *Refiner) keys() keys {
	k := keys{time: r.Pipeline.Events.Time}
	for _, name := range r.Pipeline.Silver.Unique {
		expr := "%[1]s." + strings.ReplaceAll(duck.Quote(name), "%", "%%")
		for _, c := range r.transform.columns {
			if c.Name == name && !c.Type.Scalar() {
				expr = "to_json(" + expr + ")::VARCHAR"
			}
		}
		k.exprs = append(k.exprs, expr)
	}
	return k
}

// columns selects the keys, the time and the lineage of a relation's rows.
func (k keys) columns(relation string) string {
	list := fmt.Sprintf(strings.Join(k.exprs, ", "), relation)
	return fmt.Sprintf("%[1]s, epoch_us(%[2]s.%[3]s), %[2]s.%[4]s, %[2]s.%[5]s", list, relation, duck.Quote(k.time), colPartition, colOffset)
}

// each runs a query that selects columns, and when the broker had the record. It
// leaves out keys with a NULL in them, which are like no other.
func (k keys) each(ctx context.Context, session *duck.Session, query string, yield func(key []byte, row seen)) error {
	n := len(k.exprs)
	var key []byte
	return session.Chunks(ctx, query, func(c duck.Chunk) error {
		for i := range c.Len {
			var whole bool
			if key, whole = appendKey(key[:0], c.Columns[:n], i); !whole {
				continue
			}
			row := seen{at: c.Columns[n].Int64(i), had: noTime, partition: c.Columns[n+1].Int32(i), offset: c.Columns[n+2].Int64(i)}
			if had := c.Columns[n+3]; had.Valid(i) {
				row.had = had.Int64(i)
			}
			yield(key, row)
		}
		return nil
	})
}

// appendKey appends the key of a row. whole is false when there is a NULL in it.
func appendKey(dst []byte, columns []duck.Vector, row int) (key []byte, whole bool) {
	for _, v := range columns {
		if !v.Valid(row) {
			return dst, false
		}
		dst = v.AppendKey(dst, row)
	}
	return dst, true
}

// DuplicateRejects is the query that gives the rejects for duplicates: a
// relation like work.duplicates, with the relation of their records.
func DuplicateRejects(duplicates, records string, now time.Time) string {
	return fmt.Sprintf(`SELECT _partition_id, _partition_offset, b._timestamp, b._key, b._value AS raw, 'silver' AS stage, '%s' AS reason,
			NULL AS field, d.twin AS detail, %s AS quarantined_at
		FROM %s AS d JOIN %s AS b USING (_partition_id, _partition_offset)`, ReasonDuplicate, duck.Timestamp(now), duplicates, records)
}

// rowsOf gives twins as rows: the duplicate's lineage, and that of its twin.
func rowsOf(twins []twin) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for _, t := range twins {
			if !yield([]any{t.row.partition, t.row.offset, t.detail()}, nil) {
				return
			}
		}
	}
}

// detail is how quarantine names the row that a duplicate repeats.
func (t twin) detail() string { return fmt.Sprintf("%d:%d", t.of.partition, t.of.offset) }
