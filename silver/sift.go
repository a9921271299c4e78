package silver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/internal/columns"
	"smelt/internal/duck"
	"smelt/internal/events"
)

// sifted is what became of some records: rows for silver, and rejects.
type sifted struct {
	rows    []siftedRow
	groups  []group
	rejects *rejects
	twins   *twins // of the rows, when the pipeline says what is unique
}

// siftedRow is a row of silver by its record. Its other columns are computed when
// it is written.
type siftedRow struct {
	record    int32 // row of the records
	group     int32
	at        int64 // event time, in microseconds since 1970
	unmatched bool  // it lacks a reference row
	gone      bool  // it repeats another row
}

// group is the rows of one partition value.
type group struct {
	values []any
	rows   int
}

// sift runs silver.sql over the records that fit the declaration. It selects only the
// columns that judge and place a row. partition are the expressions of silver's
// partitioning.
func (r *Refiner) sift(ctx context.Context, now time.Time, partition []duck.PartitionValue) (*sifted, error) {
	r.shown.Only = r.records.good
	r.rejects.reset()
	for _, f := range r.records.faults {
		r.rejects.add(r.records, f.row, f.Fault, now)
	}
	s := &sifted{rejects: r.rejects, rows: r.rows[:0]}
	if len(r.records.good) == 0 {
		return s, nil
	}
	if err := r.unmatched(ctx); err != nil {
		return nil, err
	}
	if len(r.Pipeline.Silver.Unique) > 0 {
		r.twins.reset()
		s.twins = r.twins
	}
	n := narrow{sifted: s, refiner: r, partition: len(partition), now: now, groups: map[string]int32{},
		places: newPlaces(r.records), given: make([]bool, r.records.Batch.Len())}
	k := r.keys()
	query := fmt.Sprintf("SELECT %s, %s, epoch_us(%s), %s, %s", colPartition, colOffset, duck.Quote(k.time), r.transform.failed(), colUnmatched)
	for _, p := range partition {
		query += ", " + p.Expr
	}
	for _, expr := range k.exprs {
		query += ", " + fmt.Sprintf(expr, "s")
	}
	if err := r.session.Chunks(ctx, query+" FROM "+r.silverRows(now)+" AS s", n.take); err != nil {
		if n.broken != nil {
			return nil, n.broken
		}
		return nil, r.transform.blame(err)
	}
	r.rows = s.rows // with the memory that they have grown to
	for _, row := range r.records.good {
		if !n.given[row] {
			s.rejects.add(r.records, row, events.Fault{Reason: ReasonFiltered}, now)
		}
	}
	return s, nil
}

// narrow takes the rows of the narrow query.
type narrow struct {
	*sifted
	refiner   *Refiner
	partition int // how many columns of it there are
	now       time.Time
	groups    map[string]int32
	places    *places
	given     []bool // records that have a row
	key       []byte
	broken    error
}

// The columns of the narrow query; those of the partitioning and the keys follow.
const (
	narrowPartition = iota
	narrowOffset
	narrowTime
	narrowFailed
	narrowUnmatched
	narrowOthers
)

func (n *narrow) take(c duck.Chunk) error {
	records := n.refiner.records
	parts, keys := c.Columns[narrowOthers:narrowOthers+n.partition], c.Columns[narrowOthers+n.partition:]
	for i := range c.Len {
		partition, offset := c.Columns[narrowPartition].Int32(i), c.Columns[narrowOffset].Int64(i)
		record, ok := n.places.find(partition, offset)
		if !ok || n.given[record] {
			n.broken = n.refiner.transform.twice(partition, offset, ok)
			return n.broken
		}
		n.given[record] = true
		if failed := c.Columns[narrowFailed]; failed.Valid(i) {
			x := n.refiner.transform.expect[failed.Int32(i)]
			n.rejects.add(records, record, events.Fault{Reason: x.Name, Field: x.field}, n.now)
			continue
		}
		row := siftedRow{record: record, at: c.Columns[narrowTime].Int64(i), group: n.group(parts, i), unmatched: c.Columns[narrowUnmatched].Valid(i)}
		if n.twins != nil {
			var whole bool
			if n.key, whole = appendKey(n.key[:0], keys, i); whole {
				had := int64(noTime)
				if at := records.column(atTimestamp); at.Valid(int(record)) {
					had = at.Int(int(record))
				}
				n.twins.add(n.key, seen{row.at, had, partition, offset, int32(len(n.rows))})
			}
		}
		n.rows = append(n.rows, row)
	}
	return nil
}

// group gives the number of a row's partition values.
func (n *narrow) group(parts []duck.Vector, i int) int32 {
	n.key = n.key[:0]
	for _, v := range parts {
		n.key = v.AppendKey(n.key, i)
	}
	g, ok := n.groups[string(n.key)]
	if !ok {
		g = int32(len(n.sifted.groups))
		n.groups[string(n.key)] = g
		values := make([]any, len(parts))
		for j, v := range parts {
			values[j] = v.Value(i)
		}
		n.sifted.groups = append(n.sifted.groups, group{values: values})
	}
	n.sifted.groups[g].rows++
	return g
}

// reject takes rows out that repeat others.
func (s *sifted) reject(records *Records, found []twin, now time.Time) {
	for _, t := range found {
		row := &s.rows[t.row.row]
		row.gone = true
		s.groups[row.group].rows--
		s.rejects.add(records, row.record, events.Fault{Reason: ReasonDuplicate, Detail: t.detail()}, now)
	}
}

