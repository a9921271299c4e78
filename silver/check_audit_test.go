package silver_test

import (
	"testing"

	"smelt"
	"smelt/internal/duck"
	"smelt/silver"
)

func TestAuditQuery(t *testing.T) {
	t.Parallel()
	session := checkSession(t)
	if err := session.Exec(t.Context(), "CREATE VIEW old AS SELECT 1 AS n UNION ALL SELECT 2", "CREATE VIEW new AS SELECT 1 AS n UNION ALL SELECT NULL"); err != nil {
		t.Fatal(err)
	}
	for condition, want := range map[string]bool{
		"(SELECT count(*) FROM old) = (SELECT count(*) FROM new)": true,
		"(SELECT sum(n) FROM old) = (SELECT sum(n) FROM new)":     false,
		"(SELECT n FROM old WHERE n > 2) = 3":                     false, // NULL is not true
		"NOT EXISTS (SELECT n FROM new EXCEPT FROM old)\n-- \n":   false,
		"false OR EXISTS (FROM old)":                              true,
	} {
		var got bool
		if err := session.Row(t.Context(), silver.AuditQuery(smelt.Audit{Condition: condition}), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", condition, got, err, want)
		}
	}
}

// checkSession opens a session for checks.
func checkSession(t *testing.T) *duck.Session {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 256 << 20, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	session, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []func() error{session.Close, db.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	return session
}
