package postgres

import (
	"context"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"smelt"
)

// Changes reads which rows of the tables of refs have changed after a version,
// in one snapshot. Of a table whose rows' changes are not all known the last
// change counts as one to any row.
func (db *DB) Changes(ctx context.Context, refs []smelt.Reference, since int64) ([]smelt.ReferenceChanges, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	var all []smelt.ReferenceChanges
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db.pool, snapshot, func(tx pgx.Tx) error {
		relations, err := describe(ctx, tx, refs)
		if err != nil {
			return err
		}
		for _, r := range relations {
			changes, err := r.changes(ctx, tx, since)
			if err != nil {
				return fmt.Errorf("reference %s: %w", r.ref.Name, notPrepared(err))
			}
			all = append(all, changes)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("changes of references: %w", db.explain(err))
	}
	return all, nil
}

func (r relation) changes(ctx context.Context, tx pgx.Tx, since int64) (smelt.ReferenceChanges, error) {
	changes := smelt.ReferenceChanges{Reference: r.ref, Keys: map[string]int64{}}
	l, err := r.log(ctx, tx)
	if err != nil || l.version <= since {
		return changes, err
	}
	if r.trigger == "" || !l.complete() {
		changes.Whole = l.version
		return changes, nil
	}
	if whole := max(l.since, l.whole); whole > since {
		changes.Whole = whole
	}
	err = r.readKeys(ctx, tx, &changes, since, l.version)
	return changes, err
}

// readKeys takes in the keys that have changed since all rows may have. Too many
// of them, or one that is too long to be kept whole, count as a change to any row.
func (r relation) readKeys(ctx context.Context, tx pgx.Tx, changes *smelt.ReferenceChanges, since, last int64) error {
	rows, err := tx.Query(ctx, `
SELECT key, version, char_length(key) >= `+keptKey+`
FROM smelt.reference_keys
WHERE table_name = $1 AND key_column = $2 AND version > $3
LIMIT $4`, r.name, r.ref.Key, max(since, changes.Whole), maxKeys+1)
	if err != nil {
		return err
	}
	var key string
	var version int64
	var cut bool
	_, err = pgx.ForEachRow(rows, []any{&key, &version, &cut}, func() error {
		if cut {
			changes.Whole = max(changes.Whole, version)
		}
		changes.Keys[key] = version
		return nil
	})
	if len(changes.Keys) > maxKeys {
		changes.Whole = last
	}
	maps.DeleteFunc(changes.Keys, func(_ string, version int64) bool { return version <= changes.Whole })
	return err
}
