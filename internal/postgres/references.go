package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"smelt"
)

const (
	// maxReferenceRows bounds the memory of a load: a table with more rows is
	// joined better as a stream of its own.
	maxReferenceRows = 5_000_000

	// loadTimeout is for a table of maxReferenceRows over a slow network.
	loadTimeout = 10 * time.Minute

	// maxLoads bounds how often a load begins again because a table that no
	// trigger follows has changed since its version was raised.
	maxLoads = 5
)

var _ smelt.References = (*DB)(nil)

// state is a relation with its version.
type state struct {
	relation
	now     string // its fingerprint
	counted string // its fingerprint when its version was last raised by comparison
	version int64
}

func (s state) stale() bool { return s.now != s.counted }

// Version returns the highest version among the tables of refs, 0 when there
// are none. It raises the version of a table that has changed behind its
// trigger's back, or has none; that costs a read of the table. A reader leaves
// that to those who write.
func (db *DB) Version(ctx context.Context, refs []smelt.Reference) (int64, error) {
	if len(refs) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	states, err := readStates(ctx, db.pool, refs)
	if err == nil && anyStale(states) && !db.reader {
		states, err = db.raise(ctx, refs)
	}
	if err != nil {
		return 0, fmt.Errorf("version of references: %w", db.explain(err))
	}
	return highest(states), nil
}

// Load reads the tables of refs and their version in one snapshot.
func (db *DB) Load(ctx context.Context, refs []smelt.Reference) (smelt.ReferenceSet, error) {
	if len(refs) == 0 {
		return smelt.ReferenceSet{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()

	for range maxLoads {
		set, err := db.load(ctx, refs)
		if !errors.Is(err, errStale) {
			if err != nil {
				err = fmt.Errorf("load references: %w", db.explain(err))
			}
			return set, err
		}
		if db.reader {
			continue // it was truncated meanwhile
		}
		if _, err := db.raise(ctx, refs); err != nil {
			return smelt.ReferenceSet{}, fmt.Errorf("load references: %w", db.explain(err))
		}
	}
	return smelt.ReferenceSet{}, smelt.Mark(smelt.ErrDatabase, fmt.Errorf("load references: a table without a trigger changed %d times while it was read; grant TRIGGER on it", maxLoads))
}

var errStale = errors.New("a reference has changed since its version was raised")

func (db *DB) load(ctx context.Context, refs []smelt.Reference) (smelt.ReferenceSet, error) {
	var set smelt.ReferenceSet
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db.pool, snapshot, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, loadTimeout.Milliseconds())); err != nil {
			return err
		}
		states, err := readStates(ctx, tx, refs)
		if err != nil {
			return err
		}
		if anyStale(states) && !db.reader {
			return errStale
		}
		set.Version = highest(states)
		for _, s := range states {
			table, err := s.read(ctx, tx)
			if err != nil {
				return fmt.Errorf("reference %s: %w", s.ref.Name, err)
			}
			set.Tables = append(set.Tables, table)
		}
		return nil
	})
	if err != nil {
		return smelt.ReferenceSet{}, err
	}
	return set, nil
}

// read reads a table's rows, one a key.
func (r relation) read(ctx context.Context, tx pgx.Tx) (smelt.ReferenceTable, error) {
	table := smelt.ReferenceTable{Reference: r.ref}
	for _, c := range r.visible() {
		table.Columns = append(table.Columns, c.declaration())
	}
	if err := r.checkCount(ctx, tx); err != nil {
		return table, err
	}
	if err := r.checkKeys(ctx, tx); err != nil {
		return table, err
	}
	query := fmt.Sprintf(`SELECT %s FROM %s WHERE %s IS NOT NULL`, r.selectList(), r.name, r.key().sql())
	// A statement prepared earlier would not know of columns altered since.
	rows, err := tx.Query(ctx, query, pgx.QueryExecModeDescribeExec)
	if err != nil {
		return table, err
	}
	table.Rows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) {
		values, err := row.Values()
		return inUTC(values), err
	})
	if err != nil {
		return table, err
	}
	return table, r.checkFile(ctx, tx)
}

// checkFile detects a TRUNCATE or a rewrite between the snapshot and the first read, which has locked the table since.
// These are not transactional for older snapshots, in which the table is then empty.
func (r relation) checkFile(ctx context.Context, tx pgx.Tx) error {
	var same bool
	err := tx.QueryRow(ctx, `SELECT COALESCE(pg_relation_filenode($1::oid), 0::oid) = $2::oid`, r.oid, r.file).Scan(&same)
	if err == nil && !same {
		err = errStale
	}
	return err
}

