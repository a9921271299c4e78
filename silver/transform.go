package silver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
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

// rejectColumns are the columns of every quarantine table.
var rejectColumns = []smelt.Column{
	{Name: colPartition, Type: smelt.Type{Name: "integer"}},
	{Name: colOffset, Type: smelt.Type{Name: "bigint"}},
	{Name: "_timestamp", Type: smelt.Type{Name: "timestamptz"}},
	{Name: "_key", Type: smelt.Type{Name: "varchar"}},
	{Name: "raw", Type: smelt.Type{Name: "varchar"}},
	{Name: "stage", Type: smelt.Type{Name: "varchar"}},
	{Name: "reason", Type: smelt.Type{Name: "varchar"}},
	{Name: "field", Type: smelt.Type{Name: "varchar"}},
	{Name: "detail", Type: smelt.Type{Name: "varchar"}},
	{Name: "quarantined_at", Type: smelt.Type{Name: "timestamptz"}},
}

// RejectColumns gives the columns of a quarantine table, and of work.rejects.
func RejectColumns() []smelt.Column { return slices.Clone(rejectColumns) }

// transformer turns the rows of bronze.<pipeline> into work.silver and
// work.rejects. Each record ends in exactly one of the two.
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
	t.expect = []expectation{{smelt.Expectation{Name: ReasonMissing, Condition: duck.Quote(at) + " IS NOT NULL"}, at}}
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

// transform runs silver.sql over what bronze.<pipeline> shows; work.silver has
// the rows then, with the expectation that a row does not meet in __failed.
func (t *transformer) transform(ctx context.Context, refs smelt.ReferenceSet, now time.Time) error {
	bronze := "bronze." + duck.Quote(t.pipeline.Name)
	casts := make([]string, 0, len(t.columns))
	for _, c := range t.columns[:len(t.columns)-len(ownColumns)] {
		casts = append(casts, fmt.Sprintf("s.%s::%s AS %s", duck.Quote(c.Name), c.Type, duck.Quote(c.Name)))
	}
	if err := t.session.Exec(ctx, "CREATE OR REPLACE TABLE work.unmatched AS "+t.unmatched(bronze)); err != nil {
		return err
	}
	var unmatched int64
	if err := t.session.Row(ctx, "SELECT count(*) FROM work.unmatched", &unmatched); err != nil {
		return err
	}
	names, join := "NULL::VARCHAR", ""
	if unmatched > 0 {
		names, join = "u.names", fmt.Sprintf("LEFT JOIN work.unmatched AS u USING (%s, %s)", colPartition, colOffset)
	}
	err := t.session.Exec(ctx, fmt.Sprintf(`CREATE OR REPLACE TABLE work.silver AS
			SELECT *, %s AS __failed FROM (
				SELECT %s, %s AS %s, %d::BIGINT AS %s, %s AS %s, NULL::TIMESTAMPTZ AS %s
				FROM work.transform AS s %s
			)`,
		t.failed(), strings.Join(casts, ", "), duck.Timestamp(now), colIngestedAt, refs.Version, colReferenceVersion,
		names, colUnmatched, colRebuiltAt, join))
	if err != nil {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/silver.sql: %w", t.pipeline.Name, err))
	}
	return t.account(ctx, bronze)
}

// unmatched gives, for each record that found no row in a reference, the
// names of those references. A NULL key asks for no row.
func (t *transformer) unmatched(bronze string) string {
	none := "SELECT NULL::INTEGER AS _partition_id, NULL::BIGINT AS _partition_offset, NULL::VARCHAR AS name WHERE false"
	parts := []string{none}
	for _, r := range t.pipeline.References {
		parts = append(parts, fmt.Sprintf("SELECT _partition_id, _partition_offset, %s FROM %s AS b ANTI JOIN reference.%s AS r ON b.%s = r.%s WHERE b.%s IS NOT NULL",
			duck.Literal(r.Name), bronze, duck.Quote(r.Name), duck.Quote(r.On), duck.Quote(r.Key), duck.Quote(r.On)))
	}
	return "SELECT _partition_id, _partition_offset, string_agg(name, ', ' ORDER BY name) AS names FROM (" +
		strings.Join(parts, " UNION ALL ") + ") GROUP BY ALL"
}

