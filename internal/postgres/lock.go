package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"smelt"
)

const (
	// maxLocks are held at a time; each keeps a connection to itself. What works
	// under a lock needs a connection too, so half of them stay free.
	maxLocks = maxConns / 2

	// unlockTimeout is for one round trip. After it the connection is closed,
	// which releases the lock as well.
	unlockTimeout = 5 * time.Second
)

// TryLock takes the lock of a name for this process, or returns ErrLocked when
// another process, or another goroutine of this one, holds it. PostgreSQL
// releases the lock of a session that ends, so a process that dies leaves none
// behind, and a connection that breaks loses it. unlock may be called again.
func (db *DB) TryLock(ctx context.Context, name string) (unlock func(), err error) {
	return db.lock(ctx, name, db.tryLock)
}

// Lock waits for the lock of a name, and is served in its turn: while somebody
// waits PostgreSQL lets no TryLock have it.
func (db *DB) Lock(ctx context.Context, name string) (unlock func(), err error) {
	return db.lock(ctx, name, db.waitLock)
}

func (db *DB) lock(ctx context.Context, name string, take func(context.Context, string) (func(), error)) (unlock func(), err error) {
	select {
	case db.locks <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("lock %s: %w", name, context.Cause(ctx))
	}
	release, err := take(ctx, name)
	if err != nil {
		<-db.locks
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return sync.OnceFunc(func() {
		release()
		<-db.locks
	}), nil
}

func (db *DB) tryLock(ctx context.Context, name string) (release func(), err error) {
	taking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	conn, err := db.pool.Acquire(taking)
	if err != nil {
		return nil, db.explain(err)
	}
	key := lockKey(name)
	var locked bool
	if err := conn.QueryRow(taking, `SELECT pg_try_advisory_lock($1)`, key).Scan(&locked); err != nil {
		_ = conn.Conn().Close(taking) // the lock may have been taken
		conn.Release()
		return nil, db.explain(err)
	}
	if !locked {
		conn.Release()
		return nil, smelt.ErrLocked
	}
	return db.unlock(ctx, conn, key), nil
}

func (db *DB) waitLock(ctx context.Context, name string) (release func(), err error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, db.explain(err)
	}
	key := lockKey(name)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `SELECT pg_advisory_lock($1)`, key) // of the session: it outlives the transaction
		return err
	})
	if err != nil {
		_ = conn.Conn().Close(context.WithoutCancel(ctx)) // the lock may have been taken
		conn.Release()
		return nil, db.explain(err)
	}
	return db.unlock(ctx, conn, key), nil
}

// unlock makes the function that gives a lock and its connection back.
func (db *DB) unlock(ctx context.Context, conn *pgxpool.Conn, key int64) func() {
	return func() {
		// A stage that is being stopped unlocks all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
		defer cancel()
		var unlocked bool
		err := conn.QueryRow(ctx, `SELECT pg_advisory_unlock($1)`, key).Scan(&unlocked)
		if err != nil || !unlocked {
			_ = conn.Conn().Close(ctx)
		}
		conn.Release()
	}
}

// lockKey is the number by which PostgreSQL knows the lock of a name.
func lockKey(name string) int64 {
	h := fnv.New64a()
	h.Write([]byte("smelt " + name))
	return int64(h.Sum64())
}
