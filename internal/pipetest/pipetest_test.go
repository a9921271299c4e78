package pipetest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/pipeline"
)

var update = flag.Bool("update", false, "rewrite what the tests of testdata/pipelines expect")

// TestPipelines checks the pipelines under testdata, and runs their tests.
func TestPipelines(t *testing.T) {
	t.Parallel()
	const dir = "testdata/pipelines"
	pipelines, err := pipeline.ReadAll(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	db := open(t)
	for _, p := range pipelines {
		if skipped, err := line.Check(t.Context(), db, p); err != nil || skipped != nil {
			t.Errorf("%v, skipped %q", err, skipped)
		}
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

// TestRunSaysWhatDiffers makes sure that a wrong expectation fails, and that the
// test then holds what came out.
func TestRunSaysWhatDiffers(t *testing.T) {
	t.Parallel()
	p, err := pipeline.Read(smelt.Shipped(), "sensors")
	if err != nil {
		t.Fatal(err)
	}
	test, err := pipeline.ReadTest([]byte(strings.ReplaceAll(string(p.Test), "Espoo", "Oulu")))
	if err != nil {
		t.Fatal(err)
	}
	test.References[0].Rows[0][1] = "Espoo"
	db := open(t)
	diffs, err := pipetest.Run(t.Context(), db, p, test)
	if err != nil {
		t.Fatal(err)
	}
	if len(diffs) != 2 || diffs[0].Table != "silver.sensors" || diffs[1].Table != "gold.sensors_hourly" {
		t.Fatalf("differences %v; want silver's and gold's", diffs)
	}
	if again, err := pipetest.Run(t.Context(), db, p, test); err != nil || again != nil {
		t.Errorf("with what came out it differs in %v, %v", again, err)
	}
}

func open(t *testing.T) *duck.DB {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
