package postgres_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"smelt"
	"smelt/internal/postgres"
	"smelt/internal/trust"
	"smelt/internal/trust/trusttest"
)

// encrypt has the server speak TLS as 127.0.0.1, and refuse the role plain_text
// without.
func encrypt(t *testing.T, admin *pgx.Conn, ours *trusttest.Authority) {
	t.Helper()
	certificate, key := ours.Files(t, "127.0.0.1")
	for name, from := range map[string]string{"tls.crt": certificate, "tls.key": key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		give(t, name, text)
	}
	rules, err := os.ReadFile(filepath.Join(server.data, "pg_hba.conf"))
	if err != nil {
		t.Fatal(err)
	}
	give(t, "pg_hba.conf", append([]byte("hostnossl all tls_only all reject\n"), rules...))
	mustExec(t, admin, "ALTER SYSTEM SET ssl_cert_file = 'tls.crt'")
	mustExec(t, admin, "ALTER SYSTEM SET ssl_key_file = 'tls.key'")
	mustExec(t, admin, "ALTER SYSTEM SET ssl = on")
	mustExec(t, admin, "SELECT pg_reload_conf()")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, strings.Replace(dsn("postgres", server.password, "postgres"), "sslmode=disable", "sslmode=require", 1))
		if err == nil {
			_ = conn.Close(ctx)
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// give puts a file into the server's folder, as the server's own.
func give(t *testing.T, name string, text []byte) {
	t.Helper()
	path := filepath.Join(server.data, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(server.data)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
}

// greeter answers whether it speaks TLS, with a certificate or, without one, no.
func greeter(t *testing.T, certificate *tls.Certificate) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	greet := func(conn net.Conn) {
		defer conn.Close()
		request := make([]byte, 8) // an SSLRequest
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		if certificate == nil {
			_, _ = conn.Write([]byte("N"))
			return
		}
		_, _ = conn.Write([]byte("S"))
		_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*certificate}}).Handshake()
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go greet(conn)
		}
	}()
	return listener.Addr().String()
}

// TestTLS connects to a server that speaks TLS, in all ways of a DSN.
func TestTLS(t *testing.T) {
	t.Parallel()
	d := setup(t)
	ours := trusttest.NewAuthority(t, "ours")
	encrypt(t, d.admin, ours)
	mustExec(t, d.admin, "CREATE ROLE tls_only LOGIN PASSWORD 'secret'")
	expired := ours.Certificate(t, "127.0.0.1", time.Now().Add(-time.Hour))
	_, port, err := net.SplitHostPort(server.address)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, user, address, mode, authorities, want string
	}{
		{"verify-full", "postgres", server.address, "verify-full", ours.File, ""},
		{"verify-ca of another name", "postgres", "localhost:" + port, "verify-ca", ours.File, ""},
		{"encrypted only", "tls_only", server.address, "verify-full", ours.File, ""},
		{"not verified", "postgres", server.address, "require", "", ""},
		{"its own authority", "postgres", server.address, "verify-full&sslrootcert=" + ours.File, "", ""},
		{"unknown authority", "postgres", server.address, "verify-full", "",
			"its certificate is signed by an unknown authority (CN=ours): name the PEM file of that authority with SMELT_CA"},
		{"unknown authority, any name", "postgres", server.address, "verify-ca", "", "signed by an unknown authority (CN=ours)"},
		{"another host", "postgres", "localhost:" + port, "verify-full", ours.File, "its certificate is for 127.0.0.1, not for localhost"},
		{"expired", "postgres", greeter(t, &expired), "verify-full", ours.File, "renew it, or set the clock right"},
		{"TLS to plain text", "postgres", greeter(t, nil), "verify-full", ours.File, "it does not speak TLS; switch it on there (ssl = on), or correct sslmode in SMELT_POSTGRES_DSN"},
		{"plain text to TLS", "tls_only", server.address, "disable", ours.File, "does not let user tls_only in without TLS; ask for it with sslmode=verify-full in SMELT_POSTGRES_DSN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			trusted, err := trust.Config(c.authorities)
			if err != nil {
				t.Fatal(err)
			}
			password := server.password
			if c.user == "tls_only" {
				password = "secret"
			}
			db, err := postgres.Config{
				DSN: "postgres://" + c.user + ":" + password + "@" + c.address + "/" + d.name + "?sslmode=" + c.mode, TLS: trusted,
			}.Open(t.Context())
			if err == nil {
				db.Close()
			}
			if c.want == "" {
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
				return
			}
			if !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "PostgreSQL at "+c.address) {
				t.Errorf("got error %v, want one of %s that says %q", err, c.address, c.want)
			}
		})
	}
}

// TestPasswordRotated changes a role's password at the server while it is
// connected.
func TestPasswordRotated(t *testing.T) {
	t.Parallel()
	d := setup(t)
	name, first := d.role(t)
	set := first
	db, err := postgres.Config{DSN: first, Reread: func() (string, error) { return set, nil }}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	mustExec(t, d.admin, "ALTER ROLE "+name+" PASSWORD 'second'")
	cut := func() {
		mustExec(t, d.admin, "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE usename = $1", name)
		_ = db.Ping(t.Context()) // on a connection that is gone
	}
	cut()
	if err := db.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "wrong password") {
		t.Errorf("with the first password: got error %v", err)
	}
	set = dsn(name, "second", d.name)
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("with the second password: %v", err)
	}
	set = "postgres://%" // cannot be read
	cut()
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("with a string that cannot be read: %v, want to go on as before", err)
	}
}

func TestAddressSSLMode(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"disable": "", "allow": "", "prefer": "", "require": "require", "verify-ca": "verify-ca", "verify-full": "verify-full",
	} {
		a, err := postgres.ParseAddress("postgres://me:word@db.test/lake?sslmode=" + mode)
		if err != nil || a.SSLMode != want {
			t.Errorf("%s: got %q and error %v, want %q", mode, a.SSLMode, err, want)
		}
	}
}
