package smelt_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/pipetest"
	"smelt/pipeline"
)

var update = flag.Bool("update", false, "rewrite what the shipped pipelines' test.txtar expect")

// TestShippedPipelines runs the test.txtar of each pipeline that ships.
func TestShippedPipelines(t *testing.T) {
	t.Parallel()
	runTests(t, smelt.Shipped(), "sql")
}

// TestBenchPipelines runs that of each pipeline of the benches.
func TestBenchPipelines(t *testing.T) {
	t.Parallel()
	const dir = "bench/pipelines"
	runTests(t, os.DirFS(dir), dir)
}

// runTests runs the test.txtar of the pipelines of fsys, which is the folder dir.
func runTests(t *testing.T, fsys fs.FS, dir string) {
	t.Helper()
	pipelines, err := pipeline.ReadAll(fsys)
	if err != nil {
		t.Fatal(err)
	}
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, p := range pipelines {
		test, err := pipeline.ReadTest(p.Test)
		if err != nil {
			t.Fatal(err)
		}
		diffs, err := pipetest.Run(t.Context(), db, p, test)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		if *update {
			if err := os.WriteFile(filepath.Join(dir, p.Name, "test.txtar"), test.Format(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, d := range diffs {
			t.Errorf("%s: %s\nwant:\n%s\ngot:\n%s", p.Name, d.Table, strings.Join(d.Want, "\n"), strings.Join(d.Got, "\n"))
		}
	}
}
