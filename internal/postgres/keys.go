package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// maxKeys bounds a log of changed keys, and the memory of reading one. The
// oldest changes beyond it are forgotten, as far as rows go.
const maxKeys = 1_000_000

// trigger is one trigger of a relation.
type trigger struct {
	name   string
	create string
}

// triggers are all triggers of a relation. One raises its version. One per event logs the keys of changed rows; they
// are separate because PostgreSQL shows no rows to a trigger of several events.
func (r relation) triggers() []trigger {
	all := []trigger{{"smelt_reference", fmt.Sprintf(`
CREATE TRIGGER smelt_reference
BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s
FOR EACH STATEMENT EXECUTE FUNCTION smelt.reference_changed()`, r.name)}}
	argument := "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(r.ref.Key) + "'"
	rows := []string{"NEW TABLE AS new_rows", "OLD TABLE AS old_rows NEW TABLE AS new_rows", "OLD TABLE AS old_rows"}
	for i, event := range []string{"insert", "update", "delete"} {
		name := r.keyTriggers()[i]
		all = append(all, trigger{name, fmt.Sprintf(`
CREATE TRIGGER %s AFTER %s ON %s REFERENCING %s
FOR EACH STATEMENT EXECUTE FUNCTION smelt.reference_keys_changed(%s)`, name, event, r.name, rows[i], argument)})
	}
	return all
}

// keyTriggers are the names of the triggers that log keys. A column's name is as
// long as a trigger's may be, so they have a digest of it.
func (r relation) keyTriggers() []string {
	digest := sha256.Sum256([]byte(r.ref.Key))
	prefix := fmt.Sprintf("smelt_key_%x_", digest[:16])
	return []string{prefix + "insert", prefix + "update", prefix + "delete"}
}

// missing are the triggers that a relation lacks. One that is switched off is
// not missing: it stays so.
func (r relation) missing(ctx context.Context, q querier) ([]trigger, error) {
	var missing []trigger
	for _, t := range r.triggers() {
		var exists bool
		err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = $1 AND tgname = $2)`, r.oid, t.name).Scan(&exists)
		if err != nil {
			return nil, err
		}
		if !exists {
			missing = append(missing, t)
		}
	}
	return missing, nil
}

// keyLog is what is known of the changes to a relation's rows.
type keyLog struct {
	triggers string // identity of its triggers; "" unless all exist and are enabled
	recorded string // their identity when it began; "" when it has not
	since    int64  // the version after which it has each change
	version  int64  // of the relation
	whole    int64  // of the last change that may have been to any row
}

// complete says whether the log has each change after l.since: whether its
// triggers are those with which it began, and were never switched off.
func (l keyLog) complete() bool { return l.triggers != "" && l.triggers == l.recorded }

// log reads the state of a relation's log. A trigger's xmin changes when it is
// switched off or on.
func (r relation) log(ctx context.Context, q querier) (keyLog, error) {
	var l keyLog
	err := q.QueryRow(ctx, `
SELECT
    COALESCE((
        SELECT string_agg(oid::text || ' ' || xmin::text, ' ' ORDER BY tgname)
        FROM pg_trigger
        WHERE tgrelid = $1 AND tgname = ANY ($2::text[]) AND tgenabled IN ('O', 'A')
        HAVING count(*) = cardinality($2)
    ), ''),
    COALESCE(l.triggers, ''),
    COALESCE(l.since_version, 0),
    COALESCE(t.version, 0),
    COALESCE(t.whole_version, 0)
FROM (VALUES ($3::text, $4::text)) AS ref (table_name, key_column)
LEFT JOIN smelt.reference_logs AS l USING (table_name, key_column)
LEFT JOIN smelt.reference_tables AS t USING (table_name)`, r.oid, r.keyTriggers(), r.name, r.ref.Key).
		Scan(&l.triggers, &l.recorded, &l.since, &l.version, &l.whole)
	return l, err
}

// keepLog starts a new log if its triggers are not those that wrote it, and shortens a log that is too long.
func (db *DB) keepLog(ctx context.Context, r relation) (keyLog, error) {
	l, err := r.log(ctx, db.pool)
	if err != nil || l.triggers == "" {
		return l, err
	}
	var full bool
	err = db.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM smelt.reference_keys WHERE table_name = $1 AND key_column = $2 OFFSET $3)`,
		r.name, r.ref.Key, maxKeys).Scan(&full)
	if err != nil || l.complete() && !full {
		return l, err
	}
	err = db.setUp(ctx, func(tx pgx.Tx) error {
		// A writer of keys holds the counter. The triggers existed before it was taken here, so every later version has
		// them.
		if _, err := tx.Exec(ctx, `SELECT FROM smelt.reference_counter FOR UPDATE`); err != nil {
			return err
		}
		if l, err = r.log(ctx, tx); err != nil || l.triggers == "" {
			return err
		}
		if !l.complete() {
			l.since = l.version
		}
		l.recorded = l.triggers
		return r.shorten(ctx, tx, &l)
	})
	return l, err
}

// shorten records a log, without what it need not or cannot keep.
func (r relation) shorten(ctx context.Context, tx pgx.Tx, l *keyLog) error {
	err := tx.QueryRow(ctx, `
INSERT INTO smelt.reference_logs AS l (table_name, key_column, since_version, triggers)
SELECT $1, $2, GREATEST($3, (
        SELECT version
        FROM smelt.reference_keys
        WHERE table_name = $1 AND key_column = $2
        ORDER BY version DESC
        OFFSET $5
        LIMIT 1
    )), $4
ON CONFLICT (table_name, key_column) DO UPDATE
SET since_version = EXCLUDED.since_version, triggers = EXCLUDED.triggers
RETURNING since_version`, r.name, r.ref.Key, l.since, l.triggers, maxKeys).Scan(&l.since)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM smelt.reference_keys WHERE table_name = $1 AND key_column = $2 AND version <= $3`,
		r.name, r.ref.Key, max(l.since, l.whole))
	return err
}
