package silver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/events"
)

// Columns of every silver table beside those of silver.sql. The first two
// silver.sql itself must carry.
const (
	colPartition        = "_partition_id"
	colOffset           = "_partition_offset"
	colIngestedAt       = "_ingested_at"
	colReferenceVersion = "_reference_version"
	colUnmatched        = "_unmatched"
	colRebuiltAt        = "_rebuilt_at"
)

var ownColumns = []smelt.Column{
	{Name: colIngestedAt, Type: smelt.Type{Name: "timestamptz"}},
	{Name: colReferenceVersion, Type: smelt.Type{Name: "bigint"}},
	{Name: colUnmatched, Type: smelt.Type{Name: "varchar"}},
	{Name: colRebuiltAt, Type: smelt.Type{Name: "timestamptz"}},
}

// TableColumns gives the columns of a silver table whose silver.sql gives the
// columns of result.
func TableColumns(result []smelt.Column) []smelt.Column { return slices.Concat(result, ownColumns) }

// transformer is silver.sql as a view over bronze.<pipeline>, and what its rows
// must meet.
type transformer struct {
	session  *duck.Session
	pipeline *smelt.Pipeline
	expect   []expectation
	columns  []smelt.Column // of the silver table
}

// expectation is a declared condition, with the column that it is about.
type expectation struct {
	smelt.Expectation
	field string
}

// bind loads the references, makes silver.sql a view and learns its columns.
// What is wrong with silver.sql itself [Check] has already said; an error here
// comes from the references' real columns.
func (t *transformer) bind(ctx context.Context, refs smelt.ReferenceSet) error {
	if err := t.load(ctx, refs); err != nil {
		return err
	}
	file := t.pipeline.Name + "/silver.sql"
	if err := t.session.Exec(ctx, "CREATE OR REPLACE VIEW work.transform AS "+t.pipeline.Silver.SQL); err != nil {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s: %w", file, err))
	}
	columns, err := t.session.Describe(ctx, "FROM work.transform")
	if err != nil {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s: %w", file, err))
	}
	if t.columns, err = stored(columns); err != nil {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s: %w", file, err))
	}
	t.columns = TableColumns(t.columns)
	if t.expect != nil {
		return nil
	}
	// Gold could place no row without an event time in a window.
	at := t.pipeline.Events.Time
	t.expect = []expectation{{smelt.Expectation{Name: events.ReasonMissing, Condition: duck.Quote(at) + " IS NOT NULL"}, at}}
	for _, x := range t.pipeline.Silver.Expect {
		parsed, err := t.session.Parse(ctx, "SELECT "+x.Condition)
		if err != nil {
			return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("expectation %q: %w", x.Name, err))
		}
		e := expectation{Expectation: x}
		if len(parsed.Columns) > 0 {
			e.field = parsed.Columns[0].Path[0]
		}
		t.expect = append(t.expect, e)
	}
	return nil
}

// load puts the reference tables where silver.sql looks for them.
func (t *transformer) load(ctx context.Context, refs smelt.ReferenceSet) error {
	for _, table := range refs.Tables {
		if err := t.session.Load(ctx, "reference", table.Reference.Name, table.Columns, duck.Rows(table.Rows)); err != nil {
			return fmt.Errorf("reference %s: %w", table.Reference.Name, err)
		}
	}
	return nil
}

// stored checks that a query's columns are ones that a table can keep.
func stored(columns []smelt.Column) ([]smelt.Column, error) {
	out := make([]smelt.Column, 0, len(columns)+len(ownColumns))
	for _, c := range columns {
		typ, ok := duck.Storable(c.Type)
		if !ok {
			return nil, fmt.Errorf("column %s is a %s, which a table cannot keep: cast it", c.Name, c.Type)
		}
		out = append(out, smelt.Column{Name: c.Name, Type: typ})
	}
	return out, nil
}

// failed gives the number (from 0) of the first expectation that a row does not
// meet, or NULL. A condition that is NULL is not met.
func (t *transformer) failed() string {
	var whens []string
	for i, x := range t.expect {
		whens = append(whens, fmt.Sprintf("WHEN (%s) IS NOT TRUE THEN %d", x.Condition, i))
	}
	return "CASE " + strings.Join(whens, " ") + " END::INTEGER"
}

// twice is the error of a row for a record that has one already, or that was not
// read at all.
func (t *transformer) twice(partition int32, offset int64, read bool) error {
	if !read {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/silver.sql returns a row for record %d:%d, which it did not read: %s and %s must stay unchanged",
			t.pipeline.Name, partition, offset, colPartition, colOffset))
	}
	return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/silver.sql gives more than one row for record %d:%d: each record must give exactly one (a join with several rows for a key?)",
		t.pipeline.Name, partition, offset))
}

// blame says that silver.sql is to blame for an error, unless it is the memory's.
func (t *transformer) blame(err error) error {
	if duck.OutOfMemory(err) {
		return err
	}
	return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/silver.sql: %w", t.pipeline.Name, err))
}