// silverRows is the query that gives silver's rows: what silver.sql makes of the
// records that are shown, and smelt's own columns.
func (r *Refiner) silverRows(now time.Time) string {
	casts := make([]string, 0, len(r.transform.columns))
	for _, c := range r.transform.columns[:len(r.transform.columns)-len(ownColumns)] {
		casts = append(casts, fmt.Sprintf("s.%s::%s AS %[1]s", duck.Quote(c.Name), c.Type))
	}
	names, join := "NULL::VARCHAR", ""
	if len(r.lacking.Only) > 0 {
		names, join = "u.names", fmt.Sprintf(" LEFT JOIN work.unmatched AS u USING (%s, %s)", colPartition, colOffset)
	}
	own := []string{
		duck.Timestamp(now) + " AS " + colIngestedAt,
		fmt.Sprintf("%d::BIGINT AS %s", r.refs.Version, colReferenceVersion),
		names + " AS " + colUnmatched,
		"NULL::TIMESTAMPTZ AS " + colRebuiltAt,
	}
	return fmt.Sprintf("(SELECT %s FROM work.transform AS s%s)", strings.Join(append(casts, own...), ", "), join)
}

// Matches is the condition that a column of a relation equals the key of a reference's row.
// It compares by value and never throws. A text that is not a value of the key's type
// matches no row.
func (r *Refiner) Matches(ref smelt.Reference, relation string, column smelt.Column, row string) string {
	value, key := relation+"."+duck.Quote(column.Name), row+"."+duck.Quote(ref.Key)
	have, want := column.Type.String(), column.Type.String()
	for _, t := range r.refs.Tables {
		for _, c := range t.Columns {
			if t.Reference.Name == ref.Name && c.Name == ref.Key {
				want = c.Type.String()
			}
		}
	}
	switch {
	case have == want || numeric(have) && numeric(want):
	case have == "VARCHAR":
		value = "TRY_CAST(" + value + " AS " + want + ")"
	case want == "VARCHAR":
		key = "TRY_CAST(" + key + " AS " + have + ")"
	default:
		value, key = value+"::VARCHAR", key+"::VARCHAR"
	}
	return value + " = " + key
}

// numeric says whether DuckDB compares a type with other numbers by value.
func numeric(t string) bool {
	return strings.HasSuffix(t, "INT") || t == "INTEGER" || t == "FLOAT" || t == "DOUBLE" || strings.HasPrefix(t, "DECIMAL")
}

// unmatchedColumns are those of work.unmatched: the records that lack a row in some
// references, and the names of these.
var unmatchedColumns = []smelt.Column{
	{Name: colPartition, Type: smelt.Type{Name: "integer"}},
	{Name: colOffset, Type: smelt.Type{Name: "bigint"}},
	{Name: "names", Type: smelt.Type{Name: "varchar"}},
}

// unmatched finds the records without a row in a reference. A NULL key needs no row.
func (r *Refiner) unmatched(ctx context.Context) error {
	b := r.lacking.Batch
	b.Reset()
	r.lacking.Only = r.lacking.Only[:0]
	if len(r.Pipeline.References) == 0 {
		return nil
	}
	bronze := "bronze." + duck.Quote(r.Pipeline.Name)
	var parts []string
	for _, ref := range r.Pipeline.References {
		on := smelt.Column{}
		for _, c := range r.Pipeline.Events.Columns {
			if c.Name == ref.On {
				on = c
			}
		}
		parts = append(parts, fmt.Sprintf("SELECT %s, %s, %s AS name FROM %s AS b ANTI JOIN reference.%s AS r ON %s WHERE b.%s IS NOT NULL",
			colPartition, colOffset, duck.Literal(ref.Name), bronze, duck.Quote(ref.Name), r.Matches(ref, "b", on, "r"), duck.Quote(ref.On)))
	}
	query := fmt.Sprintf("SELECT %s, %s, string_agg(name, ', ' ORDER BY name) FROM (%s) GROUP BY ALL", colPartition, colOffset, strings.Join(parts, " UNION ALL "))
	return r.session.Chunks(ctx, query, func(c duck.Chunk) error {
		for i := range c.Len {
			n := b.Add()
			b.Columns[0].SetInt(n, int64(c.Columns[0].Int32(i)))
			b.Columns[1].SetInt(n, c.Columns[1].Int64(i))
			b.Columns[2].SetText(n, b.Keep(c.Columns[2].Text(i)))
			r.lacking.Only = append(r.lacking.Only, int32(n))
		}
		return nil
	})
}

// places finds records by their lineage. Those of a partition come in rising order.
type places struct {
	records *Records
	runs    map[int32]*run
}

// run is the records of a partition that fit the declaration.
type run struct {
	offsets []int64
	rows    []int32
	next    int // after the one that was found last
}

func newPlaces(r *Records) *places {
	p := &places{records: r, runs: map[int32]*run{}}
	var last *run
	lastPartition := int32(-1)
	for _, row := range r.good {
		partition, offset := r.lineage(row)
		if last == nil || partition != lastPartition {
			lastPartition = partition
			if last = p.runs[partition]; last == nil {
				last = &run{}
				p.runs[partition] = last
			}
		}
		last.offsets, last.rows = append(last.offsets, offset), append(last.rows, row)
	}
	return p
}

// find gives the row of a record.
func (p *places) find(partition int32, offset int64) (row int32, ok bool) {
	run := p.runs[partition]
	if run == nil {
		return 0, false
	}
	if run.next == len(run.offsets) || run.offsets[run.next] != offset {
		i, found := slices.BinarySearch(run.offsets, offset)
		if !found {
			return 0, false
		}
		run.next = i
	}
	run.next++
	return run.rows[run.next-1], true
}

// newLacking makes the source of work.unmatched.
func newLacking() *duck.BatchRows { return duck.NewBatchRows(columns.New(unmatchedColumns)) }
