package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"smelt"
)

// CatalogName is the catalog's name in its tables. Every engine that reads the
// lake through the catalog has to give the same one.
const CatalogName = "lake"

// catalogTables are the tables of the Iceberg project's JDBC catalog, schema V1.
const catalogTables = `
CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name               varchar(255) NOT NULL,
    table_namespace            varchar(255) NOT NULL,
    table_name                 varchar(255) NOT NULL,
    metadata_location          varchar(1000),
    previous_metadata_location varchar(1000),
    iceberg_type               varchar(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);
ALTER TABLE iceberg_tables ADD COLUMN IF NOT EXISTS iceberg_type varchar(5);
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name   varchar(255) NOT NULL,
    namespace      varchar(255) NOT NULL,
    property_key   varchar(255) NOT NULL,
    property_value varchar(1000),
    PRIMARY KEY (catalog_name, namespace, property_key)
)`

// catalogComplete says whether there is nothing left to create, so that a role
// without the right to create can use what is there.
const catalogComplete = `
SELECT to_regclass('iceberg_namespace_properties') IS NOT NULL
   AND EXISTS (
       SELECT FROM pg_attribute
       WHERE attrelid = to_regclass('iceberg_tables') AND attname = 'iceberg_type' AND NOT attisdropped
   )`

// Catalog is the pointer table of the lake: the location of each Iceberg
// table's current metadata. It is a JDBC catalog, which Trino, Spark, pyiceberg
// and iceberg-go open as theirs. A name is "namespace.table".
type Catalog struct {
	db *DB
}

// Catalog opens the catalog and creates its tables where they are missing, in
// the first schema of the role's search_path. A catalog of schema V0 is brought
// to V1, as the JDBC catalog itself does.
func (db *DB) Catalog(ctx context.Context) (*Catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	var complete bool
	err := db.pool.QueryRow(ctx, catalogComplete).Scan(&complete)
	if err == nil && !complete {
		err = db.setUp(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, catalogTables)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open the Iceberg catalog: %w", db.explain(err))
	}
	return &Catalog{db}, nil
}

// ReadCatalog is the existing catalog; nothing is created. A missing catalog has no tables.
func (db *DB) ReadCatalog() *Catalog { return &Catalog{db} }

// absent says whether an error means that there is no catalog.
func absent(err error) bool { return sqlState(err) == undefinedTable }

// explain is the database's, and knows the catalog of before iceberg_type.
func (c *Catalog) explain(err error) error {
	if sqlState(err) == undefinedColumn {
		return smelt.Mark(smelt.ErrDatabase, fmt.Errorf("PostgreSQL at %s: the Iceberg catalog there is of schema V0; smelt run brings it to V1: %w", c.db.where, err))
	}
	return c.db.explain(err)
}

// Current returns where tables' current metadata is, in one PostgreSQL snapshot: ""
// for a table that is not there.
func (c *Catalog) Current(ctx context.Context, names ...string) (locations []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()

	namespaces, tables := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		if namespaces[i], tables[i], err = splitName(name); err != nil {
			return nil, err
		}
	}
	rows, err := c.db.pool.Query(ctx, `
SELECT coalesce(t.metadata_location, '')
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS n(namespace, name, place)
LEFT JOIN iceberg_tables AS t
  ON t.catalog_name = $1 AND t.table_namespace = n.namespace AND t.table_name = n.name
 AND (t.iceberg_type = 'TABLE' OR t.iceberg_type IS NULL)
ORDER BY n.place`, CatalogName, namespaces, tables)
	if err == nil {
		locations, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if absent(err) {
		return make([]string, len(names)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("find table %s: %w", strings.Join(names, ", "), c.explain(err))
	}
	return locations, nil
}

// Swap makes moves of tables, all of them or none, in one transaction. ErrExists: a
// table is somewhere else by now. Any other error leaves open whether the moves were
// made.
func (c *Catalog) Swap(ctx context.Context, moves ...smelt.Move) error {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()

	if len(moves) == 1 { // one statement is a transaction, in one round trip
		return c.swap(ctx, c.db.pool, moves[0])
	}
	moves = slices.Clone(moves)
	slices.SortFunc(moves, func(a, b smelt.Move) int { return strings.Compare(a.Table, b.Table) }) // so that two never wait for each other
	tx, err := c.db.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("swap tables: %w", c.db.explain(err))
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	for _, m := range moves {
		if err := c.swap(ctx, tx, m); err != nil {
			return err
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("swap tables: %w", c.db.explain(err))
	}
	return nil
}

// executor is a pool of connections or a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (c *Catalog) swap(ctx context.Context, on executor, m smelt.Move) error {
	namespace, name, err := splitName(m.Table)
	if err != nil {
		return err
	}
	// The namespace's row is what other engines list namespaces by.
	statement, args := `
WITH namespace AS (
    INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
    VALUES ($1, $2, 'exists', 'true')
    ON CONFLICT DO NOTHING
)
INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
VALUES ($1, $2, $3, $4, 'TABLE')
ON CONFLICT DO NOTHING`, []any{CatalogName, namespace, name, m.To}
	if m.From != "" {
		statement, args = `
UPDATE iceberg_tables
SET metadata_location = $4, previous_metadata_location = metadata_location, iceberg_type = 'TABLE'
WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3
  AND metadata_location = $5
  AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)`, append(args, m.From)
	}
	tag, err := on.Exec(ctx, statement, args...)
	if err != nil {
		return fmt.Errorf("swap table %s: %w", m.Table, c.db.explain(err))
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("swap table %s: its metadata is somewhere else by now: %w", m.Table, smelt.ErrExists)
	}
	return nil
}

// Drop removes a table whose metadata is at a location, in one atomic step. ErrExists: the metadata is elsewhere.
// ErrNotFound: there is no such table. After any other error the outcome is unknown.
func (c *Catalog) Drop(ctx context.Context, name, location string) error {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()

	namespace, table, err := splitName(name)
	if err != nil {
		return err
	}
	tag, err := c.db.pool.Exec(ctx, `
DELETE FROM iceberg_tables
WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3
  AND metadata_location = $4
  AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)`, CatalogName, namespace, table, location)
	if err != nil {
		return fmt.Errorf("drop table %s: %w", name, c.db.explain(err))
	}
	if tag.RowsAffected() > 0 {
		return nil
	}
	locations, err := c.Current(ctx, name)
	if err != nil {
		return fmt.Errorf("drop: %w", err)
	}
	if locations[0] == "" {
		return fmt.Errorf("drop table %s: %w", name, smelt.ErrNotFound)
	}
	return fmt.Errorf("drop table %s: its metadata is somewhere else by now: %w", name, smelt.ErrExists)
}

// List returns the names of all tables, sorted.
func (c *Catalog) List(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()

	rows, err := c.db.pool.Query(ctx, `
SELECT table_namespace || '.' || table_name
FROM iceberg_tables
WHERE catalog_name = $1 AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)
ORDER BY (table_namespace || '.' || table_name) COLLATE "C"`, CatalogName)
	var names []string
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", c.explain(err))
	}
	return names, nil
}

// splitName parts "namespace.table" at its last dot.
func splitName(name string) (namespace, table string, err error) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 || i == len(name)-1 {
		return "", "", fmt.Errorf("table name %q: want namespace.table", name)
	}
	return name[:i], name[i+1:], nil
}
