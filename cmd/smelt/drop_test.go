package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/store"
	"smelt/internal/table"
)

// A table whose metadata is lost can be dropped, too.
func TestDropOfLostMetadata(t *testing.T) {
	t.Parallel()
	catalog := table.NewMemoryCatalog()
	l := &lake{Tables: table.Open(store.NewMemory(), catalog, "s3://lake")}
	if err := catalog.Swap(t.Context(), smelt.Move{Table: "gold.a_b", To: "s3://lake/gold/a_b/metadata/00000-x.metadata.json"}); err != nil {
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

// Windows of rows that silver no longer has are not computed again.
func TestDropOfFrozenWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, silver := memoryLake(t, "silver.a")
		if _, err := l.Tables.Create(t.Context(), "gold.a_b", table.Definition{Columns: silver.Columns()}); err != nil {
			t.Fatal(err)
		}
		command := dropCmd{Name: "gold.a_b"}
		told := func() string {
			d, err := command.choose(t.Context(), l, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := d.text(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		silver = step(t, silver, 1000)
		if text := told(); strings.Contains(text, "COME BACK") {
			t.Errorf("silver has all rows: got %q", text)
		}
		change := table.Change{}
		at := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
		if err := ledger.Write(&change, ledger.Silver{Records: 1000, Retired: 200, Retained: at}); err != nil {
			t.Fatal(err)
		}
		if _, err := silver.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if text := told(); !strings.Contains(text, "rows from before 2000-01-01 12:00:00 (retain:), so windows from before CANNOT COME BACK") {
			t.Errorf("silver has let go of rows: got %q", text)
		}
	})
}

// A re-created table begins where bronze does.
func TestDropAfterRetirement(t *testing.T) {
	t.Parallel()
	l := &lake{Tables: table.Open(store.NewMemory(), table.NewMemoryCatalog(), "s3://lake")}
	d := dropping{pipeline: "a", tables: []string{"silver.a"}, retired: 1200, lastRetired: time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)}
	text, err := d.text(t.Context(), l)
	if want := "1,200 records, written up to 2000-01-01 12:00:00, were retired (retain:)"; err != nil || !strings.Contains(text, want) {
		t.Errorf("got %q, %v", text, err)
	}
	d.retired = 0
	if text, err = d.text(t.Context(), l); err != nil || strings.Contains(text, "COME BACK") {
		t.Errorf("bronze has all: got %q, %v", text, err)
	}
}
