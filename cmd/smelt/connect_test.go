package main

import (
	"strings"
	"testing"

	"smelt/internal/postgres"
	"smelt/internal/store"
)

// TestConnectTemporaryKeys writes configurations with keys that have a session token:
// all of it is in there, or a word that the engine cannot use them.
func TestConnectTemporaryKeys(t *testing.T) {
	t.Parallel()
	s := &settings{S3Endpoint: "https://s3.test", S3Bucket: "lake"}
	for engine := range configurations {
		var out strings.Builder
		keys := store.Keys{Access: "access", Secret: "secret", Session: "of-a-session"}
		if err := s.connection(postgres.Address{Host: "db.test", Port: 5432}, keys).write(&out, engine); err != nil {
			t.Errorf("%s: %v", engine, err)
		}
		told := strings.Contains(out.String(), keys.Session)
		if engine == "trino" {
			told = !told && strings.Contains(out.String(), "Trino takes no session token")
		}
		if !told {
			t.Errorf("%s:\n%s", engine, &out)
		}
	}
}

// TestConnectRootCert passes on the authorities by which the database is trusted: the
// DSN's own, and else those of SMELT_CA.
func TestConnectRootCert(t *testing.T) {
	t.Parallel()
	s := &settings{S3Endpoint: "https://s3.test", S3Bucket: "lake", CA: "/etc/all.pem"}
	for _, test := range []struct{ mode, root, want string }{
		{"verify-full", "/etc/our db.pem", "?sslmode=verify-full&sslrootcert=%2Fetc%2Four+db.pem"},
		{"verify-ca", "", "?sslmode=verify-ca&sslrootcert=%2Fetc%2Fall.pem"},
		{"require", "/etc/our.pem", "?sslmode=require"},
	} {
		c := s.connection(postgres.Address{Host: "db.test", Port: 5432, SSLMode: test.mode, RootCert: test.root}, store.Keys{})
		for _, got := range []string{c.JDBC, c.SQLAlchemy} {
			if !strings.HasSuffix(got, test.want) {
				t.Errorf("got %s, want that it ends with %s", got, test.want)
			}
		}
	}
}