// checkCount refuses a table with too many rows.
func (r relation) checkCount(ctx context.Context, q querier) error {
	var rows int64
	err := q.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM %s LIMIT %d) AS bounded`, r.name, maxReferenceRows+1)).Scan(&rows)
	if err != nil {
		return err
	}
	if rows > maxReferenceRows {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("table %s has more than %d rows; refer to a view of the rows that events can meet", r.name, maxReferenceRows))
	}
	return nil
}

// checkKeys refuses two rows for a key.
func (r relation) checkKeys(ctx context.Context, tx pgx.Tx) error {
	key := r.key().sql()
	var rows int64
	var value string
	err := tx.QueryRow(ctx, fmt.Sprintf(`
SELECT left(CAST(%[1]s AS text), 100), count(*)
FROM %[2]s
WHERE %[1]s IS NOT NULL
GROUP BY %[1]s
HAVING count(*) > 1
LIMIT 1`, key, r.name)).Scan(&value, &rows)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("table %s has %d rows with %s = %q, but a key has one row; correct the table, or choose a key that is unique", r.name, rows, r.ref.Key, value))
}

// raise gives a new version to each table that is stale. It holds the counter
// meanwhile, so that versions keep the order of commits.
func (db *DB) raise(ctx context.Context, refs []smelt.Reference) ([]state, error) {
	var states []state
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		var version int64
		if err := tx.QueryRow(ctx, `SELECT version FROM smelt.reference_counter FOR UPDATE`).Scan(&version); err != nil {
			return err
		}
		var err error
		if states, err = readStates(ctx, tx, refs); err != nil || !anyStale(states) {
			return err
		}
		version++
		if _, err := tx.Exec(ctx, `UPDATE smelt.reference_counter SET version = $1`, version); err != nil {
			return err
		}
		for i, s := range states {
			if !s.stale() {
				continue
			}
			states[i].version, states[i].counted = version, s.now
			if err := s.record(ctx, tx, version); err != nil {
				return notPrepared(err)
			}
		}
		return nil
	})
	return states, err
}

func (s state) record(ctx context.Context, tx pgx.Tx, version int64) error {
	_, err := tx.Exec(ctx, `
WITH notified AS (SELECT pg_notify('smelt_reference', $1::text))
INSERT INTO smelt.reference_tables (table_name, version, whole_version, changed_at, changed_by, fingerprint)
SELECT $1::text, $2, $2, transaction_timestamp(), pg_current_xact_id(), $3 FROM notified
ON CONFLICT (table_name) DO UPDATE
SET version = EXCLUDED.version, whole_version = EXCLUDED.whole_version,
    changed_at = EXCLUDED.changed_at, changed_by = EXCLUDED.changed_by, fingerprint = EXCLUDED.fingerprint`,
		s.name, version, s.now)
	return err
}

// readStates finds the tables of refs and their versions.
func readStates(ctx context.Context, q querier, refs []smelt.Reference) ([]state, error) {
	relations, err := describe(ctx, q, refs)
	if err != nil {
		return nil, err
	}
	states := make([]state, len(relations))
	for i, r := range relations {
		s := state{relation: r}
		err := q.QueryRow(ctx, `SELECT version, fingerprint FROM smelt.reference_tables WHERE table_name = $1`, r.name).Scan(&s.version, &s.counted)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, notPrepared(err)
		}
		if s.now, err = r.fingerprint(ctx, q); err != nil {
			return nil, fmt.Errorf("fingerprint of %s: %w", r.name, err)
		}
		states[i] = s
	}
	return states, nil
}

// notPrepared says what to do when the schema smelt is not there, or is of an
// earlier version of smelt.
func notPrepared(err error) error {
	switch sqlState(err) {
	case undefinedTable, undefinedColumn:
		return fmt.Errorf("the schema smelt, with the versions of reference tables, is missing or out of date; start the pipeline, which creates it: %w", err)
	}
	return err
}

func anyStale(states []state) bool {
	for _, s := range states {
		if s.stale() {
			return true
		}
	}
	return false
}

func highest(states []state) int64 {
	var version int64
	for _, s := range states {
		version = max(version, s.version)
	}
	return version
}
