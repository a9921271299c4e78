package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// setUpLockTimeout is how long set-up waits for a table that is in use. It is short, because all later writers of the table
// wait behind it.
const setUpLockTimeout = 5 * time.Second

// setUp runs fn in a transaction, one process at a time: CREATE IF NOT EXISTS
// alone fails when two sessions create the same thing at once.
func (db *DB) setUp(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockKey("set-up")); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, setUpLockTimeout.Milliseconds())); err != nil {
			return err
		}
		return fn(tx)
	})
}
