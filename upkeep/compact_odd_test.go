package upkeep_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/table"
	"smelt/upkeep"
)

// put commits a file with the rows of a query.
func (r *running) put(name, query string, rows int64, partition map[string]any) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "a.parquet")
	if err := r.session.Exec(r.t.Context(), "COPY ("+query+") TO '"+path+"' (FORMAT parquet, COMPRESSION zstd, FIELD_IDS "+r.load(name).FieldIDs()+")"); err != nil {
		r.t.Fatal(err)
	}
	r.putFile(name, path, rows, partition)
}

// putFile commits a file.
func (r *running) putFile(name, path string, rows int64, partition map[string]any) {
	r.t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		r.t.Fatal(err)
	}
	tbl := r.load(name)
	staged, err := r.config.Area.Upload(r.t.Context(), tbl, []smelt.DataFile{{Path: path, Rows: rows, Bytes: info.Size(), Partition: partition}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.commit(name, table.Change{Add: []table.File{staged[0].File}})
}

// A field of a struct that another engine has dropped and added again has no values in
// the files of before: a merge must not bring them back.
func TestCompactFieldAddedAgain(t *testing.T) {
	t.Parallel()
	r := run(t)
	integer := smelt.Type{Name: "integer"}
	_, err := r.config.Area.Lake.Create(t.Context(), readingsHourly, table.Definition{Columns: []smelt.Column{
		{Name: "hour", Type: smelt.Type{Name: "timestamptz"}},
		{Name: "s", Type: smelt.Type{Name: "struct", Fields: []smelt.Column{{Name: "a", Type: integer}, {Name: "b", Type: integer}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.put(readingsHourly, "SELECT TIMESTAMPTZ '2026-11-01 00:00:00+00' AS hour, {a: 1, b: 2} AS s", 1, nil)
	}
	e := &engine{r, readingsHourly}
	e.commit(func(_ *ice.Table, tx *ice.Transaction) error {
		return tx.UpdateSchema(true, true).DeleteColumn([]string{"s", "a"}).Commit()
	})
	e.commit(func(_ *ice.Table, tx *ice.Transaction) error {
		return tx.UpdateSchema(true, true).AddColumn([]string{"s", "a"}, iceberg.PrimitiveTypes.Int32, "", false, nil).Commit()
	})
	done := r.do(r.plan(upkeep.Compaction(r.config, readingsHourly, readingsHourly), rested))
	if len(done) != 1 || !strings.Contains(done[0].Lost, "field a of a struct is not the one") {
		t.Errorf("did %+v", done)
	}
}

// A column of another engine that DuckDB would write otherwise keeps the table from
// being merged, and the pipeline goes on.
func TestCompactColumnsOfOthers(t *testing.T) {
	t.Parallel()
	for name, typ := range map[string]iceberg.Type{
		"f": iceberg.FixedTypeOf(4),
		"m": &iceberg.MapType{KeyID: 100, KeyType: iceberg.PrimitiveTypes.String, ValueID: 101, ValueType: iceberg.PrimitiveTypes.Int32},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t)
			r.stream(2)
			(&engine{r, readingsSilver}).commit(func(_ *ice.Table, tx *ice.Transaction) error {
				return tx.UpdateSchema(true, true).AddColumn([]string{name}, typ, "", false, nil).Commit()
			})
			r.stream(1)
			if got := len(r.rows(readingsSilver)); got != r.sent {
				t.Errorf("silver has %d rows, want %d", got, r.sent)
			}
			var log strings.Builder
			r.config.Log = slog.New(slog.NewTextHandler(&log, nil))
			if jobs := r.plan(upkeep.Compaction(r.config, readingsSilver, readingsSilver), rested); len(jobs) > 0 {
				t.Errorf("to do: %s", whats(jobs))
			}
			if !strings.Contains(log.String(), "column "+name+" cannot be written unchanged") {
				t.Errorf("it said %q", log.String())
			}
		})
	}
}

// Files without rows, which other engines may have, are left alone.
func TestCompactWithoutRows(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(2)
	tbl := r.load(readingsSilver)
	for range 2 {
		path := filepath.Join(t.TempDir(), "a.parquet")
		if err := r.session.Exec(t.Context(), "COPY (SELECT 's' AS sensor WHERE false) TO '"+path+"' (FORMAT parquet, FIELD_IDS {sensor: 1})"); err != nil {
			t.Fatal(err)
		}
		key := r.config.Area.Lake.Key(tbl.Location()) + "/data/" + filepath.Base(filepath.Dir(path)) + "-empty.parquet"
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		e := &engine{r, readingsSilver}
		if err := e.WriteFile("s3://test/"+key, data); err != nil {
			t.Fatal(err)
		}
		e.commit(func(t *ice.Table, tx *ice.Transaction) error {
			spec := t.Spec()
			b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, "s3://test/"+key, iceberg.ParquetFile,
				map[int]any{spec.Field(0).FieldID: iceberg.Date(7)}, nil, nil, 0, int64(len(data)))
			if err != nil {
				return err
			}
			return tx.AddDataFiles(r.t.Context(), []iceberg.DataFile{b.Build()}, nil)
		})
	}
	jobs := r.plan(upkeep.Compaction(r.config, readingsSilver, readingsSilver), rested)
	if got := whats(jobs); got != "ts_day=2026-11-01: 2 small files" {
		t.Errorf("to do: %s", got)
	}
}

// A file that cannot be read keeps no other from being merged.
func TestCompactDamaged(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(8)
	for range 9 {
		path := filepath.Join(t.TempDir(), "a.parquet")
		if err := os.WriteFile(path, []byte("no Parquet at all"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.putFile(readingsSilver, path, 1, map[string]any{"ts_day": int64(7)})
	}
	var did []string
	task := upkeep.Compaction(r.config, readingsSilver, readingsSilver)
	err := task.Do(t.Context(), func(j upkeep.Job, d upkeep.Done, _ time.Duration, err error) {
		did = append(did, fmt.Sprint(j.What, " ", err == nil && d.Lost == ""))
	})
	if want := []string{"ts_day=1970-01-08: 9 small files false", "ts_day=2026-11-01: 8 small files true"}; err == nil || !slices.Equal(did, want) {
		t.Errorf("did %q, %v", did, err)
	}
}

// Partitions that cannot be merged delay the others only once, however much a merge would save.
func TestCompactManyDamaged(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(8)
	path := filepath.Join(t.TempDir(), "a.parquet")
	if err := os.WriteFile(path, []byte("no Parquet at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	for day := range int64(3) {
		for range 9 {
			r.putFile(readingsSilver, path, 1, map[string]any{"ts_day": day})
		}
	}
	task := upkeep.Compaction(r.config, readingsSilver, readingsSilver)
	for _, want := range [][]bool{{false, false, false}, {true, false, false, false}, {false, false, false}} {
		var did []bool
		if err := task.Do(t.Context(), func(j upkeep.Job, d upkeep.Done, _ time.Duration, err error) {
			did = append(did, err == nil && d.Lost == "")
		}); err == nil || !slices.Equal(did, want) {
			t.Errorf("did %v, %v; want %v", did, err, want)
		}
	}
}

// Files of long rows may not fit into DuckDB's memory together: fewer of them do.
func TestCompactMemory(t *testing.T) {
	t.Parallel()
	r := run(t)
	if _, err := r.config.Area.Lake.Create(t.Context(), readingsHourly, table.Definition{Columns: []smelt.Column{
		{Name: "hour", Type: smelt.Type{Name: "timestamptz"}}, {Name: "text", Type: smelt.Type{Name: "varchar"}},
	}}); err != nil {
		t.Fatal(err)
	}
	const files, rows = 16, 150
	for i := range files {
		r.put(readingsHourly, fmt.Sprintf("SELECT TIMESTAMPTZ '2026-11-01 00:00:00+00' + INTERVAL (%d) MINUTE AS hour, repeat(md5(range::VARCHAR), 3000) AS text FROM range(%d)", i, rows), rows, nil)
	}
	small, err := duck.Open(duck.Config{MemoryBytes: 200 << 20, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, small.Close)
	r.config.Duck = small
	task := upkeep.Compaction(r.config, readingsHourly, readingsHourly)
	var lost []string
	const looks = 8
	for range looks {
		for _, d := range r.do(r.plan(task, rested)) {
			if d.Lost != "" {
				lost = append(lost, d.Lost)
			}
		}
	}
	if left := len(r.files(readingsHourly)); left > files/2 || len(lost) == 0 {
		t.Errorf("%d files are left of %d; lost: %q", left, files, lost)
	}
	if jobs := r.plan(task, rested); len(jobs) > 0 {
		t.Errorf("still to do: %s; lost: %q", whats(jobs), lost)
	}
}
