package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"smelt"
	"smelt/internal/trust"
)

// SQLSTATEs that get a message of their own.
const (
	wrongPassword         = "28P01"
	notAuthorized         = "28000"
	noSuchDatabase        = "3D000"
	diskFull              = "53100"
	tooManyConnections    = "53300"
	insufficientPrivilege = "42501"
	lockNotAvailable      = "55P03"
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	invalidName           = "42602"
	crossDatabase         = "0A000"
	syntaxError           = "42601"
	adminShutdown         = "57P01"
	crashShutdown         = "57P02"
	cannotConnectNow      = "57P03"
)

// refusedTLS is pgx's error for a server without encryption when encryption is required.
const refusedTLS = "server refused TLS connection"

// explain marks a database error and adds what to do about it. A call that the caller has cancelled is not an error
// of the database.
func (db *DB) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	// A ConnectError carries the configuration, password and all: only its cause goes on.
	var connect *pgconn.ConnectError
	connecting := errors.As(err, &connect)
	if connecting {
		err = connect.Unwrap()
	}
	switch advice := db.advice(err); {
	case advice != "" && connecting: // the cause tells each try, and nothing more
		err = &advised{advice, err}
	case advice != "":
		err = fmt.Errorf("%s: %w", advice, err)
	case connecting:
		err = fmt.Errorf("connect to PostgreSQL at %s as %s: %w", db.where, db.user, err)
	}
	return smelt.Mark(smelt.ErrDatabase, err)
}

// advised is an error in words that say all there is to say of its cause.
type advised struct {
	words string
	cause error
}

func (a *advised) Error() string { return a.words }
func (a *advised) Unwrap() error { return a.cause }

// advice says in a person's words what is wrong and what to do, or nothing.
func (db *DB) advice(err error) string {
	switch sqlState(err) {
	case wrongPassword:
		return fmt.Sprintf("PostgreSQL at %s refuses user %s: wrong password or no such user; correct SMELT_POSTGRES_DSN", db.where, db.user)
	case notAuthorized:
		if strings.HasSuffix(serverSays(err), "no encryption") {
			return fmt.Sprintf("PostgreSQL at %s does not let user %s in without TLS; ask for it with sslmode=verify-full in SMELT_POSTGRES_DSN", db.where, db.user)
		}
		return fmt.Sprintf("PostgreSQL at %s does not let user %s in; correct SMELT_POSTGRES_DSN or the server's pg_hba.conf", db.where, db.user)
	case noSuchDatabase:
		return fmt.Sprintf("PostgreSQL at %s has no such database; create it or correct SMELT_POSTGRES_DSN", db.where)
	case tooManyConnections:
		return fmt.Sprintf("PostgreSQL at %s has no connection left; close others or raise its max_connections", db.where)
	case diskFull:
		return fmt.Sprintf("PostgreSQL at %s has no room left on its disk; make some there", db.where)
	case insufficientPrivilege:
		if strings.HasSuffix(serverSays(err), "Read-only file system") {
			return fmt.Sprintf("PostgreSQL at %s cannot write to its disk, which is read-only; make it writable there", db.where)
		}
		return fmt.Sprintf("PostgreSQL at %s: user %s lacks a right; grant it", db.where, db.user)
	case lockNotAvailable:
		return fmt.Sprintf("PostgreSQL at %s: another transaction holds the table; end it, or wait and try again", db.where)
	case adminShutdown, crashShutdown, cannotConnectNow:
		return fmt.Sprintf("PostgreSQL at %s is stopping or starting, or an administrator ended the connection", db.where)
	}
	if strings.HasSuffix(serverSays(err), "Disk quota exceeded") {
		return fmt.Sprintf("PostgreSQL at %s has used up its quota of its disk; make room there, or raise it", db.where)
	}
	if fault := trust.Fault(err); fault != "" {
		return fmt.Sprintf("PostgreSQL at %s: %s; see sslmode and sslrootcert in SMELT_POSTGRES_DSN", db.where, fault)
	}
	var dns *net.DNSError
	switch {
	case err != nil && strings.HasSuffix(err.Error(), refusedTLS):
		return fmt.Sprintf("PostgreSQL at %s: it does not speak TLS; switch it on there (ssl = on), or correct sslmode in SMELT_POSTGRES_DSN", db.where)
	case errors.As(err, &dns):
		return fmt.Sprintf("PostgreSQL at %s: no such host; correct SMELT_POSTGRES_DSN", db.where)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("PostgreSQL at %s: nothing listens there; start it or correct SMELT_POSTGRES_DSN", db.where)
	case errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err):
		return fmt.Sprintf("PostgreSQL at %s does not answer in time; see whether it is up and reachable", db.where)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, pgconn.ErrConnClosed), errors.As(err, new(net.Error)):
		return fmt.Sprintf("the connection to PostgreSQL at %s broke; see whether it is up and reachable", db.where)
	}
	return ""
}

// sqlState is the code of the server's error in err's chain, or "".
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// serverSays is the server's own message in err's chain, or "".
func serverSays(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Message
	}
	return ""
}
