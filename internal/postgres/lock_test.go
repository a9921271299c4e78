package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"smelt"
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
		if _, err := db.TryLock(ctx, "silver.sensors"); !errors.Is(err, smelt.ErrLocked) {
			t.Errorf("second lock: got %v, want ErrLocked", err)
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
