// Package duck runs DuckDB inside the process: the engine of silver, gold and the shell. It is the only importer of
// DuckDB. Start reading with duck.go, then source.go.
//
// One [DB] is one in-memory instance with one memory limit. Each job uses a [Session]: a connection with its own
// catalog. So two jobs may both have a table bronze.sensors, and a session leaves nothing behind.
package duck

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"smelt"
	"smelt/internal/disk"
)

// Config bounds an instance.
type Config struct {
	MemoryBytes int64  // DuckDB's limit; what goes beyond it spills to TempDir
	TempDir     string // for spilling and for files on their way; made when missing
	Threads     int    // 0: as many as there are cores
}

// maxSpillBytes bounds what DuckDB may spill before a query fails: a runaway
// query must not fill the disk that the lake may live on.
const maxSpillBytes = 64 << 30

// DB is one DuckDB instance. It is safe for concurrent use.
type DB struct {
	pool    *sql.DB
	tempDir string
	next    atomic.Int64
	sources *sources

	threads  int // as configured
	parallel struct {
		mu   sync.Mutex
		jobs int
	}
}

// Open starts an instance in memory.
func Open(cfg Config) (*DB, error) {
	if err := os.MkdirAll(cfg.TempDir, 0o700); err != nil {
		return nil, fmt.Errorf("duckdb's temp folder: %w", disk.Explain(err, cfg.TempDir))
	}
	settings := []string{
		fmt.Sprintf("SET memory_limit = '%d B'", cfg.MemoryBytes),
		"SET temp_directory = " + Literal(spillDir(cfg.TempDir)),
		fmt.Sprintf("SET max_temp_directory_size = '%d B'", int64(maxSpillBytes)),
		"SET autoinstall_known_extensions = false",
	}
	if cfg.Threads > 0 {
		settings = append(settings, fmt.Sprintf("SET threads = %d", cfg.Threads))
	}
	connector, err := duckdb.NewConnector("", func(conn driver.ExecerContext) error {
		_, err := conn.ExecContext(context.Background(), "SET TimeZone = 'UTC'", nil) // of the connection; the others are the instance's
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open duckdb: %w", err)
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxIdleConns(0)      // a connection that is given back takes its temp tables along
	for _, s := range settings { // once: a folder that was spilled to cannot be set any more, not even to itself
		if _, err := pool.Exec(s); err != nil {
			return nil, errors.Join(fmt.Errorf("open duckdb: %s: %w", s, err), pool.Close())
		}
	}
	db := &DB{pool: pool, tempDir: cfg.TempDir, threads: cfg.Threads, sources: &sources{all: map[int64]Source{}}}
	if err := db.register(); err != nil {
		return nil, errors.Join(fmt.Errorf("open duckdb: %w", err), pool.Close())
	}
	return db, nil
}

// register makes the functions of smelt's own known to the instance.
func (db *DB) register() error {
	conn, err := db.pool.Conn(context.Background())
	if err != nil {
		return err
	}
	return errors.Join(conn.Raw(db.sources.register), conn.Close())
}

// Parallel lets all statements use every core until done is called: for the rare
// work that is so much that somebody waits for it.
func (db *DB) Parallel(ctx context.Context) (done func(), err error) {
	db.parallel.mu.Lock()
	defer db.parallel.mu.Unlock()
	if err := db.setThreads(ctx, runtime.NumCPU()); err != nil {
		return nil, err
	}
	db.parallel.jobs++
	return func() {
		db.parallel.mu.Lock()
		defer db.parallel.mu.Unlock()
		if db.parallel.jobs--; db.parallel.jobs == 0 && db.threads > 0 {
			_ = db.setThreads(context.WithoutCancel(ctx), db.threads) // else results are the same, at some more CPU
		}
	}, nil
}

func (db *DB) setThreads(ctx context.Context, n int) error {
	if _, err := db.pool.ExecContext(ctx, fmt.Sprintf("SET threads = %d", n)); err != nil {
		return fmt.Errorf("duckdb's threads: %w", err)
	}
	return nil
}

// Close ends the instance. Its sessions must be closed before.
func (db *DB) Close() error { return db.pool.Close() }

// Dir is the folder in which TempDir makes folders. Their makers remove them, or the next Open does.
func (db *DB) Dir() string { return db.tempDir }

// spillDir is the folder in a temp folder to which DuckDB spills.
func spillDir(temp string) string { return filepath.Join(temp, "spill") }

// TempDir makes a new folder for files on their way. The caller removes it. It makes
// what that is in as well, and what DuckDB spills to, should somebody who tidied up have
// removed them: DuckDB itself does so but once.
func (db *DB) TempDir() (string, error) {
	if err := os.MkdirAll(spillDir(db.tempDir), 0o700); err != nil {
		return "", fmt.Errorf("temp folder: %w", disk.Explain(err, db.tempDir))
	}
	dir, err := os.MkdirTemp(db.tempDir, "job-")
	return dir, disk.Explain(err, db.tempDir)
}

// Session is one job's connection with its own catalog, in which the schemas
// bronze, silver, gold, reference and work are there. It is used by one
// goroutine at a time.
type Session struct {
	db       *DB
	conn     *sql.Conn
	catalog  string
	provided []int64 // its sources
}

// Session opens a session.
func (db *DB) Session(ctx context.Context) (*Session, error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("duckdb connection: %w", err)
	}
	s := &Session{db: db, conn: conn, catalog: fmt.Sprintf("job%d", db.next.Add(1))}
	err = s.Exec(ctx,
		"ATTACH ':memory:' AS "+s.catalog,
		"USE "+s.catalog,
		"CREATE SCHEMA bronze", "CREATE SCHEMA silver", "CREATE SCHEMA gold",
		"CREATE SCHEMA reference", "CREATE SCHEMA work")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close drops the session's catalog and its connection.
func (s *Session) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // a cancelled query ends within half a second
	defer cancel()
	err := s.Exec(ctx, "USE memory", "DETACH DATABASE IF EXISTS "+s.catalog)
	for _, n := range s.provided {
		s.db.sources.remove(n)
	}
	return errors.Join(err, s.conn.Close())
}

// Exec runs statements in order, each for its effect.
func (s *Session) Exec(ctx context.Context, statements ...string) error {
	for _, q := range statements {
		if _, err := s.conn.ExecContext(ctx, q); err != nil {
			return wrap(q, err)
		}
	}
	return nil
}

// Query runs one query. The caller closes the rows.
func (s *Session) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := s.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, wrap(query, err)
	}
	return rows, nil
}

