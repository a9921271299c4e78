package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"smelt"
)

const (
	// maxLocks are held at a time; each keeps a connection to itself. What works
	// under a lock needs a connection too, so half of them stay free.
	maxLocks = maxConns / 2

	// lease is how long a lock outlives its holder's last sign of life. The holder may be paused, or on a machine that
	// vanished. Another process takes over within ten seconds.
	lease = 6 * time.Second

	// renewEvery leaves room for two signs of life that are late.
	renewEvery = 2 * time.Second

	// waitFor is the length of one turn of a wait, so that a waiter notices a missing server. Between two turns another
	// process may be faster.
	waitFor = 30 * time.Second

	// unlockTimeout is for one round trip. After it the connection is closed,
	// which releases the lock as well.
	unlockTimeout = 5 * time.Second
)

// A lock is an advisory lock of a transaction that does nothing else. The server
// ends a transaction that is idle for longer than the lease, and with it the lock; as
// long as the holder lives it says something in time. Between two statements such a
// transaction has no snapshot, so it keeps no VACUUM from its work.

// TryLock takes the lock of a name for this process, or returns ErrLocked when
// another process, or another goroutine of this one, holds it. PostgreSQL
// releases the lock at once when its holder dies, and within seconds when nothing
// is heard of it; a connection that breaks loses it. unlock may be called again.
func (db *DB) TryLock(ctx context.Context, name string) (unlock func(), err error) {
	return db.lock(ctx, name, db.tryLock)
}

// Lock waits for the lock of a name, and is served in its turn: while somebody
// waits PostgreSQL lets no TryLock have it.
func (db *DB) Lock(ctx context.Context, name string) (unlock func(), err error) {
	return db.lock(ctx, name, db.waitLock)
}

func (db *DB) lock(ctx context.Context, name string, take func(context.Context, *pgxpool.Conn, int64) error) (unlock func(), err error) {
	select {
	case db.locks <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("lock %s: %w", name, context.Cause(ctx))
	}
	conn, err := db.acquire(ctx)
	if err == nil {
		if err = take(ctx, conn, lockKey(name)); err != nil {
			conn.Release() // which closes it when it is in a transaction
		}
	}
	if err != nil {
		<-db.locks
		if !errors.Is(err, smelt.ErrLocked) {
			err = db.explain(err)
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	release := db.hold(ctx, name, conn)
	return sync.OnceFunc(func() {
		release()
		<-db.locks
	}), nil
}

// acquire takes a connection from the pool.
func (db *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()
	return db.pool.Acquire(ctx)
}

// tryLock begins the transaction that holds a lock. When another holds the lock it
// ends it again and fails with ErrLocked.
func (db *DB) tryLock(ctx context.Context, conn *pgxpool.Conn, key int64) error {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()

	// In one round trip, hence without parameters.
	results, err := conn.Conn().PgConn().Exec(ctx, fmt.Sprintf(
		`BEGIN; SET LOCAL idle_in_transaction_session_timeout = %d; SELECT pg_try_advisory_xact_lock(%d)`,
		db.lease.Milliseconds(), key)).ReadAll()
	if err != nil {
		return err
	}
	if locked := string(results[len(results)-1].Rows[0][0]) == "t"; locked {
		return nil
	}
	if err := rollback(ctx, conn); err != nil {
		return err
	}
	return smelt.ErrLocked
}

// waitLock begins the transaction that holds a lock, once it is free.
func (db *DB) waitLock(ctx context.Context, conn *pgxpool.Conn, key int64) error {
	for {
		err := db.waitTurn(ctx, conn, key)
		if sqlState(err) != lockNotAvailable {
			return err
		}
		if err := rollback(ctx, conn); err != nil {
			return err
		}
	}
}

// waitTurn is one turn of a wait. If the lock is not free within it, the error is lockNotAvailable. No time-out of
// the role ends it earlier. If the process is dead or paused when it gets the lock, the lease runs from then.
func (db *DB) waitTurn(ctx context.Context, conn *pgxpool.Conn, key int64) error {
	ctx, cancel := context.WithTimeout(ctx, db.waitFor+promptTimeout)
	defer cancel()
	_, err := conn.Conn().PgConn().Exec(ctx, fmt.Sprintf(
		`BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d; SELECT pg_advisory_xact_lock(%d)`,
		db.waitFor.Milliseconds(), db.lease.Milliseconds(), key)).ReadAll()
	return err
}

// hold keeps a lock that was taken until release is called, which gives back the
// connection too.
func (db *DB) hold(ctx context.Context, name string, conn *pgxpool.Conn) (release func()) {
	ctx = context.WithoutCancel(ctx) // a stage that is being stopped unlocks all the same
	began := time.Now()
	stop := make(chan struct{})
	renewed := make(chan error, 1)
	lost := func(err error) {
		db.Log.Warn("lock lost, so another process may do the same work meanwhile: the first of the two to commit is taken",
			"lock", name, "held", time.Since(began).Round(time.Millisecond), "error", db.explain(err))
	}
	go func() {
		err := db.renew(ctx, conn, stop)
		if err != nil {
			lost(err)
		}
		renewed <- err
	}()
	return func() {
		defer conn.Release()
		close(stop)
		if err := <-renewed; err != nil {
			return
		}
		if err := rollback(ctx, conn); err != nil {
			lost(err)
		}
	}
}

// rollback ends the transaction of a lock, or of an attempt at one.
func rollback(ctx context.Context, conn *pgxpool.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, `ROLLBACK`)
	return err
}

// renew gives the server a sign of life every so often until stop is closed, or
// returns why the lock is lost.
func (db *DB) renew(ctx context.Context, conn *pgxpool.Conn, stop <-chan struct{}) error {
	tick := time.NewTicker(db.renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(ctx, db.lease)
		_, err := conn.Exec(ctx, `SELECT 1`)
		cancel()
		if err != nil {
			return err
		}
	}
}

// lockKey is the number by which PostgreSQL knows the lock of a name.
func lockKey(name string) int64 {
	h := fnv.New64a()
	h.Write([]byte("smelt " + name))
	return int64(h.Sum64())
}
