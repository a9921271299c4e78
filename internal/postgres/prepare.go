package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"smelt"
)

// referenceTables keep the versions. One counter row is raised by each
// transaction that changes a referenced table, and stays locked until it ends:
// so versions rise in the order of commits. A statement trigger runs before its
// statement, so that the counter is locked before the table's rows are, by
// everybody in the same order; once a transaction and table is enough. It runs
// with its owner's rights: who writes to a referenced table needs none here.
// changed_by alone would be taken for ours after a restore into a new cluster.
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
    RETURN NULL;
END
$$`

const createTrigger = `
CREATE TRIGGER smelt_reference
BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s
FOR EACH STATEMENT EXECUTE FUNCTION smelt.reference_changed()`

// Prepare installs what following the reference tables takes, where it is
// missing: the schema smelt with the versions, and a trigger on each table. A
// table on which no trigger is possible is compared by content at each poll,
// which Prepare logs. It may be called again and by several processes at once.
// A table or a key column that is not there is an ErrPipeline.
func (db *DB) Prepare(ctx context.Context, refs []smelt.Reference) error {
	if len(refs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := db.prepare(ctx, refs); err != nil {
		return fmt.Errorf("prepare references: %w", db.explain(err))
	}
	return nil
}

func (db *DB) prepare(ctx context.Context, refs []smelt.Reference) error {
	relations, err := describe(ctx, db.pool, refs)
	if err != nil {
		return err
	}
	if err := db.prepareSchema(ctx); err != nil {
		return err
	}
	for _, r := range relations {
		switch {
		case r.trigger != "":
		case !r.followable:
			db.logHashed(ctx, r, "its changes fire no trigger")
		case !r.mayTrigger:
			db.logHashed(ctx, r, "the role lacks the right TRIGGER on it")
		default:
			if err := db.follow(ctx, r.ref); err != nil {
				return fmt.Errorf("create a trigger on %s: %w", r.name, err)
			}
		}
	}
	return nil
}

func (db *DB) logHashed(ctx context.Context, r relation, reason string) {
	db.Log.InfoContext(ctx, "reference table is compared by content at each poll", "reference", r.ref.Name, "table", r.name, "reason", reason)
}

func (db *DB) prepareSchema(ctx context.Context) error {
	var complete, mayCreate bool
	err := db.pool.QueryRow(ctx, `
SELECT
    to_regclass('smelt.reference_counter') IS NOT NULL
        AND to_regclass('smelt.reference_tables') IS NOT NULL
        AND to_regprocedure('smelt.reference_changed()') IS NOT NULL,
    CASE WHEN to_regnamespace('smelt') IS NULL
        THEN has_database_privilege(current_database(), 'CREATE')
        ELSE has_schema_privilege('smelt', 'CREATE')
    END`).Scan(&complete, &mayCreate)
	if err != nil || complete {
		return err
	}
	if !mayCreate {
		return smelt.Mark(smelt.ErrDatabase, fmt.Errorf("PostgreSQL at %s: user %s may not create the schema smelt, where the versions of reference tables are kept; "+
			"let an administrator run CREATE SCHEMA smelt AUTHORIZATION %s", db.where, db.user, pgx.Identifier{db.user}.Sanitize()))
	}
	return db.setUp(ctx, func(tx pgx.Tx) error {
		// IF NOT EXISTS asks for the right to create even where it exists, and
		// to_regnamespace may answer from a cache of before the lock.
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'smelt')`).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, `CREATE SCHEMA smelt`); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, referenceTables)
		return err
	})
}

// follow puts the trigger on a reference's table, unless another process has
// just done so. A trigger that is switched off stays so.
func (db *DB) follow(ctx context.Context, ref smelt.Reference) error {
	return db.setUp(ctx, func(tx pgx.Tx) error {
		relations, err := describe(ctx, tx, []smelt.Reference{ref})
		if err != nil {
			return err
		}
		r := relations[0]
		var exists bool
		err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = $1 AND tgname = 'smelt_reference')`, r.oid).Scan(&exists)
		if err != nil || exists {
			return err
		}
		_, err = tx.Exec(ctx, fmt.Sprintf(createTrigger, r.name))
		return err
	})
}
