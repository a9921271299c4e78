package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

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

// ReadCatalog is the catalog as it is: nothing is created. One that is not there
// yet has no tables.
func (db *DB) ReadCatalog() *Catalog { return &Catalog{db} }

// absent says whether an error is that there is no catalog.
func absent(err error) bool { return sqlState(err) == undefinedTable }

// explain is the database's, and knows the catalog of before iceberg_type.
func (c *Catalog) explain(err error) error {
	if sqlState(err) == undefinedColumn {
		return smelt.Mark(smelt.ErrDatabase, fmt.Errorf("PostgreSQL at %s: the Iceberg catalog there is of schema V0; smelt run brings it to V1: %w", c.db.where, err))
	}
	return c.db.explain(err)
}

// Current returns where a table's current metadata is, or ErrNotFound.
func (c *Catalog) Current(ctx context.Context, name string) (location string, err error) {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()

	namespace, table, err := splitName(name)
	if err != nil {
		return "", err
	}
	err = c.db.pool.QueryRow(ctx, `
SELECT metadata_location
FROM iceberg_tables
WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3
  AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)
  AND metadata_location IS NOT NULL`, CatalogName, namespace, table).Scan(&location)
	if errors.Is(err, pgx.ErrNoRows) || absent(err) {
		return "", fmt.Errorf("table %s: %w", name, smelt.ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("find table %s: %w", name, c.explain(err))
	}
	return location, nil
}

// Swap moves a table from metadata old to new, in one atomic step; with old ""
// it enters a table that is not there yet. ErrExists: the table is somewhere
// else by now. Any other error leaves open whether the swap was made.
func (c *Catalog) Swap(ctx context.Context, name, old, new string) error {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()

	namespace, table, err := splitName(name)
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
ON CONFLICT DO NOTHING`, []any{CatalogName, namespace, table, new}
	if old != "" {
		statement, args = `
UPDATE iceberg_tables
SET metadata_location = $4, previous_metadata_location = metadata_location, iceberg_type = 'TABLE'
WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3
  AND metadata_location = $5
  AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)`, append(args, old)
	}
	tag, err := c.db.pool.Exec(ctx, statement, args...)
	if err != nil {
		return fmt.Errorf("swap table %s: %w", name, c.db.explain(err))
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("swap table %s: its metadata is somewhere else by now: %w", name, smelt.ErrExists)
	}
	return nil
}

// Drop removes a table whose metadata is at a location, in one atomic step.
// ErrExists: it is somewhere else by now. ErrNotFound: there is no such table. Any
// other error leaves open whether it was removed.
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
	if _, err := c.Current(ctx, name); err != nil {
		return fmt.Errorf("drop: %w", err)
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
