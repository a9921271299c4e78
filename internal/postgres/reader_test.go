package postgres_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/postgres"
)

// documented are the statements of docs/security.md for the writer and the
// reader, with roles and the database of this test.
func documented(t *testing.T, d *database) (writer, reader string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/security.md has %d blocks of SQL, want the writer's and the reader's", len(blocks))
	}
	here := strings.NewReplacer("smelt_reader", "reader_"+d.name, "ROLE smelt ", "ROLE writer_"+d.name+" ", "TO smelt;", "TO writer_"+d.name+";",
		"DATABASE lake", "DATABASE "+d.name, "change-me", server.password)
	return here.Replace(blocks[0][1]), here.Replace(blocks[1][1])
}

// TestRoles has a role that may write as documented make everything, and one that
// may read as documented read everything, and nothing be written by it.
func TestRoles(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	mustExec(t, d.admin, "CREATE TABLE public.partly (sensor_id text PRIMARY KEY, city text, secret text)")
	mustExec(t, d.admin, "INSERT INTO public.partly VALUES ('hel-001', 'Espoo', 'x')")
	mustExec(t, d.admin, "REVOKE ALL ON DATABASE "+d.name+" FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC")
	forWriter, forReader := documented(t, d)
	partly := smelt.Reference{Name: "partly", Table: "public.partly", Key: "sensor_id", On: "sensor_id"}
	refs := append(locations(), partly) // of the one a trigger tells changes, of the other nothing does

	mustExec(t, d.admin, forWriter)
	mustExec(t, d.admin, "GRANT SELECT (sensor_id, city) ON public.partly TO writer_"+d.name)
	writer := open(t, dsn("writer_"+d.name, server.password, d.name))
	catalog, err := writer.Catalog(t.Context())
	if err == nil {
		err = writer.Prepare(t.Context(), refs)
	}
	if err == nil {
		_, err = writer.Version(t.Context(), refs)
	}
	if err == nil {
		err = catalog.Swap(t.Context(), smelt.Move{Table: "silver.sensors", To: "m1"})
	}
	if err != nil {
		t.Fatalf("the writer: %v", err)
	}
	mustExec(t, d.admin, "REVOKE CREATE ON DATABASE "+d.name+" FROM writer_"+d.name+"; REVOKE CREATE ON SCHEMA public FROM writer_"+d.name)
	again := open(t, dsn("writer_"+d.name, server.password, d.name))
	if _, err := again.Catalog(t.Context()); err != nil {
		t.Errorf("the writer without CREATE: %v", err)
	}
	if err := again.Prepare(t.Context(), refs); err != nil {
		t.Errorf("the writer without CREATE: %v", err)
	}

	mustExec(t, d.admin, forReader)
	mustExec(t, d.admin, "GRANT SELECT (sensor_id, city) ON public.partly TO reader_"+d.name)
	mustExec(t, d.admin, "UPDATE public.locations SET city = 'Helsinki' WHERE sensor_id = 'hel-001'")
	mustExec(t, d.admin, "UPDATE public.partly SET city = 'Helsinki'") // nobody has noticed yet
	reader, err := postgres.Config{DSN: dsn("reader_"+d.name, server.password, d.name), Reader: true}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	read := reader.ReadCatalog()
	if names, err := read.List(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("list: got %q and error %v", names, err)
	}
	if at, err := read.Current(t.Context(), "silver.sensors"); !slices.Equal(at, []string{"m1"}) || err != nil {
		t.Errorf("current: got %q and error %v", at, err)
	}
	if _, err := reader.Version(t.Context(), refs); err != nil {
		t.Errorf("version: %v", err)
	}
	set, err := reader.Load(t.Context(), refs)
	if err != nil || len(set.Tables) != 2 || len(set.Tables[0].Rows) != 2 || len(set.Tables[1].Rows) != 1 {
		t.Errorf("load: got %v and error %v", set, err)
	}
	changes, err := reader.Changes(t.Context(), refs[:1], 0)
	if err != nil || len(changes) != 1 {
		t.Errorf("changes: got %v and error %v", changes, err)
	}
	if err := read.Swap(t.Context(), smelt.Move{Table: "silver.sensors", From: "m1", To: "m2"}); !errors.Is(err, smelt.ErrDatabase) {
		t.Errorf("swap: got error %v, want it refused", err)
	}
}

// TestReaderCreatesNothing reads a database in which there is nothing yet, with
// every right there is.
func TestReaderCreatesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	reader, err := postgres.Config{DSN: d.dsn(), Reader: true}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	catalog := reader.ReadCatalog()
	if names, err := catalog.List(t.Context()); len(names) != 0 || err != nil {
		t.Errorf("list: got %q and error %v", names, err)
	}
	if at, err := catalog.Current(t.Context(), "silver.sensors"); err != nil || at[0] != "" {
		t.Errorf("current: got error %v", err)
	}
	if err := reader.Exec(t.Context(), "CREATE TABLE public.mine ()"); !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("create: got error %v, want it refused", err)
	}
	var tables int
	if err := d.admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname IN ('public', 'smelt')").Scan(&tables); tables != 0 || err != nil {
		t.Errorf("got %d tables and error %v, want none", tables, err)
	}
	mustExec(t, d.admin, "CREATE TABLE iceberg_tables (catalog_name varchar, table_namespace varchar, table_name varchar, metadata_location varchar)")
	if _, err := catalog.List(t.Context()); err == nil || !strings.Contains(err.Error(), "smelt run brings it to V1") {
		t.Errorf("list of a catalog of schema V0: got error %v", err)
	}
}
