package shell_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"smelt"
	"smelt/ingest"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/postgres"
	"smelt/internal/stack/stacktest"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
	"smelt/pipeline"
	"smelt/shell"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// lake is a line whose lake is on real S3 and PostgreSQL, with a shell on it.
type lake struct {
	t          *testing.T
	home       string
	config     shell.Config
	topic      *ingest.Log
	line       *line.Line
	parts      line.Parts
	references *pipetest.References
	database   *postgres.DB
	next       map[int32]int64
}

// extensions is the folder of DuckDB's extensions, which tests do not fetch.
func extensions(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SMELT_EXTENSIONS")
	if dir == "" {
		dir, _ = filepath.Abs("../.smelt/extensions")
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*", "*", "iceberg.duckdb_extension"))
	if len(found) == 0 {
		t.Skipf("DuckDB's extensions are not in %s: `smelt extensions` fetches them, and SMELT_EXTENSIONS may name another folder", dir)
	}
	return dir
}

// places are the reference rows of the sensors' pipeline.
var places = [][3]string{{"hel-001", "Espoo", "Finland"}, {"nyc-001", "New York", "United States"}}

// newLake makes a lake of its own: the sensors' pipeline under the test's name.
func newLake(t *testing.T, name string, change ...func(*smelt.Pipeline)) *lake {
	t.Helper()
	ctx := t.Context()
	dir := extensions(t)
	set := stacktest.Settings(t) // all share them: each has what is its own by its pipeline's name
	l := &lake{t: t, home: t.TempDir(), topic: ingest.NewLog(2), next: map[int32]int64{}}
	objects, err := store.OpenS3(ctx, store.S3Config{
		Endpoint: set["SMELT_S3_ENDPOINT"], Region: set["SMELT_S3_REGION"], Bucket: set["SMELT_S3_BUCKET"],
		AccessKey: set["SMELT_S3_ACCESS_KEY"], SecretKey: set["SMELT_S3_SECRET_KEY"],
	})
	l.must(err)
	l.database, err = postgres.Open(ctx, set["SMELT_POSTGRES_DSN"])
	l.must(err)
	t.Cleanup(l.database.Close)
	catalog, err := l.database.Catalog(ctx)
	l.must(err)
	tables := table.Open(objects, catalog, "s3://"+set["SMELT_S3_BUCKET"])
	p, err := pipeline.Read(smelt.Shipped(), "sensors")
	l.must(err)
	rename(p, name)
	for _, c := range change {
		c(p)
	}
	references := pipetest.NewReferences()
	locate(references, places)

	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: filepath.Join(l.home, "tmp", "line")})
	l.must(err)
	t.Cleanup(func() { l.must(db.Close()) })
	cache, err := store.NewCache(objects, filepath.Join(l.home, "cache"), 1<<30)
	l.must(err)
	quiet := slog.New(slog.DiscardHandler)
	l.parts = line.Parts{
		Area: staging.Area{Store: objects, Lake: tables, Cache: cache}, Duck: db,
		References: references, Locker: pipetest.NewLocks(), Log: quiet, Flush: 1,
		RecordMax: 1 << 20,
		Source: func(_ context.Context, _ *smelt.Pipeline, resume smelt.Resume) (smelt.Source, error) {
			return l.topic.Open(resume), nil
		},
	}
	l.references = references
	l.line, err = line.Open(ctx, p, l.parts)
	l.must(err)
	t.Cleanup(func() { l.must(l.line.Close()) })
	l.config = shell.Config{
		Home: l.home, Extensions: dir, Memory: 1 << 30, Pipelines: []*smelt.Pipeline{p},
		Store: objects, Tables: tables, References: references, Log: quiet,
		S3: shell.Remote{Bucket: set["SMELT_S3_BUCKET"], Transport: objects.Reader(shell.RelayConns)},
	}
	return l
}

// locate sets the reference rows.
func locate(references *pipetest.References, places [][3]string) {
	var rows [][]any
	for _, place := range places {
		rows = append(rows, []any{place[0], place[1], place[2]})
	}
	varchar := smelt.Type{Name: "varchar"}
	references.Set("locations", []smelt.Column{{Name: "sensor_id", Type: varchar}, {Name: "city", Type: varchar}, {Name: "country", Type: varchar}}, rows)
}

// rename gives a pipeline another name, in its SQL too.
func rename(p *smelt.Pipeline, to string) {
	p.Silver.SQL = strings.ReplaceAll(p.Silver.SQL, "bronze."+p.Name, "bronze."+to)
	for i := range p.Gold {
		p.Gold[i].SQL = strings.ReplaceAll(p.Gold[i].SQL, "silver."+p.Name, "silver."+to)
	}
	p.Name = to
}

func (l *lake) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// send puts values into a partition of the topic. "" is a tombstone.
func (l *lake) send(partition int32, values ...string) {
	for _, v := range values {
		r := smelt.Record{
			Partition: partition, Offset: l.next[partition], Timestamp: 1796000000000 + l.next[partition],
			Key: []byte("key"), Value: []byte(v),
		}
		if v == "" {
			r.Value = nil
		}
		l.topic.Append(r)
		l.next[partition]++
	}
}

// drain runs the line until gold has everything.
func (l *lake) drain() {
	l.t.Helper()
	l.must(pipetest.Drain(l.t.Context(), l.line))
}

// open opens a shell.
func (l *lake) open() *shell.Shell {
	l.t.Helper()
	s, err := shell.Open(l.t.Context(), l.config)
	l.must(err)
	l.t.Cleanup(func() { l.must(s.Close()) })
	return s
}

// run runs SQL and returns what is printed.
func run(ctx context.Context, s *shell.Shell, format shell.Format, sql string) (string, error) {
	var out strings.Builder
	p := &shell.Printer{Out: &out, Err: io.Discard, Format: format, Width: func() int { return 0 }}
	for _, statement := range shell.Statements(sql) {
		r, err := s.Run(ctx, statement, format == shell.JSON)
		if err != nil {
			return out.String(), err
		}
		if err := p.Print(r); err != nil {
			return out.String(), err
		}
	}
	return out.String(), nil
}

// query runs SQL that has to work and returns the rows as CSV, without the header.
func (l *lake) query(s *shell.Shell, sql string) string {
	l.t.Helper()
	out, err := run(l.t.Context(), s, shell.CSV, sql)
	if err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
	_, rows, _ := strings.Cut(out, "\n")
	return strings.TrimSuffix(rows, "\n")
}