// failed gives the number (from 0) of the first expectation that a row does not
// meet, or NULL. A condition that is NULL is not met.
func (t *transformer) failed() string {
	var whens []string
	for i, x := range t.expect {
		whens = append(whens, fmt.Sprintf("WHEN (%s) IS NOT TRUE THEN %d", x.Condition, i))
	}
	return "CASE " + strings.Join(whens, " ") + " END"
}

// account makes sure that silver.sql gave each record at most one row. The
// records that it gave none are in work.filtered then.
func (t *transformer) account(ctx context.Context, bronze string) error {
	digest := "SELECT count(*), coalesce(sum(hash(_partition_id, _partition_offset)), 0)::VARCHAR FROM "
	var in, out struct {
		rows int64
		sum  string
	}
	if err := t.session.Row(ctx, digest+bronze, &in.rows, &in.sum); err != nil {
		return err
	}
	if err := t.session.Row(ctx, digest+"work.silver", &out.rows, &out.sum); err != nil {
		return err
	}
	filtered := "CREATE OR REPLACE TABLE work.filtered AS SELECT b._partition_id, b._partition_offset FROM " + bronze + " AS b"
	if in == out {
		return t.session.Exec(ctx, filtered+" WHERE false")
	}
	twice, err := t.session.Strings(ctx, `SELECT _partition_id || ':' || _partition_offset FROM work.silver
		GROUP BY _partition_id, _partition_offset HAVING count(*) > 1 ORDER BY ALL LIMIT 3`)
	if err != nil {
		return err
	}
	if len(twice) > 0 {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/silver.sql gives more than one row for record %s: each record must give exactly one (a join with several rows for a key?)",
			t.pipeline.Name, strings.Join(twice, ", ")))
	}
	return t.session.Exec(ctx, filtered+" ANTI JOIN work.silver AS s USING (_partition_id, _partition_offset)")
}

// reject gathers in work.rejects what does not go into silver, and takes it
// out of work.silver.
func (t *transformer) reject(ctx context.Context, now time.Time) error {
	whens, fields := "", ""
	for i, e := range t.expect {
		whens += fmt.Sprintf(" WHEN %d THEN %s", i, duck.Literal(e.Name))
		fields += fmt.Sprintf(" WHEN %d THEN %s", i, duck.Literal(e.field))
	}
	reason, field := "CASE __failed"+whens+" END", "nullif(CASE __failed"+fields+" END, '')"
	at := duck.Timestamp(now) + " AS quarantined_at"
	return t.session.Exec(ctx,
		`CREATE OR REPLACE TABLE work.rejects AS
			SELECT _partition_id, _partition_offset, _timestamp, _key, __raw AS raw,
				CASE __reason WHEN '`+ReasonTooLarge+`' THEN 'bronze' ELSE 'silver' END AS stage,
				__reason AS reason, __field AS field, __detail AS detail, `+at+`
			FROM work.records WHERE NOT __tombstone AND __reason IS NOT NULL`,
		fmt.Sprintf(`INSERT INTO work.rejects
			SELECT _partition_id, _partition_offset, r._timestamp, r._key, NULL, 'silver', f.reason, f.field, NULL, %s
			FROM (
				SELECT _partition_id, _partition_offset, (%s)::VARCHAR AS reason, (%s)::VARCHAR AS field FROM work.silver WHERE __failed IS NOT NULL
				UNION ALL
				SELECT _partition_id, _partition_offset, '%s', NULL FROM work.filtered
			) AS f JOIN work.records AS r USING (_partition_id, _partition_offset)`, at, reason, field, ReasonFiltered),
		"DELETE FROM work.silver WHERE __failed IS NOT NULL")
}
