package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"smelt"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// relation is a reference's table as PostgreSQL has it now.
type relation struct {
	ref        smelt.Reference
	oid        uint32
	file       uint32 // its rows' file, a new one after TRUNCATE or a rewrite; 0 for a view
	name       string // schema.table, quoted where needed
	followable bool   // a trigger on it would see each change
	mayTrigger bool   // the role may create one
	trigger    string // identity of the trigger that follows it; "" when none does
	columns    []column
}

// describeRelations finds each table of an array of names. A statement trigger sees the changes of a plain table only.
// Views and foreign tables have no changes of their own. A statement on a parent does not fire its children's
// triggers, nor the reverse. Replication fires none. A trigger's xmin changes when it is enabled or disabled.
const describeRelations = `
SELECT
    COALESCE(c.oid, 0::oid),
    COALESCE(pg_relation_filenode(c.oid), 0::oid),
    CASE WHEN c.oid IS NULL THEN '' ELSE format('%I.%I', n.nspname, c.relname) END,
    COALESCE(kind.followable, false),
    COALESCE(has_table_privilege(c.oid, 'TRIGGER'), false),
    COALESCE((
        SELECT t.oid::text || ' ' || t.xmin::text
        FROM pg_trigger AS t
        WHERE t.tgrelid = c.oid AND t.tgname = 'smelt_reference' AND t.tgenabled IN ('O', 'A') AND kind.followable
    ), ''),
    cols.names, cols.types, cols.bases, cols.mods, cols.not_nulls, cols.readable
FROM unnest($1::text[]) WITH ORDINALITY AS ref (name, i)
LEFT JOIN pg_class AS c ON c.oid = to_regclass(ref.name) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT c.relkind = 'r'
       AND NOT c.relhassubclass
       AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid)
       AND NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = c.oid) AS followable
) AS kind
CROSS JOIN LATERAL (
    SELECT
        COALESCE(array_agg(a.attname::text ORDER BY a.attnum), '{}') AS names,
        COALESCE(array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum), '{}') AS types,
        COALESCE(array_agg(format_type(b.base, NULL) ORDER BY a.attnum), '{}') AS bases,
        COALESCE(array_agg(b.mod ORDER BY a.attnum), '{}') AS mods,
        COALESCE(array_agg(a.attnotnull ORDER BY a.attnum), '{}') AS not_nulls,
        COALESCE(array_agg(has_column_privilege(c.oid, a.attnum, 'SELECT') ORDER BY a.attnum), '{}') AS readable
    FROM pg_attribute AS a
    JOIN pg_type AS t ON t.oid = a.atttypid
    CROSS JOIN LATERAL (
        SELECT
            CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END AS base,
            CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END AS mod
    ) AS b
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
) AS cols
ORDER BY ref.i`

// describe finds the tables of refs and checks that each has its key.
func describe(ctx context.Context, q querier, refs []smelt.Reference) ([]relation, error) {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.Table
	}
	rows, err := q.Query(ctx, describeRelations, names)
	if err != nil {
		return nil, badName(err)
	}
	found, err := pgx.CollectRows(rows, scanRelation)
	if err != nil {
		return nil, badName(err)
	}
	for i := range found {
		found[i].ref = refs[i]
		if err := found[i].check(ctx, q); err != nil {
			return nil, fmt.Errorf("reference %s: %w", refs[i].Name, err)
		}
	}
	return found, nil
}

// badName tells a name that is none from trouble with the database.
func badName(err error) error {
	switch sqlState(err) {
	case invalidName, crossDatabase, syntaxError:
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("a reference's table is not schema.table: %w", err))
	}
	return err
}

func scanRelation(row pgx.CollectableRow) (relation, error) {
	var (
		r                   relation
		names, types, bases []string
		mods                []int32
		notNulls, readable  []bool
	)
	err := row.Scan(&r.oid, &r.file, &r.name, &r.followable, &r.mayTrigger, &r.trigger, &names, &types, &bases, &mods, &notNulls, &readable)
	for i := range names {
		r.columns = append(r.columns, column{
			name:     names[i],
			declared: types[i],
			notNull:  notNulls[i],
			readable: readable[i],
			reading:  readingOf(bases[i], mods[i]),
		})
	}
	return r, err
}

// check says what is wrong with the table that a reference names.
func (r relation) check(ctx context.Context, q querier) error {
	if r.oid == 0 {
		tables, err := listTables(ctx, q)
		if err != nil {
			return err
		}
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("no table %s in PostgreSQL%s", r.ref.Table, didYouMean(r.ref.Table, tables)))
	}
	i := slices.IndexFunc(r.columns, func(c column) bool { return c.name == r.ref.Key })
	if i < 0 {
		var names []string
		for _, c := range r.columns {
			names = append(names, c.name)
		}
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("table %s has no column %s for its key%s", r.name, r.ref.Key, didYouMean(r.ref.Key, names)))
	}
	if !r.columns[i].readable {
		return smelt.Mark(smelt.ErrDatabase, fmt.Errorf("the role may not read %s of table %s: GRANT SELECT ON it", r.ref.Key, r.name))
	}
	return nil
}

func listTables(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.Query(ctx, `
SELECT format('%I.%I', n.nspname, c.relname)
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'smelt')
LIMIT 10000`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// visible are the columns that the role may read.
func (r relation) visible() []column {
	return slices.DeleteFunc(slices.Clone(r.columns), func(c column) bool { return !c.readable })
}

// selectList reads the visible columns, as [column.reading] says.
func (r relation) selectList() string {
	var list []string
	for _, c := range r.visible() {
		list = append(list, c.sql())
	}
	return strings.Join(list, ", ")
}

// key is the key column.
func (r relation) key() column {
	return r.columns[slices.IndexFunc(r.columns, func(c column) bool { return c.name == r.ref.Key })]
}

// fingerprint changes whenever the table may have changed without its trigger counting it: it was re-created, altered or
// rewritten, or its trigger was switched. For a table without a trigger it also covers the rows.
func (r relation) fingerprint(ctx context.Context, q querier) (string, error) {
	h := sha256.New()
	r.writeShape(h)
	if r.trigger == "" {
		if err := r.checkCount(ctx, q); err != nil {
			return "", err
		}
		// Sums, so that the order of rows does not matter; two, so that 128 bits have to agree.
		var content string
		err := q.QueryRow(ctx, fmt.Sprintf(`
SELECT concat_ws(' ', count(*), sum(hashtextextended(line, 0)), sum(hashtextextended(line, 1)))
FROM (SELECT CAST(ROW(%s) AS text) AS line FROM %s) AS lines`, r.selectList(), r.name)).Scan(&content)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s\n", content)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16]), nil
}

func (r relation) writeShape(h hash.Hash) {
	fmt.Fprintf(h, "%d %d %s\n%s\n", r.oid, r.file, r.name, r.trigger)
	for _, c := range r.columns {
		fmt.Fprintf(h, "%q %s %t\n", c.name, c.declared, c.notNull)
	}
}
