package table_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/table"
)

// lake is a lake in memory, with the means to look behind it.
type lake struct {
	*table.Lake
	store   smelt.Store
	catalog table.Catalog
}

func newLake(t testing.TB) lake {
	t.Helper()
	s, c := store.NewMemory(), table.NewMemoryCatalog()
	return lake{table.Open(s, c, "s3://lake"), s, c}
}

// readings is the definition that most tests use.
func readings() table.Definition {
	return table.Definition{
		Columns: []smelt.Column{
			{Name: "city", Type: smelt.Type{Name: "varchar"}},
			{Name: "event_time", Type: smelt.Type{Name: "timestamptz"}},
			{Name: "value", Type: smelt.Type{Name: "double"}},
		},
	}
}

func create(t testing.TB, l lake, name string, def table.Definition) *table.Table {
	t.Helper()
	tbl, err := l.Create(t.Context(), name, def)
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

// put stores an object in place of a data file and describes it. Its rows are
// of one hour.
func put(t testing.TB, l lake, tbl *table.Table, name string, hour int) table.File {
	t.Helper()
	key := l.Key(tbl.Location()) + "/data/" + name + ".parquet"
	if err := l.store.Put(t.Context(), key, strings.NewReader("PAR1"), smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 1, hour, 0, 0, 0, time.UTC)
	const layout = "2006-01-02 15:04:05.999999-07"
	f, err := tbl.NewFile(smelt.DataFile{
		Path: key, Rows: 10, Bytes: 4,
		Columns: map[string]smelt.Bounds{
			"city":       {Min: "Espoo", Max: "New York", Known: true},
			"event_time": {Min: at.Format(layout), Max: at.Add(59*time.Minute + 500*time.Millisecond).Format(layout), Known: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func commit(t testing.TB, tbl *table.Table, c table.Change) *table.Table {
	t.Helper()
	next, err := tbl.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func head(t testing.TB, tbl *table.Table) int64 {
	t.Helper()
	s, ok := tbl.Current()
	if !ok {
		t.Fatal("the table has no snapshot")
	}
	return s.ID
}

func names(files []table.File) string {
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(filepath.Base(f.Key), ".parquet"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func files(t testing.TB, tbl *table.Table, snapshot int64) string {
	t.Helper()
	fs, err := tbl.Files(t.Context(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	return names(fs)
}

// keys lists the objects under a prefix.
func keys(t testing.TB, s smelt.Store, prefix string) []string {
	t.Helper()
	const all = 1 << 20
	objects, err := s.List(context.WithoutCancel(t.Context()), prefix, "", all)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range objects {
		out = append(out, o.Key)
	}
	return out
}

// openDuck opens a DuckDB of its own.
func openDuck(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	exec(t, db, "SET TimeZone = 'UTC'")
	return db
}

func exec(t *testing.T, db *sql.DB, q string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), q); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

// write lets DuckDB write a query's rows with a table's field ids and stores
// the file.
func write(t *testing.T, l lake, db *sql.DB, tbl *table.Table, name, query string, partition map[string]any) table.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".parquet")
	var (
		file               string
		rows, size, footer int64
		stats, part        any
	)
	q := fmt.Sprintf("COPY (%s) TO '%s' (FORMAT parquet, COMPRESSION zstd, FIELD_IDS %s, RETURN_STATS)", query, path, tbl.FieldIDs())
	if err := db.QueryRowContext(t.Context(), q).Scan(&file, &rows, &size, &footer, &stats, &part); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	body, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	key := l.Key(tbl.Location()) + "/data/" + name + ".parquet"
	if err := l.store.Put(t.Context(), key, body, smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	f, err := tbl.NewFile(smelt.DataFile{Path: key, Rows: rows, Bytes: size, Columns: statistics(stats), Partition: partition})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// statistics reads the column statistics of RETURN_STATS.
func statistics(stats any) map[string]smelt.Bounds {
	out := map[string]smelt.Bounds{}
	for name, figures := range pairs(stats) {
		if strings.Contains(name, ".") {
			continue
		}
		var b smelt.Bounds
		for key, value := range pairs(figures) {
			text := fmt.Sprint(value)
			switch key {
			case "min":
				b.Min, b.Known = text, true
			case "max":
				b.Max = text
			case "null_count":
				fmt.Sscan(text, &b.Nulls)
			case "has_nan":
				b.NaN = text == "true"
			}
		}
		out[strings.Trim(name, `"`)] = b
	}
	return out
}

func pairs(m any) map[string]any {
	out := map[string]any{}
	ordered := m.(duckdb.OrderedMap)
	for i, key := range ordered.Keys() {
		out[key.(string)] = ordered.Values()[i]
	}
	return out
}
