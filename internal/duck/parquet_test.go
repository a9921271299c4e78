package duck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"smelt"
	"smelt/internal/duck"
)

// What the folders of local files are called does not get into their rows.
func TestReadInFolders(t *testing.T) {
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
	dir := filepath.Join(t.TempDir(), "city=Espoo", "n=7")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	columns, rows := []smelt.Column{{Name: "city", Type: smelt.Type{Name: "varchar"}}, {Name: "n", Type: smelt.Type{Name: "integer"}}}, "SELECT 'Helsinki' AS city, 1 AS n"
	parquet, json := []string{filepath.Join(dir, "a.parquet")}, []string{filepath.Join(dir, "a.json")}
	if err := session.Exec(t.Context(), fmt.Sprintf("COPY (%s) TO '%s' (FORMAT parquet, FIELD_IDS {city: 1, n: 2})", rows, parquet[0]),
		fmt.Sprintf("COPY (%s) TO '%s' (FORMAT json)", rows, json[0])); err != nil {
		t.Fatal(err)
	}
	const line = 1 << 20
	for name, relation := range map[string]string{
		"ReadParquet":       duck.ReadParquet(columns, parquet),
		"ReadParquetFields": duck.ReadParquetFields("MAP {1: {name: 'city', type: 'VARCHAR', default_value: NULL}, 2: {name: 'n', type: 'INTEGER', default_value: NULL}}", parquet),
		"ReadParquetFiles":  "(SELECT city, n FROM " + duck.ReadParquetFiles(columns, parquet) + ")",
		"ReadJSON":          duck.ReadJSON(json, line, "{city: 'VARCHAR', n: 'INTEGER'}"),
	} {
		got, err := session.Strings(t.Context(), "SELECT r::VARCHAR FROM "+relation+" AS r")
		if err != nil || len(got) != 1 || got[0] != "{'city': Helsinki, 'n': 1}" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
