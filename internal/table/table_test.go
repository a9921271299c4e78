package table_test

import (
	"errors"
	"reflect"
	"sync"
	"testing"

	"smelt"
	"smelt/internal/table"
)

func TestCreateAndLoad(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	if _, err := l.Load(t.Context(), "silver.sensors"); !errors.Is(err, smelt.ErrNotFound) {
		t.Fatalf("Load: got %v, want ErrNotFound", err)
	}
	def := table.Definition{
		Columns: []smelt.Column{
			{Name: "b", Type: smelt.Type{Name: "boolean"}},
			{Name: "i", Type: smelt.Type{Name: "integer"}},
			{Name: "l", Type: smelt.Type{Name: "bigint"}},
			{Name: "f", Type: smelt.Type{Name: "float"}},
			{Name: "d", Type: smelt.Type{Name: "double"}},
			{Name: "m", Type: smelt.Type{Name: "decimal(10,2)"}},
			{Name: "s", Type: smelt.Type{Name: "varchar"}},
			{Name: "day", Type: smelt.Type{Name: "date"}},
			{Name: "t", Type: smelt.Type{Name: "time"}},
			{Name: "ts", Type: smelt.Type{Name: "timestamp"}},
			{Name: "tz", Type: smelt.Type{Name: "timestamptz"}},
			{Name: "u", Type: smelt.Type{Name: "uuid"}},
			{Name: "bl", Type: smelt.Type{Name: "blob"}},
			{Name: "li", Type: smelt.Type{Name: "list", Elem: &smelt.Type{Name: "integer"}}},
			{Name: "st", Type: smelt.Type{Name: "struct", Fields: []smelt.Column{
				{Name: `x "y"`, Type: smelt.Type{Name: "bigint"}},
				{Name: "z", Type: smelt.Type{Name: "list", Elem: &smelt.Type{Name: "struct", Fields: []smelt.Column{{Name: "q", Type: smelt.Type{Name: "date"}}}}}},
			}}},
		},
		Partition: []smelt.PartitionField{{Transform: "identity", Column: "s"}, {Transform: "day", Column: "tz"}},
	}
	made := create(t, l, "silver.sensors", def)
	loaded, err := table.Open(l.store, l.catalog, "s3://lake/").Load(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, tbl := range []*table.Table{made, loaded} {
		if got := tbl.Columns(); !reflect.DeepEqual(got, def.Columns) {
			t.Errorf("Columns: got %v, want %v", got, def.Columns)
		}
		if got := tbl.Partition(); !reflect.DeepEqual(got, def.Partition) {
			t.Errorf("Partition: got %v, want %v", got, def.Partition)
		}
		if got, want := tbl.Location(), "s3://lake/silver/sensors"; got != want {
			t.Errorf("Location: got %q, want %q", got, want)
		}
		if _, ok := tbl.Current(); ok || len(tbl.Ancestors()) > 0 || len(tbl.Snapshots()) > 0 || len(tbl.Refs()) > 0 {
			t.Error("a new table has snapshots")
		}
	}
	const want = `{"b": 1, "i": 2, "l": 3, "f": 4, "d": 5, "m": 6, "s": 7, "day": 8, "t": 9, "ts": 10, "tz": 11, "u": 12, "bl": 13, ` +
		`"li": {__duckdb_field_id: 14, element: 15}, "st": {__duckdb_field_id: 16, "x ""y""": 17, "z": {__duckdb_field_id: 18, element: {__duckdb_field_id: 19, "q": 20}}}}`
	if got := loaded.FieldIDs(); got != want {
		t.Errorf("FieldIDs:\n got %s\nwant %s", got, want)
	}
	if names, err := l.List(t.Context()); err != nil || len(names) != 1 || names[0] != "silver.sensors" {
		t.Errorf("List: got %v, %v", names, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	column := func(name, typ string) []smelt.Column {
		return []smelt.Column{{Name: name, Type: smelt.Type{Name: typ}}}
	}
	cases := map[string]struct {
		name string
		def  table.Definition
	}{
		"no namespace":      {"sensors", readings()},
		"a path as name":    {"silver.../x", readings()},
		"no columns":        {"silver.a", table.Definition{}},
		"an unknown type":   {"silver.a", table.Definition{Columns: column("a", "hugeint")}},
		"a wide decimal":    {"silver.a", table.Definition{Columns: column("a", "decimal(39,2)")}},
		"a column twice":    {"silver.a", table.Definition{Columns: append(column("a", "date"), column("A", "date")...)}},
		"a list of nothing": {"silver.a", table.Definition{Columns: column("a", "list")}},
		"a bad transform":   {"silver.a", table.Definition{Columns: column("a", "date"), Partition: []smelt.PartitionField{{Transform: "bucket", Column: "a"}}}},
		"an hour of a date": {"silver.a", table.Definition{Columns: column("a", "date"), Partition: []smelt.PartitionField{{Transform: "hour", Column: "a"}}}},
		"a decimal's own":   {"silver.a", table.Definition{Columns: column("a", "decimal(9,2)"), Partition: []smelt.PartitionField{{Transform: "identity", Column: "a"}}}},
		"a uuid's own":      {"silver.a", table.Definition{Columns: column("a", "uuid"), Partition: []smelt.PartitionField{{Transform: "identity", Column: "a"}}}},
		"a bad partition":   {"silver.a", table.Definition{Columns: column("a", "date"), Partition: []smelt.PartitionField{{Transform: "day", Column: "b"}}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := l.Create(t.Context(), c.name, c.def); err == nil {
				t.Error("Create succeeded")
			}
		})
	}
	if got := keys(t, l.store, ""); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestCreateRace(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	const racers = 8
	var wg sync.WaitGroup
	locations := make([]string, racers)
	for i := range racers {
		wg.Go(func() { // each with a lake of its own, as processes have
			tbl, err := table.Open(l.store, l.catalog, "s3://lake").Create(t.Context(), "gold.a", readings())
			if err != nil {
				t.Error(err)
				return
			}
			locations[i] = tbl.MetadataLocation()
		})
	}
	wg.Wait()
	for _, got := range locations {
		if got != locations[0] {
			t.Errorf("got tables %s and %s, want one", got, locations[0])
		}
	}
	if got := keys(t, l.store, "gold/"); len(got) != 1 {
		t.Errorf("the losers left %v", got)
	}
}

func TestKeyAndPath(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	for path, want := range map[string]string{
		"s3://lake/silver/a.parquet":  "silver/a.parquet",
		"s3a://lake/silver/a.parquet": "silver/a.parquet",
		"s3://lake2/silver/a.parquet": "",
		"s3://other/lake/a.parquet":   "",
		"s3://lake":                   "",
	} {
		if got := l.Key(path); got != want {
			t.Errorf("Key(%q): got %q, want %q", path, got, want)
		}
	}
	if got, want := l.Path("a/b"), "s3://lake/a/b"; got != want {
		t.Errorf("Path: got %q, want %q", got, want)
	}
}

func TestLoadWithoutItsMetadata(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	if err := l.store.Delete(t.Context(), l.Key(tbl.MetadataLocation())); err != nil {
		t.Fatal(err)
	}
	_, err := table.Open(l.store, l.catalog, "s3://lake").Load(t.Context(), "silver.a")
	if errors.Is(err, smelt.ErrNotFound) || !errors.Is(err, smelt.ErrStore) {
		t.Errorf("got %v, want a store's error that is not ErrNotFound", err)
	}
}
