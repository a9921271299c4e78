package table_test

import (
	"fmt"
	"strings"
	"testing"

	"smelt/internal/table"
)

// Whatever changes a table's metadata deletes the files that it lists no longer.
func TestOldMetadataGoes(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	first := commit(t, tbl, table.Change{})
	for i, change := range []func(i int) error{
		func(i int) error { return l.Tag(t.Context(), "silver.a", fmt.Sprintf("t%d", i), head(t, first), 0) },
		func(i int) error { return l.Untag(t.Context(), "silver.a", fmt.Sprintf("t%d", i)) },
		func(int) error {
			tbl := commit(t, load(t, l, "silver.a"), table.Change{})
			_, err := tbl.Rollback(t.Context(), head(t, first), nil, "")
			return err
		},
		func(int) error { _, err := load(t, l, "silver.a").Commit(t.Context(), table.Change{}); return err },
		func(int) error { _, err := l.Fence(t.Context(), "silver.a"); return err },
		func(i int) error {
			return load(t, l, "silver.a").SetRef(t.Context(), fmt.Sprintf("f%d", i), head(t, first), true)
		},
	} {
		for n := range 30 {
			if err := change(n); err != nil {
				t.Fatalf("change %d: %v", i, err)
			}
		}
		files := 0
		for _, key := range keys(t, l.store, "silver/a/metadata/") {
			if strings.HasSuffix(key, ".metadata.json") {
				files++
			}
		}
		if files > 21 { // the current one, and those that it lists
			t.Errorf("change %d: %d metadata files are left", i, files)
		}
	}
	checkWhole(t, l, "silver.a")
}
