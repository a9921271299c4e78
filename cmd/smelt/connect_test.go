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
