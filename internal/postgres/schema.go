package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"smelt"
)

// referenceTables has the versions. Each transaction that changes a referenced table raises one counter row, which stays
// locked until it ends. So versions rise in commit order. A statement trigger runs before its statement. So every
// transaction locks the counter before the table's rows, and once per table is enough. The trigger runs with its
// owner's rights, so writers of a referenced table need none here. changed_by distinguishes a restore into a new
// cluster. whole_version is that of the last change that may concern any row.
const referenceTables = `
CREATE TABLE IF NOT EXISTS smelt.reference_counter (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    version   bigint NOT NULL
);
INSERT INTO smelt.reference_counter (version) VALUES (0) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS smelt.reference_tables (
    table_name  text PRIMARY KEY,
    version     bigint NOT NULL,
    changed_at  timestamptz NOT NULL,
    changed_by  xid8 NOT NULL,
    fingerprint text NOT NULL DEFAULT ''
);
ALTER TABLE smelt.reference_tables ADD COLUMN IF NOT EXISTS whole_version bigint NOT NULL DEFAULT 0;
CREATE OR REPLACE FUNCTION smelt.reference_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    raised  bigint;
BEGIN
    PERFORM FROM smelt.reference_tables
    WHERE table_name = changed AND changed_by = pg_current_xact_id() AND changed_at = transaction_timestamp();
    IF NOT FOUND THEN
        UPDATE smelt.reference_counter SET version = version + 1 RETURNING version INTO raised;
        INSERT INTO smelt.reference_tables AS t (table_name, version, changed_at, changed_by)
        VALUES (changed, raised, transaction_timestamp(), pg_current_xact_id())
        ON CONFLICT (table_name) DO UPDATE
        SET version = EXCLUDED.version, changed_at = EXCLUDED.changed_at, changed_by = EXCLUDED.changed_by;
        PERFORM pg_notify('smelt_reference', changed);
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        UPDATE smelt.reference_tables SET whole_version = version WHERE table_name = changed;
    END IF;
    RETURN NULL;
END
$$;`

// referenceKeys has the version of the last change to each key's row, one row per key, and the version from which on it
// does so. A statement trigger writes it, under the version that its transaction has raised. The transaction holds the
// counter, so nothing else writes keys meanwhile. The trigger runs with its owner's rights. So it uses only casts of
// PostgreSQL's own types, and its settings make a key's text the same for every writer. It never fails on odd keys: it
// keeps the start of a long key, which fits into an index, and without the key column any row may have changed. Virtual
// columns have no values in a trigger.
const referenceKeys = `
CREATE TABLE IF NOT EXISTS smelt.reference_logs (
    table_name    text NOT NULL,
    key_column    text NOT NULL,
    since_version bigint NOT NULL,
    triggers      text NOT NULL,
    PRIMARY KEY (table_name, key_column)
);
CREATE TABLE IF NOT EXISTS smelt.reference_keys (
    table_name text COLLATE "C" NOT NULL,
    key_column text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    PRIMARY KEY (table_name, key_column, key)
);
CREATE OR REPLACE FUNCTION smelt.reference_keys_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'iso_8601' SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
    changed text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    raised  bigint;
    base    oid; -- of the key column's type
    space   oid;
    keyed   text;
BEGIN
    SELECT version INTO raised
    FROM smelt.reference_tables
    WHERE table_name = changed AND changed_by = pg_current_xact_id() AND changed_at = transaction_timestamp()
      AND whole_version < version;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;

    SELECT atttypid INTO base
    FROM pg_attribute
    WHERE attrelid = TG_RELID AND attname = TG_ARGV[0] AND attnum > 0 AND NOT attisdropped AND attgenerated <> 'v';
    IF NOT FOUND THEN
        UPDATE smelt.reference_tables SET whole_version = version WHERE table_name = changed;
        RETURN NULL;
    END IF;
    WHILE base <> 0 LOOP
        SELECT typbasetype, typnamespace INTO base, space FROM pg_type WHERE oid = base;
    END LOOP;

    keyed := format(
        CASE space WHEN 'pg_catalog'::regnamespace THEN 'left(r.%I::text, %s)' ELSE 'left(format(''%%s'', r.%I), %s)' END
            || ' COLLATE "C" AS key, format(''%%s'', ROW(r.*)) COLLATE "C" AS line',
        TG_ARGV[0], ` + keptKey + `);
    EXECUTE format(
        'INSERT INTO smelt.reference_keys AS k (table_name, key_column, key, version)
        SELECT $1, $2, key, $3 FROM (' ||
        CASE TG_OP
            WHEN 'INSERT' THEN 'SELECT DISTINCT key FROM (SELECT %s FROM new_rows AS r) AS t'
            WHEN 'DELETE' THEN 'SELECT DISTINCT key FROM (SELECT %s FROM old_rows AS r) AS t'
            WHEN 'UPDATE' THEN
                'SELECT key
                FROM (SELECT -1 AS n, %1$s FROM old_rows AS r UNION ALL SELECT 1, %1$s FROM new_rows AS r) AS t
                GROUP BY key
                HAVING sum(n) <> 0 OR count(*) <> 2 OR min(line) <> max(line)'
        END ||
        ') AS changed
        WHERE key IS NOT NULL
        ORDER BY key
        ON CONFLICT (table_name, key_column, key) DO UPDATE
        SET version = EXCLUDED.version
        WHERE k.version <> EXCLUDED.version', keyed)
    USING changed, TG_ARGV[0], raised;
    RETURN NULL;
END
$$;`

