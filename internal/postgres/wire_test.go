package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"smelt"
	"smelt/internal/postgres"
	"smelt/internal/wiretest"
)

// overWire opens a fresh database by way of a wire.
func overWire(t *testing.T) (*database, *postgres.DB, *wiretest.Proxy) {
	t.Helper()
	d := setup(t)
	wire := wiretest.NewProxy(t, server.address)
	u, err := url.Parse(d.dsn())
	if err != nil {
		t.Fatal(err)
	}
	u.Host = wire.Address()
	return d, open(t, u.String()), wire
}

// TestLostReplyOfSwap loses the reply of a swap that was made: the error leaves the
// outcome open, and the pointer tells it.
func TestLostReplyOfSwap(t *testing.T) {
	t.Parallel()
	_, db, wire := overWire(t)
	c, err := db.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps := []string{"", "s3://lake/1.metadata.json", "s3://lake/2.metadata.json", "s3://lake/3.metadata.json"}
	for i, to := range steps[1:] {
		moves, what := []smelt.Move{{Table: "silver.x", From: steps[i], To: to}}, to
		if i == 1 { // of a transaction it is the reply to the commit
			moves, what = append(moves, smelt.Move{Table: "quarantine.x", To: to}), "commit"
		}
		wire.Set(wiretest.Fault{LoseReply: func(request []byte) bool { return bytes.Contains(request, []byte(what)) }})
		err := c.Swap(t.Context(), moves...)
		if err == nil || errors.Is(err, smelt.ErrExists) || !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), "the connection to PostgreSQL at "+wire.Address()) {
			t.Errorf("swap to %s, its reply lost: %v; want an error that leaves the outcome open and says where", to, err)
		}
		wire.Set(wiretest.Fault{})
		for _, m := range moves {
			if at, err := c.Current(t.Context(), m.Table); err != nil || at[0] != to {
				t.Errorf("current of %s after it: %q, %v; want %s", m.Table, at, err, to)
			}
		}
		// Who tries the same again must not take its own swap for that of another.
		if err := c.Swap(t.Context(), moves...); !errors.Is(err, smelt.ErrExists) {
			t.Errorf("the same swap again: %v, want ErrExists", err)
		}
	}
}

// TestSilentServer has calls end in time, and say what is wrong, when nothing comes
// back any more.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	_, db, wire := overWire(t)
	c, err := db.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wire.Set(wiretest.Fault{Silent: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // in place of the call's own time
	defer cancel()
	var group sync.WaitGroup
	for name, call := range map[string]func() error{
		"current": func() error { _, err := c.Current(ctx, "silver.x"); return err },
		"list":    func() error { _, err := c.List(ctx); return err },
		"lock":    func() error { _, err := db.TryLock(ctx, "silver.x"); return err },
		"wait":    func() error { _, err := db.Lock(ctx, "silver.y"); return err },
		"ping":    func() error { return db.Ping(ctx) },
	} {
		group.Go(func() {
			if err := call(); !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), wire.Address()+"/") {
				t.Errorf("%s: %v, want an error that says where", name, err)
			}
		})
	}
	group.Wait()
	wire.Set(wiretest.Fault{})
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("ping when the wire is in order again: %v", err)
	}
}

// TestDeadConnections has all connections of before lead nowhere: each costs a ping's
// time at most, and then there are new ones.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	_, db, wire := overWire(t)
	wire.Set(wiretest.Fault{Silent: true, Forget: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := db.Exec(ctx, "SELECT 1"); err == nil {
		t.Error("no error on a silent wire")
	}
	wire.Set(wiretest.Fault{})
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("ping when the wire is in order again: %v", err)
	}
}

// TestLockWaitsInTurns has somebody wait for a lock for longer than a turn.
func TestLockWaitsInTurns(t *testing.T) {
	t.Parallel()
	d := setup(t)
	holder, waiting := open(t, d.dsn()), open(t, d.dsn())
	waiting.SetWaitFor(10 * time.Millisecond)
	unlock, err := holder.TryLock(t.Context(), "silver.x")
	if err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() {
		unlock, err := waiting.Lock(t.Context(), "silver.x")
		if err == nil {
			unlock()
		}
		locked <- err
	}()
	turns := map[time.Time]bool{}
	for len(turns) < 3 {
		var began time.Time
		err := d.admin.QueryRow(t.Context(), `
			SELECT coalesce(max(query_start), 'epoch')
			FROM pg_stat_activity JOIN pg_locks USING (pid)
			WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()`).Scan(&began)
		if err != nil {
			t.Fatal(err)
		}
		turns[began] = true
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

// TestSilenceBetweenTurns has the server fall silent when a turn of a wait is over.
func TestSilenceBetweenTurns(t *testing.T) {
	t.Parallel()
	d, waiting, wire := overWire(t)
	holder := open(t, d.dsn())
	unlock, err := holder.TryLock(t.Context(), "silver.x")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	waiting.SetWaitFor(10 * time.Millisecond)
	wire.Set(wiretest.Fault{LoseReply: func(request []byte) bool {
		if bytes.Contains(request, []byte("ROLLBACK")) {
			wire.Set(wiretest.Fault{Silent: true})
		}
		return false
	}})
	if _, err := waiting.Lock(t.Context(), "silver.x"); !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), "does not answer in time") {
		t.Errorf("got %v, want that the server does not answer", err)
	}
}
