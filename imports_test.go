package smelt_test

import (
	"errors"
	"go/build"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayImport says which packages of smelt a package may import beside the root. A stage reads the layer before it and calls nothing
// else. A package that is not listed imports the root only, and the root imports none. Packages over the line import the stages, so no
// stage can import them.
var mayImport = map[string][]string{
	"silver":    {"bronze", "pipeline", "internal/*"}, // a test's reference tables show their types
	"gold":      {"internal/*"},
	"backfill":  {"silver", "gold", "bronze", "internal/*"}, // replays bronze into both
	"cmd/smelt": {"*", "internal/*"},                        // wires all by hand

	// Over one thing outside, or two.
	"ingest":                   {"internal/trust"}, // speaks TLS, as do the next two
	"internal/store":           {"internal/disk", "internal/trust"},
	"internal/postgres":        {"internal/trust"},
	"internal/duck":            {"internal/columns", "internal/disk"},                 // reads rows of columns; says what to do about the disk that it spills to
	"internal/events":          {"internal/columns"},                                  // fills columns
	"internal/ledger":          {"internal/table"},                                    // lives in the snapshots' summaries
	"internal/sqlcheck":        {"internal/duck"},                                     // DuckDB parses and binds the SQL
	"internal/staging":         {"internal/duck", "internal/store", "internal/table"}, // moves files between the lake and DuckDB
	"internal/telemetry":       {"internal/table"},                                    // shows the tables' state
	"internal/stack/stacktest": {"internal/stack"},                                    // runs one for tests
	"internal/table/tabletest": {"internal/table"},                                    // holds the contract of its catalogs

	// Over the whole line.
	"internal/line":     {"bronze", "silver", "gold", "internal/*"},            // puts a pipeline's stages together
	"upkeep":            {"bronze", "silver", "gold", "internal/*"},            // keeps every layer in shape
	"inspect":           {"bronze", "silver", "gold", "upkeep", "internal/*"},  // counts every layer
	"shell":             {"bronze", "silver", "gold", "inspect", "internal/*"}, // shows every layer
	"internal/pipetest": {"ingest", "silver", "pipeline", "internal/*"},        // runs a pipeline's test over a line in memory
}

// homes says which packages may import a library of the outside world.
var homes = []struct {
	library string
	in      []string
}{
	{"github.com/duckdb/", []string{"internal/duck"}},
	{"github.com/apache/iceberg-go", []string{"internal/table"}},
	{"github.com/jackc/pgx", []string{"internal/postgres"}},
	{"github.com/minio/minio-go", []string{"internal/store", "internal/stack"}}, // the stack makes its bucket
	{"github.com/twmb/franz-go", []string{"ingest", "internal/stack"}},
	{"github.com/twmb/franz-go/pkg/kfake", []string{"internal/stack"}},
	{"github.com/versity/versitygw", []string{"internal/stack"}},
}

func TestImports(t *testing.T) {
	t.Parallel()
	seen := 0
	err := filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case dir != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "tools"): // tools is a module of its own
			return fs.SkipDir
		}
		pkg, err := build.ImportDir(dir, 0) // pkg.Imports are those of files that are no tests
		if noGo := new(build.NoGoError); errors.As(err, &noGo) {
			return nil
		}
		if err != nil {
			return err
		}
		seen++
		for _, imported := range pkg.Imports {
			if why := refused(filepath.ToSlash(dir), imported); why != "" {
				t.Errorf("%s: %s imports %s: %s", pkg.ImportPos[imported][0], dir, imported, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < len(mayImport) {
		t.Errorf("%d packages found, fewer than have a rule of their own", seen)
	}
}

// refused says which rule an import breaks; "" for none.
func refused(importer, imported string) string {
	for _, h := range homes {
		if strings.HasPrefix(imported, h.library) && !slices.Contains(h.in, importer) {
			return "only " + strings.Join(h.in, " and ") + " may"
		}
	}
	ours, inside := strings.CutPrefix(imported, "smelt/")
	switch allowed := mayImport[importer]; {
	case importer == "." && (inside || imported == "smelt"):
		return "the root imports nothing of smelt"
	case !inside:
		return ""
	case len(allowed) == 0:
		return "it may import nothing of smelt but the root"
	case !slices.ContainsFunc(allowed, func(pattern string) bool { ok, _ := path.Match(pattern, ours); return ok }):
		return "of smelt it may import the root and " + strings.Join(allowed, ", ") + " only"
	}
	return ""
}

func TestImportsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		importer, imported string
		want               string
	}{
		{".", "smelt/internal/duck", "the root imports nothing of smelt"},
		{"bronze", "smelt", ""},
		{"bronze", "smelt/internal/store", "it may import nothing of smelt but the root"},
		{"ingest", "smelt/bronze", "of smelt it may import the root and internal/trust only"},
		{"silver", "smelt/bronze", ""},
		{"silver", "smelt/internal/table", ""},
		{"silver", "smelt/internal/table/tabletest", "of smelt it may import the root and bronze, pipeline, internal/* only"},
		{"gold", "smelt/silver", "of smelt it may import the root and internal/* only"},
		{"internal/store", "smelt/internal/table", "of smelt it may import the root and internal/disk, internal/trust only"},
		{"internal/table", "github.com/apache/iceberg-go/table", ""},
		{"gold", "github.com/apache/iceberg-go/table", "only internal/table may"},
		{"shell", "github.com/duckdb/duckdb-go/v2", "only internal/duck may"},
		{"shell", "github.com/minio/minio-go/v7", "only internal/store and internal/stack may"},
		{"ingest", "github.com/twmb/franz-go/pkg/kgo", ""},
		{"ingest", "github.com/twmb/franz-go/pkg/kfake", "only internal/stack may"},
	} {
		if got := refused(c.importer, c.imported); got != c.want {
			t.Errorf("%s imports %s: got %q, want %q", c.importer, c.imported, got, c.want)
		}
	}
}
