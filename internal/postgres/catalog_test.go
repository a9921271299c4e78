package postgres_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"smelt"
	"smelt/internal/postgres"
	"smelt/internal/table"
	"smelt/internal/table/tabletest"
)

func openCatalog(t *testing.T, d *database) *postgres.Catalog {
	t.Helper()
	catalog, err := open(t, d.dsn()).Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

func TestCatalogContract(t *testing.T) {
	t.Parallel()
	tabletest.RunCatalog(t, func(t *testing.T) table.Catalog { return openCatalog(t, setup(t)) })
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	d := setup(t)
	c := openCatalog(t, d)
	ctx := t.Context()

	steps := []struct {
		name, old, new string
		want           error
	}{
		{"silver.sensors", "m1", "m2", smelt.ErrExists},
		{"silver.sensors", "", "m1", nil},
		{"silver.sensors", "", "m1", smelt.ErrExists},
		{"silver.sensors", "m1", "m2", nil},
		{"silver.sensors", "m1", "m3", smelt.ErrExists},
		{"gold.sensors_hourly", "", "g1", nil},
		{"gold.Sensors", "", "g2", nil},
	}
	for _, s := range steps {
		if err := c.Swap(ctx, smelt.Move{Table: s.name, From: s.old, To: s.new}); !errors.Is(err, s.want) {
			t.Errorf("swap %s from %q to %q: got %v, want %v", s.name, s.old, s.new, err, s.want)
		}
	}
	if got, err := c.Current(ctx, "silver.sensors"); !slices.Equal(got, []string{"m2"}) || err != nil {
		t.Errorf("current: got %q, %v", got, err)
	}
	got, err := c.List(ctx)
	if want := []string{"gold.Sensors", "gold.sensors_hourly", "silver.sensors"}; !slices.Equal(got, want) || err != nil {
		t.Errorf("list: got %q, %v, want %q", got, err, want)
	}

	var previous, kind, namespaces string
	err = d.admin.QueryRow(ctx, `SELECT previous_metadata_location, iceberg_type FROM iceberg_tables WHERE table_name = 'sensors'`).Scan(&previous, &kind)
	if previous != "m1" || kind != "TABLE" || err != nil {
		t.Errorf("row: got %q, %q, %v", previous, kind, err)
	}
	err = d.admin.QueryRow(ctx, `SELECT string_agg(namespace, ' ' ORDER BY namespace) FROM iceberg_namespace_properties WHERE catalog_name = 'lake' AND property_key = 'exists'`).Scan(&namespaces)
	if namespaces != "gold silver" || err != nil {
		t.Errorf("namespaces: got %q, %v", namespaces, err)
	}
	for _, name := range []string{"sensors", ".sensors", "silver."} {
		if err := c.Swap(ctx, smelt.Move{Table: name, To: "m"}); err == nil {
			t.Errorf("swap %q: no error", name)
		}
	}
}

func TestCatalogIsCreatedOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	var group sync.WaitGroup
	for range 8 {
		db := open(t, d.dsn())
		group.Go(func() {
			if _, err := db.Catalog(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestCatalogOfOthers(t *testing.T) {
	t.Parallel()
	d := setup(t)
	// A catalog of schema V0, whose rows have no type.
	mustExec(t, d.admin, `
CREATE TABLE iceberg_tables (catalog_name varchar, table_namespace varchar, table_name varchar, metadata_location varchar,
    previous_metadata_location varchar, PRIMARY KEY (catalog_name, table_namespace, table_name));
INSERT INTO iceberg_tables VALUES ('lake', 'silver', 'old', 'm1', NULL), ('other', 'silver', 'theirs', 'm1', NULL)`)
	c := openCatalog(t, d)
	mustExec(t, d.admin, `INSERT INTO iceberg_tables VALUES ('lake', 'silver', 'a_view', 'v1', NULL, 'VIEW')`)
	if got, err := c.List(t.Context()); !slices.Equal(got, []string{"silver.old"}) || err != nil {
		t.Errorf("list: got %q, %v", got, err)
	}
	if err := c.Swap(t.Context(), smelt.Move{Table: "silver.old", From: "m1", To: "m2"}); err != nil {
		t.Error(err)
	}
	if err := c.Swap(t.Context(), smelt.Move{Table: "silver.a_view", From: "v1", To: "m2"}); !errors.Is(err, smelt.ErrExists) {
		t.Errorf("swap of a view: got %v", err)
	}

	// A role that may not create uses existing tables, and gets an error that names what it lacks.
	role, dsn := d.role(t)
	other := open(t, dsn)
	c, err := other.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(t.Context()); !errors.Is(err, smelt.ErrDatabase) {
		t.Errorf("list without a right: got %v", err)
	}
	mustExec(t, d.admin, `GRANT SELECT, INSERT, UPDATE ON iceberg_tables, iceberg_namespace_properties TO `+role)
	if err := c.Swap(t.Context(), smelt.Move{Table: "silver.old", From: "m2", To: "m3"}); err != nil {
		t.Error(err)
	}
}
