package main

import (
	"strings"
	"testing"

	"smelt/internal/store"
	"smelt/internal/table"
)

// A table whose metadata is lost can be dropped, too.
func TestDropOfLostMetadata(t *testing.T) {
	t.Parallel()
	catalog := table.NewMemoryCatalog()
	l := &lake{Tables: table.Open(store.NewMemory(), catalog, "s3://lake")}
	if err := catalog.Swap(t.Context(), "gold.a_b", "", "s3://lake/gold/a_b/metadata/00000-x.metadata.json"); err != nil {
		t.Fatal(err)
	}
	text, err := dropping{tables: []string{"gold.a_b"}}.text(t.Context(), l)
	if err != nil || !strings.Contains(text, "gold.a_b") || !strings.Contains(text, "cannot be read") {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := l.Tables.Drop(t.Context(), "gold.a_b"); err != nil {
		t.Error(err)
	}
}