// Row runs a query that gives one row, and scans it.
func (s *Session) Row(ctx context.Context, query string, dest ...any) error {
	if err := s.conn.QueryRowContext(ctx, query).Scan(dest...); err != nil {
		return wrap(query, err)
	}
	return nil
}

// Strings runs a query whose rows are one string each.
func (s *Session) Strings(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := s.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var v sql.NullString
		if err := rows.Scan(&v); err != nil {
			return nil, wrap(query, err)
		}
		out = append(out, v.String)
	}
	return out, wrap(query, rows.Err())
}

// Ints runs a query whose rows are one number each.
func (s *Session) Ints(ctx context.Context, query string) ([]int, error) {
	rows, err := s.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []int
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, wrap(query, err)
		}
		out = append(out, n)
	}
	return out, wrap(query, rows.Err())
}

// Never says whether a query is known to give no row, by its plan alone: the
// statistics of the tables that it reads, say, rule its conditions out. It does
// not run the query.
func (s *Session) Never(ctx context.Context, query string) (bool, error) {
	rows, err := s.Query(ctx, "EXPLAIN "+query)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var key, plan string
		if err := rows.Scan(&key, &plan); err != nil {
			return false, wrap(query, err)
		}
		if strings.Contains(plan, "EMPTY_RESULT") {
			return true, nil
		}
	}
	return false, wrap(query, rows.Err())
}

// Describe gives the columns of a query's result, without running it.
func (s *Session) Describe(ctx context.Context, query string) ([]smelt.Column, error) {
	rows, err := s.Query(ctx, "SELECT column_name, column_type FROM (DESCRIBE "+query+")")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var columns []smelt.Column
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, wrap(query, err)
		}
		typ, err := ParseType(text)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
		columns = append(columns, smelt.Column{Name: name, Type: typ})
	}
	return columns, wrap(query, rows.Err())
}

