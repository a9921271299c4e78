package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"smelt"
	"smelt/internal/postgres"
)

func TestLock(t *testing.T) {
	t.Parallel()
	d := setup(t)
	one, other := open(t, d.dsn()), open(t, d.dsn())
	ctx := t.Context()

	unlock, err := one.TryLock(ctx, "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, db := range []smelt.Locker{one, other} {
		if _, err := db.TryLock(ctx, "silver.sensors"); !errors.Is(err, smelt.ErrLocked) || errors.Is(err, smelt.ErrDatabase) {
			t.Errorf("second lock: got %v, want ErrLocked, which is no trouble of the database", err)
		}
	}
	if unlockGold, err := other.TryLock(ctx, "gold.sensors_hourly"); err != nil {
		t.Errorf("lock of another name: %v", err)
	} else {
		unlockGold()
	}
	unlock()
	unlock() // does nothing
	if unlock, err = other.TryLock(ctx, "silver.sensors"); err != nil {
		t.Fatalf("lock after unlock: %v", err)
	}
	unlock()
}

func TestLockIsFreedWithItsConnection(t *testing.T) {
	t.Parallel()
	d := setup(t)
	one, other := open(t, d.dsn()), open(t, d.dsn())
	unlockLost, err := one.TryLock(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, d.admin, `SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	unlock, err := other.TryLock(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatalf("lock after its holder's connection broke: %v", err)
	}
	unlockLost() // must not free the other's
	if _, err := one.TryLock(t.Context(), "silver.sensors"); !errors.Is(err, smelt.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	unlock()
	if err := one.Ping(t.Context()); err != nil {
		t.Errorf("ping after a lost connection: %v", err)
	}
}

func TestUnlockAfterCancel(t *testing.T) {
	t.Parallel()
	db := open(t, setup(t).dsn())
	ctx, cancel := context.WithCancel(t.Context())
	unlock, err := db.TryLock(ctx, "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	unlock()
	if unlock, err = db.TryLock(t.Context(), "silver.sensors"); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// What works under a lock needs a connection of its own.
func TestLocksLeaveConnections(t *testing.T) {
	t.Parallel()
	db := open(t, setup(t).dsn())
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			unlock, err := db.TryLock(t.Context(), fmt.Sprintf("silver.t%d", i))
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if err := db.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// A paused process, or one on a vanished machine, is silent while its connection stays open. Waiting and trying processes get
// its locks.
func TestLockOfASilentHolder(t *testing.T) {
	t.Parallel()
	d := setup(t)
	silent, paused, other := open(t, d.dsn()), open(t, d.dsn()), open(t, d.dsn())
	silent.SetLease(300*time.Millisecond, never)
	paused.SetLease(300*time.Millisecond, never)

	unlockSilent, err := silent.TryLock(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	// It waits behind the silent one, gets the lock, and does not notice.
	unlockPaused, err := paused.Lock(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatalf("behind a silent holder: %v", err)
	}
	unlock, err := other.Lock(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatalf("behind one that was silent when its turn came: %v", err)
	}
	unlockSilent() // must not free the other's
	unlockPaused()
	if _, err := silent.TryLock(t.Context(), "silver.sensors"); !errors.Is(err, smelt.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	unlock()
	for _, db := range []*postgres.DB{silent, paused} {
		if unlock, err = db.TryLock(t.Context(), "silver.sensors"); err != nil {
			t.Fatalf("after a lost lock: %v", err)
		}
		unlock()
	}
}

// never is longer than any test.
const never = time.Hour

func TestLockOutlastsItsLease(t *testing.T) {
	t.Parallel()
	d := setup(t)
	holder, other := open(t, d.dsn()), open(t, d.dsn())
	const lease = time.Second
	holder.SetLease(lease, lease/20)
	unlock, err := holder.TryLock(t.Context(), "maintain.silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	for held := time.Duration(0); held < 3*lease/2; {
		var vacuumWaits bool
		err := d.admin.QueryRow(t.Context(), `
			SELECT clock_timestamp() - xact_start, state = 'idle in transaction' AND backend_xmin IS NOT NULL
			FROM pg_stat_activity JOIN pg_locks USING (pid)
			WHERE locktype = 'advisory' AND datname = current_database()`).Scan(&held, &vacuumWaits)
		if err != nil {
			t.Fatalf("a holder that gives signs of life lost its lock: %v", err)
		}
		if vacuumWaits {
			t.Fatal("VACUUM has to wait for the holder")
		}
	}
	if _, err := other.TryLock(t.Context(), "maintain.silver.sensors"); !errors.Is(err, smelt.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	unlock()
	if unlock, err = other.TryLock(t.Context(), "maintain.silver.sensors"); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// A role may have time-outs of its own.
func TestLockWaitsLongerThanItsRole(t *testing.T) {
	t.Parallel()
	d := setup(t)
	role, roleDSN := d.role(t)
	mustExec(t, d.admin, "ALTER ROLE "+role+" SET lock_timeout = 1")
	holder, waiting := open(t, d.dsn()), open(t, roleDSN)
	unlock, err := holder.TryLock(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() {
		unlock, err := waiting.Lock(t.Context(), "silver.sensors")
		if err == nil {
			unlock()
		}
		locked <- err
	}()
	for since := time.Duration(0); since < 50*time.Millisecond; { // lock_timeout has passed
		err := d.admin.QueryRow(t.Context(), `
			SELECT coalesce(max(clock_timestamp() - query_start), '0')
			FROM pg_stat_activity JOIN pg_locks USING (pid)
			WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()`).Scan(&since)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-locked:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
	}
	unlock()
	if err := <-locked; err != nil {
		t.Error(err)
	}
}
