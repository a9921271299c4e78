package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/fstest"

	"smelt"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/postgres"
	"smelt/internal/table"
	"smelt/pipeline"
)

// TestLockLostInACommit has a process lose the lock of a table in the middle of a
// commit, when all is uploaded and the catalog is not yet asked. Another does the same
// work meanwhile. One of them wins, whichever asks first, and nothing is there twice.
func TestLockLostInACommit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"silver.p", "gold.p_hourly"} {
		t.Run(name+" to one that commits first", func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			l := newCommon(t, d.dsn())
			one, other := l.process(t), l.process(t)
			one.catalog.before(name, func() {
				d.endLocks(t)
				other.drain(t)
			})
			if err := one.refine(t.Context()); !errors.Is(err, table.ErrConflict) {
				t.Errorf("got %v, want ErrConflict", err)
			}
			one.drain(t)
			l.verify(t, one)
		})
		t.Run(name+" to one that commits second", func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			l := newCommon(t, d.dsn())
			one, other := l.process(t), l.process(t)
			ready, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error)
			other.catalog.before(name, func() {
				close(ready)
				<-goOn
			})
			one.catalog.before(name, func() {
				d.endLocks(t)
				go func() { ended <- other.refine(t.Context()) }()
				<-ready
			})
			if err := one.refine(t.Context()); err != nil {
				t.Error(err)
			}
			close(goOn)
			if err := <-ended; !errors.Is(err, table.ErrConflict) {
				t.Errorf("got %v, want ErrConflict", err)
			}
			other.drain(t)
			l.verify(t, other)
		})
	}
}

// TestRestartInACommit has PostgreSQL crash and come back in the middle of a commit.
func TestRestartInACommit(t *testing.T) {
	t.Parallel()
	if server == nil {
		t.Skip("no PostgreSQL on this machine (looked in /usr/lib/postgresql and PATH)")
	}
	runtime.LockOSThread() // the server ends with this thread
	defer runtime.UnlockOSThread()
	s, stop, err := start(server.bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	l := newCommon(t, s.dsn("postgres", s.password, "postgres"))
	one, other := l.process(t), l.process(t)
	for i, name := range []string{"silver.p", "gold.p_hourly"} {
		l.send(t, one, i+1)
		one.catalog.before(name, func() {
			s.end(syscall.SIGQUIT)
			if err := s.run(); err != nil {
				t.Fatal(err)
			}
			other.drain(t)
		})
		if err := one.refine(t.Context()); err == nil {
			t.Errorf("%s: it committed what the other had committed", name)
		}
		one.drain(t)
		l.verify(t, one)
	}
}

// common is what two processes have in common: the store and the topic are in
// memory, the catalog and the locks in PostgreSQL.
type common struct {
	*pipetest.Lake
	dsn  string
	sent int
}

// process is a line of a process of its own.
type process struct {
	*line.Line
	catalog *interrupted
}

const (
	sentAtOnce  = 40 // records
	connections = 16 // of a process, at most
)

func newCommon(t *testing.T, dsn string) *common {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 256 << 20, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	lake, err := pipetest.NewLake(db, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(lake.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return &common{Lake: lake, dsn: dsn}
}

// process opens a line, prepares it, and sends the first events to the first one.
func (l *common) process(t *testing.T) *process {
	t.Helper()
	db := open(t, l.dsn)
	db.Log = slog.New(slog.DiscardHandler)
	catalog, err := db.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &process{catalog: &interrupted{Catalog: catalog}}
	l.Parts.Locker, l.Parts.Area.Lake = db, table.Open(l.Parts.Area.Store, p.catalog, "s3://test")
	pipeline, err := pipeline.Read(fstest.MapFS{
		"p/pipeline.yml": {Data: []byte("source: {kafka: t}\nevents:\n  time: ts\n  columns: {id: varchar not null, ts: timestamptz not null}\n" +
			"silver: {partition: day(ts), unique: [id]}\ngold:\n  hourly: {window: 1h, column: hour}\n")},
		"p/silver.sql": {Data: []byte("SELECT id, ts, _partition_id, _partition_offset FROM bronze.p")},
		"p/hourly.sql": {Data: []byte("SELECT date_trunc('hour', ts) AS hour, count(*) AS n FROM silver.p GROUP BY ALL")},
	}, "p")
	if err != nil {
		t.Fatal(err)
	}
	if p.Line, err = line.Open(t.Context(), pipeline, l.Parts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.sent == 0 {
		l.send(t, p, 0)
	}
	return p
}

// send takes events of a day into bronze; every fourth is malformed.
func (l *common) send(t *testing.T, p *process, day int) {
	t.Helper()
	for n := range sentAtOnce {
		value := fmt.Sprintf(`{"id":"%d-%d","ts":"2026-11-%02dT%02d:00:00Z"}`, day, n, 10+day, n/4)
		if n%4 == 0 {
			value = "malformed"
		}
		l.Topic.Append(smelt.Record{Timestamp: smelt.NoTimestamp, Value: []byte(value)})
	}
	l.sent += sentAtOnce
	if _, err := p.Bronze.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// refine steps silver and then gold, once.
func (p *process) refine(ctx context.Context) error {
	if _, err := p.Silver.Step(ctx); err != nil {
		return err
	}
	_, err := p.Gold[0].Step(ctx)
	return err
}

// drain steps the line until gold has everything. It may be called from a commit of
// another process, and fails the test then.
func (p *process) drain(t *testing.T) {
	t.Helper()
	for steps, failed := 0, 0; steps < 2; { // what a step rejects is in quarantine after the next
		err := p.refine(t.Context())
		if err == nil {
			steps++
			continue
		}
		// After a restart a connection of the pool may be found broken, each of them once.
		if failed++; !errors.Is(err, smelt.ErrDatabase) || failed > connections {
			t.Errorf("drain: %v", err)
			return
		}
	}
}

// verify recounts the lake.
func (l *common) verify(t *testing.T, p *process) {
	t.Helper()
	verdict, err := inspect.Verifier{Area: l.Parts.Area, Duck: l.Parts.Duck}.Verify(t.Context(), p.Pipeline)
	if err != nil || len(verdict.Mismatches) > 0 {
		t.Errorf("verify: %v, %v", verdict.Mismatches, err)
	}
	r := verdict.Receipt
	if want := int64(l.sent); r.Bronze != want || r.Silver != want*3/4 || r.Quarantine != want/4 {
		t.Errorf("got %s, want bronze %d = silver %d + quarantine %d", r, want, want*3/4, want/4)
	}
}

// interrupted is a catalog where something may happen before a swap.
type interrupted struct {
	*postgres.Catalog
	name string
	then func()
}

// before has something happen before the next swap of a table.
func (c *interrupted) before(name string, then func()) { c.name, c.then = name, then }

func (c *interrupted) Swap(ctx context.Context, moves ...smelt.Move) error {
	is := func(m smelt.Move) bool { return m.Table == c.name }
	if then := c.then; then != nil && slices.ContainsFunc(moves, is) {
		c.then = nil
		then()
	}
	return c.Catalog.Swap(ctx, moves...)
}

// endLocks ends the sessions that hold locks.
func (d *database) endLocks(t *testing.T) {
	t.Helper()
	var ended int
	err := d.admin.QueryRow(t.Context(), `
		SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 10000)) FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&ended)
	if err != nil || ended != 1 {
		t.Errorf("ended %d sessions that held a lock, %v", ended, err)
	}
}