// Load makes the table schema.name and fills it with rows. A decimal is given as
// a string.
func (s *Session) Load(ctx context.Context, schema, name string, columns []smelt.Column, rows iter.Seq2[[]any, error]) error {
	table := Quote(schema) + "." + Quote(name)
	defs := make([]string, len(columns))
	var casts []string
	for i, c := range columns {
		typ := c.Type.String()
		if strings.HasPrefix(c.Type.Name, "decimal") { // the appender takes no text for it
			casts = append(casts, "ALTER TABLE "+table+" ALTER "+Quote(c.Name)+" TYPE "+typ)
			typ = "VARCHAR"
		}
		defs[i] = Quote(c.Name) + " " + typ
	}
	if err := s.Exec(ctx, "CREATE OR REPLACE TABLE "+table+" ("+strings.Join(defs, ", ")+")"); err != nil {
		return err
	}
	err := s.conn.Raw(func(conn any) error {
		app, err := duckdb.NewAppender(conn.(driver.Conn), s.catalog, schema, name)
		if err != nil {
			return err
		}
		return errors.Join(appendRows(app, rows), app.Close())
	})
	if err != nil {
		return fmt.Errorf("load %s: %w", table, err)
	}
	return s.Exec(ctx, casts...)
}

func appendRows(app *duckdb.Appender, rows iter.Seq2[[]any, error]) error {
	var values []driver.Value
	for row, err := range rows {
		if err != nil {
			return err
		}
		values = values[:0]
		for _, v := range row {
			values = append(values, v)
		}
		if err := app.AppendRow(values...); err != nil {
			return err
		}
	}
	return nil
}

// Rows gives rows that are in memory one after the other.
func Rows(rows [][]any) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// wrap adds the start of a failed statement to its error, and what to do about a disk error: DuckDB names the file.
func wrap(query string, err error) error {
	if err == nil {
		return nil
	}
	const most = 160 // bytes of a statement that an error shows
	q := strings.Join(strings.Fields(query), " ")
	if len(q) > most {
		q = q[:most] + "…"
	}
	var de *duckdb.Error
	if errors.As(err, &de) && de.Type == duckdb.ErrorTypeIO {
		err = disk.ExplainText(err, "that file")
	}
	return &Error{Statement: q, err: err}
}

// Error is a statement that DuckDB refused or could not finish.
type Error struct {
	Statement string // its head
	err       error
}

func (e *Error) Error() string { return e.err.Error() + " (in: " + e.Statement + ")" }
func (e *Error) Unwrap() error { return e.err }

// Message is DuckDB's own message, without the statement.
func (e *Error) Message() string { return e.err.Error() }

// Malformed says whether an error is DuckDB's complaint about its input's
// form, rather than about memory, files or a cancelled context.
func Malformed(err error) bool {
	var de *duckdb.Error
	if !errors.As(err, &de) {
		return false
	}
	switch de.Type {
	case duckdb.ErrorTypeInvalidInput, duckdb.ErrorTypeConversion, duckdb.ErrorTypeOutOfRange, duckdb.ErrorTypeInvalidType:
		return true
	}
	return false
}

// Thrown says whether an error is one that SQL may throw on some rows and not on others:
// a cast, an overflow, a bad date, error().
func Thrown(err error) bool {
	var de *duckdb.Error
	if !errors.As(err, &de) {
		return false
	}
	switch de.Type {
	case duckdb.ErrorTypeInvalidInput, duckdb.ErrorTypeConversion, duckdb.ErrorTypeOutOfRange, duckdb.ErrorTypeInvalidType, duckdb.ErrorTypeMismatchType,
		duckdb.ErrorTypeDivideByZero, duckdb.ErrorTypeObjectSize, duckdb.ErrorTypeDecimal, duckdb.ErrorTypeExpression, duckdb.ErrorTypeExecutor, duckdb.ErrorTypeNotImplemented:
		return true
	}
	return false
}

// Message is DuckDB's own message in an error, without the statement.
func Message(err error) string {
	var de *duckdb.Error
	if errors.As(err, &de) {
		return de.Msg
	}
	return err.Error()
}

// OutOfMemory says whether a statement needed more than the memory limit.
func OutOfMemory(err error) bool {
	var de *duckdb.Error
	return errors.As(err, &de) && de.Type == duckdb.ErrorTypeOutOfMemory
}
