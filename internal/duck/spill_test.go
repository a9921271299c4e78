package duck_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"smelt/internal/duck"
)

// Sessions can be opened after DuckDB has spilled to disk.
func TestSessionAfterSpill(t *testing.T) {
	t.Parallel()
	db, err := duck.Open(duck.Config{MemoryBytes: 64 << 20, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	session, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Exec(t.Context(), "CREATE TABLE work.t AS SELECT md5(range::VARCHAR) AS h FROM range(2_500_000)"); err != nil {
		t.Fatal(err)
	}
	var spilled int64
	if err := session.Row(t.Context(), "SELECT coalesce(sum(size), 0)::BIGINT FROM duckdb_temporary_files()", &spilled); err != nil || spilled == 0 {
		t.Fatalf("%d bytes were spilled, %v", spilled, err)
	}
	if left, err := filepath.Glob(filepath.Join(db.Dir(), "spill", "*")); err != nil || len(left) == 0 {
		t.Errorf("nothing is in the folder for that, %v", err)
	}
	another, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := another.Close(); err != nil {
		t.Error(err)
	}
}

// The folder for temporary files may be removed at any time: what comes after works,
// and spills.
func TestFolderGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "duck")
	db, err := duck.Open(duck.Config{MemoryBytes: 64 << 20, TempDir: dir, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	session, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for range 2 {
		job, err := db.TempDir()
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Exec(t.Context(), "CREATE OR REPLACE TABLE work.t AS SELECT md5(range::VARCHAR) AS h FROM range(2_500_000)",
			"COPY (SELECT 1) TO "+duck.Literal(filepath.Join(job, "a.parquet")), "DROP TABLE work.t"); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// What DuckDB says of a full disk says what to do, too.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here, which is always full")
	}
	err := session(t).Exec(t.Context(), "COPY (SELECT 1) TO '/dev/full' (FORMAT parquet)")
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room on the disk") {
		t.Errorf("got %v", err)
	}
}
