package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"smelt"
)

// Changes tells of each table as a whole whether it has changed after a version.
func (db *DB) Changes(ctx context.Context, refs []smelt.Reference, since int64) ([]smelt.ReferenceChanges, error) {
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
			changes := smelt.ReferenceChanges{Reference: r.ref, Keys: map[string]int64{}}
			err := tx.QueryRow(ctx, `SELECT version FROM smelt.reference_tables WHERE table_name = $1 AND version > $2`, r.name, since).Scan(&changes.Whole)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
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