// keptKey is how many characters of a key are kept: of any encoding, few enough
// for an index.
const keptKey = "500"

// schemaState says whether there is nothing left to create, so that a role without the right to create can work. It
// also says whether the role may create, and who owns an earlier schema that the role has no rights for.
const schemaState = `
SELECT
    to_regclass('smelt.reference_counter') IS NOT NULL
        AND to_regprocedure('smelt.reference_changed()') IS NOT NULL
        AND to_regclass('smelt.reference_logs') IS NOT NULL
        AND to_regclass('smelt.reference_keys') IS NOT NULL
        AND to_regprocedure('smelt.reference_keys_changed()') IS NOT NULL
        AND EXISTS (
            SELECT FROM pg_attribute
            WHERE attrelid = to_regclass('smelt.reference_tables') AND attname = 'whole_version' AND NOT attisdropped
        ),
    CASE WHEN to_regnamespace('smelt') IS NULL
        THEN has_database_privilege(current_database(), 'CREATE')
        ELSE has_schema_privilege('smelt', 'CREATE')
    END,
    COALESCE((
        SELECT relowner::regrole::text
        FROM pg_class
        WHERE oid = to_regclass('smelt.reference_tables') AND NOT pg_has_role(relowner, 'USAGE')
    ), '')`

// prepareSchema creates the schema smelt, or brings one of an earlier version
// of smelt up.
func (db *DB) prepareSchema(ctx context.Context) error {
	var complete, mayCreate bool
	var owner string
	err := db.pool.QueryRow(ctx, schemaState).Scan(&complete, &mayCreate, &owner)
	if err != nil || complete {
		return err
	}
	if owner != "" {
		return smelt.Mark(smelt.ErrDatabase, fmt.Errorf("PostgreSQL at %s: the schema smelt is of an earlier version of smelt, and user %s does not own its tables; "+
			"start the pipeline once as their owner, %s", db.where, db.user, owner))
	}
	if !mayCreate {
		return smelt.Mark(smelt.ErrDatabase, fmt.Errorf("PostgreSQL at %s: user %s may not create the schema smelt, where the versions of reference tables are kept; "+
			"let an administrator run CREATE SCHEMA smelt AUTHORIZATION %s", db.where, db.user, pgx.Identifier{db.user}.Sanitize()))
	}
	return db.setUp(ctx, func(tx pgx.Tx) error {
		// IF NOT EXISTS requires the right to create even if the schema exists, and to_regnamespace may answer from a cache from
		// before the lock.
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'smelt')`).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, `CREATE SCHEMA smelt`); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, referenceTables+referenceKeys)
		return err
	})
}
