package postgres_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/postgres"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := setup(t)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	const secret = "hunter2-never-shown"
	tests := []struct {
		name, dsn string
		want      []string
	}{
		{"wrong password", dsn("postgres", secret, d.name), []string{"wrong password", "postgres", server.address + "/" + d.name}},
		{"unknown user", dsn("nobody_here", secret, d.name), []string{"no such user", "nobody_here"}},
		{"unknown database", dsn("postgres", server.password, "nowhere"), []string{"no such database", server.address + "/nowhere"}},
		{"refused", fmt.Sprintf("postgres://u:%s@127.0.0.1:%s/lake", secret, port), []string{"nothing listens", "127.0.0.1:" + port + "/lake"}},
		{"unknown host", fmt.Sprintf("postgres://u:%s@no..host:5432/lake", secret), []string{"no such host", "no..host:5432/lake"}},
		{"bad port", fmt.Sprintf("postgres://u:%s@h:port/lake", secret), []string{"cannot be read"}},
		{"bad escape", fmt.Sprintf("postgres://u:%%zz%s@h/lake", secret), []string{"cannot be read", "percent-encoded"}},
		{"no pairs", secret, []string{"cannot be read"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db, err := postgres.Open(t.Context(), test.dsn)
			if err == nil {
				db.Close()
				t.Fatal("opened")
			}
			if !errors.Is(err, smelt.ErrDatabase) {
				t.Errorf("%v: not an ErrDatabase", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if text := fmt.Sprintf("%+v", e); strings.Contains(text, secret) || strings.Contains(text, server.password) {
					t.Errorf("%q shows the password", text)
				}
			}
		})
	}
}

func TestOpenGivesUpOnASilentServer(t *testing.T) {
	t.Parallel()
	setup(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = postgres.Open(t.Context(), fmt.Sprintf("postgres://u:p@%s/lake?sslmode=disable", l.Addr()))
	if !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v", err)
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	db := open(t, setup(t).dsn())
	if err := db.Exec(t.Context(), `CREATE TABLE a (i int); CREATE TABLE b (i int)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(t.Context(), `INSERT INTO b VALUES ($1)`, 7); err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(t.Context(), `INSERT INTO c VALUES (1)`); !errors.Is(err, smelt.ErrDatabase) {
		t.Errorf("got %v, want an ErrDatabase", err)
	}
}

// A server with a full disk says so in the system's words. smelt distinguishes these from other errors of the same SQLSTATE.
func TestDiskAdvice(t *testing.T) {
	t.Parallel()
	db := open(t, setup(t).dsn())
	for _, test := range []struct{ state, text, want string }{
		{"53100", "No space left on device", "has no room left on its disk"},
		{"53100", "wrote only 4096 of 8192 bytes at block 7", "has no room left on its disk"},
		{"XX000", "Disk quota exceeded", "has used up its quota"},
		{"42501", "Read-only file system", "its disk, which is read-only"},
		{"42501", "Permission denied", "lacks a right"},
	} {
		err := db.Exec(t.Context(), fmt.Sprintf("DO $$ BEGIN RAISE EXCEPTION 'could not extend file: %s' USING ERRCODE = '%s'; END $$", test.text, test.state))
		if !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("of %s, %s: got %v, want that it %s", test.state, test.text, err, test.want)
		}
	}
}
