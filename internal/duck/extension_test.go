package duck_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"smelt/internal/duck"
)

// Extensions that are there are left alone: no network is asked.
func TestExtensionsThere(t *testing.T) {
	t.Parallel()
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	session, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	about, err := session.Strings(t.Context(), "SELECT version() UNION ALL SELECT platform FROM pragma_platform()")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	folder := filepath.Join(dir, about[0], about[1])
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"httpfs", "avro", "iceberg"} {
		if err := os.WriteFile(filepath.Join(folder, name+".duckdb_extension"), []byte("here"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	if err := db.Extensions(t.Context(), dir, slog.New(slog.NewTextHandler(&log, nil))); err != nil || log.Len() > 0 {
		t.Errorf("with all extensions there: %v %s", err, log.String())
	}
}
