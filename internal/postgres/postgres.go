// Package postgres is smelt's use of PostgreSQL, and the only importer of pgx. It serves three needs of the line:
//
//   - [Catalog]: the location of each Iceberg table's current metadata, in the tables that every JDBC catalog
//     uses;
//   - [DB.TryLock]: one process at a time works on a table. A paused or dead process loses its locks within six
//     seconds;
//   - [DB.Prepare], [DB.Version], [DB.Load], [DB.Changes]: reference tables, with a version that rises in commit
//     order, and the rows that changed.
//
// # What its role needs
//
// The role need not own anything. To read (the shell, status, verify, history, trace, connect) it needs USAGE on
// the schemas and SELECT on: iceberg_tables; the tables of the schema smelt; and of each reference table the key
// and the columns to be used. To write (smelt run, and commands that change the lake) it needs CONNECT on the
// database, and:
//
//   - for the catalog: CREATE on the first schema of its search_path, once; or, if another role has created the
//     tables, SELECT, INSERT, UPDATE on iceberg_tables and SELECT, INSERT on iceberg_namespace_properties; and
//     DELETE on iceberg_tables, for smelt drop;
//   - for references: CREATE on the database, once, for the schema smelt; or, if another role has created it,
//     USAGE on that schema and SELECT, INSERT, UPDATE, DELETE on its tables;
//   - for each reference table: USAGE on its schema, SELECT on its key and on the columns to be used, and TRIGGER.
//     Without TRIGGER, each poll reads the table to find changes, and a change counts for all of its rows.
//
// docs/security.md has the statements.
//
// It needs PostgreSQL 13 or newer. A pooler must pool sessions, not transactions, because settings of a session
// (UTC, ISO dates) must hold for all of it. A lock appears in pg_stat_activity as an idle transaction. It does not
// hold back VACUUM. A script that ends idle transactions takes locks away.
package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"smelt"
)

const (
	maxConns         = 16               // a small share of a server's usual 100
	connectTimeout   = 5 * time.Second  // far above a healthy server's answer
	statementTimeout = 60 * time.Second // the server ends what runs longer
	callTimeout      = 90 * time.Second // for a server that no longer answers: above statementTimeout, with time to connect
	promptTimeout    = 20 * time.Second // the same for statements on a row or two
	pingTimeout      = 3 * time.Second  // of a connection that was idle: after an outage each of them may lead nowhere
)

// keepAlive finds out within 11 s that a server is out of reach for which somebody
// waits who may wait for long: for a lock, or a large table.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// DB is a pool of connections to one PostgreSQL database. It is safe for
// concurrent use.
type DB struct {
	Log *slog.Logger // set before first use; slog's default otherwise

	reader bool
	pool   *pgxpool.Pool
	where  string        // host:port/database, for messages
	user   string        // for messages
	locks  chan struct{} // one for each connection that holds a lock

	lease, renewEvery, waitFor time.Duration // of locks
}

// Config says how to connect.
type Config struct {
	DSN    string                 // a URL or key=value pairs; what it leaves out comes from the PG* variables
	Reread func() (string, error) // reads the DSN again for each connection, for its password; nil: it does not change
	Reader bool                   // the server lets nothing be written, and SELECT is enough for the role
	TLS    *tls.Config            // the authorities to trust where the DSN verifies, and names none; nil: the system's
	Log    *slog.Logger           // nil: slog's default
}

// errDSN replaces the parser's own error, which quotes the string.
var errDSN = errors.New("the PostgreSQL connection string (SMELT_POSTGRES_DSN) cannot be read: want postgres://USER:PASSWORD@HOST:PORT/DATABASE, " +
	"with special characters of the password percent-encoded, and a sslrootcert, sslcert or sslkey that it names to be there")

// Open connects to the database that dsn names, as [Config.Open] does.
func Open(ctx context.Context, dsn string) (*DB, error) { return Config{DSN: dsn}.Open(ctx) }

// Open connects to the database. It fails with ErrDatabase and says why, never
// with the password.
func (c Config) Open(ctx context.Context) (*DB, error) {
	config, err := pgxpool.ParseConfig(c.DSN)
	if err != nil {
		return nil, smelt.Mark(smelt.ErrDatabase, errDSN)
	}
	c.secure(config.ConnConfig)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Reread != nil {
		config.BeforeConnect = c.login(config.ConnConfig)
	}
	config.MaxConns = maxConns
	config.PingTimeout = pingTimeout
	config.ConnConfig.ConnectTimeout = connectTimeout
	config.ConnConfig.DialFunc = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	for name, value := range map[string]string{
		"application_name":  "smelt-" + smelt.Instance(),
		"statement_timeout": strconv.FormatInt(statementTimeout.Milliseconds(), 10),
		// Text forms of values must not differ between two processes.
		"timezone":      "UTC",
		"datestyle":     "ISO, YMD",
		"intervalstyle": "iso_8601",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}

	if c.Reader {
		config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, smelt.Mark(smelt.ErrDatabase, fmt.Errorf("open PostgreSQL: %w", err))
	}
	db := &DB{
		Log:    c.Log,
		reader: c.Reader,
		pool:   pool,
		where:  location(config.ConnConfig),
		user:   config.ConnConfig.User,
		locks:  make(chan struct{}, maxLocks),

		lease: lease, renewEvery: renewEvery, waitFor: waitFor,
	}
	if err := db.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return db, nil
}

// location is host:port/database.
func location(c *pgx.ConnConfig) string {
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

// Close closes all connections. It waits for those in use, locks included.
func (db *DB) Close() { db.pool.Close() }

// Ping asks the server for an answer.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()
	return db.explain(db.pool.Ping(ctx))
}

// Exec runs one statement, or several without arguments.
func (db *DB) Exec(ctx context.Context, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := db.pool.Exec(ctx, sql, args...)
	return db.explain(err)
}
