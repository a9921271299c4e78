package table

import (
	"fmt"
	"testing"

	"smelt"
	"smelt/internal/store"
)

// In manifest lists, the range of a partition field includes the empty text, also after manifests were merged and rewritten.
// Other engines rely on it.
func TestEmptyTextInRange(t *testing.T) {
	t.Parallel()
	l := Open(store.NewMemory(), NewMemoryCatalog(), "s3://lake")
	tbl, err := l.Create(t.Context(), "silver.a", Definition{
		Columns: []smelt.Column{{Name: "a", Type: smelt.Type{Name: "varchar"}}, {Name: "n", Type: smelt.Type{Name: "bigint"}}},
		Partition: []smelt.PartitionField{
			{Transform: "identity", Column: "a"}, {Transform: "identity", Column: "n"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	const commits = 25 // more than manifests are merged from
	for i := range commits {
		var files []File
		for j, text := range []any{"", "b", nil, "z"} {
			f, err := tbl.NewFile(smelt.DataFile{Path: fmt.Sprintf("silver/a/data/%d-%d", i, j), Rows: 1, Bytes: 4, Partition: map[string]any{"a": text, "n": nil}})
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		if tbl, err = tbl.Commit(t.Context(), Change{Add: files[:1+i%len(files)]}); err != nil {
			t.Fatal(err)
		}
		tbl.checkRanges(t)
	}
	if tbl, err = tbl.RewriteManifests(t.Context()); err != nil {
		t.Fatal(err)
	}
	tbl.checkRanges(t)
}

func (t *Table) checkRanges(tt *testing.T) {
	tt.Helper()
	manifests, err := t.ice.CurrentSnapshot().Manifests(&storeIO{ctx: tt.Context(), lake: t.lake})
	if err != nil {
		tt.Fatal(err)
	}
	for _, m := range manifests {
		text, number := m.Partitions()[0], m.Partitions()[1]
		if text.LowerBound == nil || len(*text.LowerBound) != 0 || text.UpperBound == nil {
			tt.Errorf("the range of the texts is %v, want one from the empty text on", text)
		}
		if !number.ContainsNull || number.LowerBound != nil || number.UpperBound != nil {
			tt.Errorf("the range of numbers that are all NULL is %v", number)
		}
	}
}
