package duck_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

func openSession(t *testing.T, threads int) *duck.Session {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 64 << 20, TempDir: t.TempDir(), Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A file is written for every partition value, with all of its rows in their order
// and no others, be there few or many.
func TestWritePartitions(t *testing.T) {
	t.Parallel()
	s := openSession(t, 2)
	for typ, expr := range map[string]string{
		"varchar":     `CASE k WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a' || chr(0) || '''b' WHEN 3 THEN chr(0) WHEN 4 THEN 'it''s "\' WHEN 5 THEN repeat('é', 450) ELSE 'v ' || k END`,
		"bigint":      `nullif(k, 0) - 2`,
		"boolean":     `nullif(k, 0) % 2 = 0`,
		"date":        `DATE '0044-03-15 (BC)' + (1000000 * nullif(k, 0))::INTEGER`,
		"timestamptz": `TIMESTAMPTZ '0044-03-15 (BC) 10:00:00.000001+00' + to_years(1000 * nullif(k, 0))`,
	} {
		for _, values := range []int{2, 6, 40} {
			source := fmt.Sprintf("SELECT %s AS v, n, 'x' AS __not FROM (SELECT ((n * 7 + n // 11) %% %d)::INTEGER AS k, n FROM range(1000) AS r(n))", expr, values)
			if err := s.Exec(t.Context(), "CREATE OR REPLACE TABLE work.r AS "+source); err != nil {
				t.Fatal(err)
			}
			files, err := s.WriteParquet(t.Context(), "work.r", t.TempDir(), duck.Layout{
				FieldIDs: "{v: 1, n: 2}", Sort: "n DESC", Partition: duck.PartitionValues([]smelt.PartitionField{{Transform: "identity", Column: "v"}}),
			})
			if err != nil {
				t.Fatalf("%d values of %s: %v", values, typ, err)
			}
			var paths []string
			for _, f := range files {
				paths = append(paths, f.Path)
				var different, rows, descents int64
				if err := s.Row(t.Context(), "SELECT count(DISTINCT coalesce(v::VARCHAR, 'none')), count(*), count(*) FILTER (n > before) FROM (SELECT v, n, lag(n) OVER (ORDER BY file_row_number) AS before FROM read_parquet("+
					duck.List([]string{f.Path})+", file_row_number = true))", &different, &rows, &descents); err != nil {
					t.Fatal(err)
				}
				if _, ok := f.Partition["v"]; !ok || different != 1 || rows != f.Rows || descents != 0 {
					t.Errorf("%s, %q: %d values in %d rows of %d, %d out of order", typ, f.Partition, different, rows, f.Rows, descents)
				}
			}
			var want, odd int64
			written := duck.ReadParquet([]smelt.Column{{Name: "v", Type: smelt.Type{Name: typ}}, {Name: "n", Type: smelt.Type{Name: "bigint"}}}, paths)
			if err := s.Row(t.Context(), "SELECT count(*) FROM (SELECT DISTINCT v FROM work.r)", &want); err != nil {
				t.Fatal(err)
			}
			if err := s.Row(t.Context(), "SELECT count(*) FROM ((SELECT v, n FROM work.r EXCEPT ALL FROM "+written+") UNION ALL (FROM "+written+" EXCEPT ALL SELECT v, n FROM work.r))", &odd); err != nil {
				t.Fatal(err)
			}
			if odd != 0 || len(files) != int(want) {
				t.Errorf("%d values of %s: %d files, want %d; %d rows differ", values, typ, len(files), want, odd)
			}
		}
	}
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	s := openSession(t, 1)
	texts := []string{"", "a", "'", "''", "\x00", "a\x00", "\x00'", "'\x00\x00' || 'x", `\'"`, "é\n😀"}
	got, err := s.Strings(t.Context(), "SELECT unnest("+duck.List(texts)+")")
	if err != nil || !slices.Equal(got, texts) {
		t.Errorf("got %q, %v, want %q", got, err, texts)
	}
}
