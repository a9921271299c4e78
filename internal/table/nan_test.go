package table_test

import (
	"testing"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/table"
)

// Bounds leave out NaN, which is greater than all else: where there may be some
// they say nothing.
func TestBoundsWithoutNaN(t *testing.T) {
	t.Parallel()
	lake := table.Open(store.NewMemory(), table.NewMemoryCatalog(), "s3://lake")
	tbl, err := lake.Create(t.Context(), "silver.x", table.Definition{Columns: []smelt.Column{{Name: "v", Type: smelt.Type{Name: "double"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for nans, want := range map[int64]bool{-1: false, 0: true, 1: false} {
		f, err := tbl.ForeignFile("silver/x/data/1.parquet", "v", nans)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := f.Bounds("v"); ok != want {
			t.Errorf("%d NaN: the bounds are known: %v, want %v", nans, ok, want)
		}
	}
}
