package backfill_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"smelt/internal/ledger"
	"smelt/internal/table"
)

// What a test reads of the world.

func (w *world) load(name string) *table.Table {
	w.t.Helper()
	t, err := w.eyes.Parts.Area.Lake.Load(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// files are a table's current data files, in the order of their rows' lineage.
func (w *world) files(name string) []table.File {
	w.t.Helper()
	t := w.load(name)
	current, ok := t.Current()
	if !ok {
		return nil
	}
	files, err := t.Files(w.t.Context(), current.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b table.File) int {
		loA, _, _ := a.IntRange("_partition_offset")
		loB, _, _ := b.IntRange("_partition_offset")
		return int(loA - loB)
	})
	return files
}

func keysOf(files []table.File) []string {
	keys := make([]string, len(files))
	for i, f := range files {
		keys[i] = f.Key
	}
	slices.Sort(keys)
	return keys
}

// heads are where the tables are: their metadata files, by name.
func (w *world) heads() map[string]string {
	w.t.Helper()
	names, err := w.catalog.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	heads := map[string]string{}
	for _, name := range names {
		at, err := w.catalog.Current(w.t.Context(), name)
		if err != nil {
			w.t.Fatal(err)
		}
		heads[name] = at[0]
	}
	return heads
}

// stored are the keys of the store's objects under a prefix.
func (w *world) stored(prefix string) []string {
	w.t.Helper()
	const all = 10_000
	objects, err := w.objects.List(w.t.Context(), prefix, "", all)
	if err != nil {
		w.t.Fatal(err)
	}
	keys := make([]string, len(objects))
	for i, o := range objects {
		keys[i] = o.Key
	}
	return keys
}

// rows reads columns of a table, in the order of the lineage, a row a line.
func (w *world) rows(name string, columns ...string) []string {
	w.t.Helper()
	order := "_partition_id, _partition_offset"
	if strings.HasPrefix(name, "gold.") {
		order = "cells"
	}
	rows, err := w.eyes.Rows(w.t.Context(), w.session, name, columns, order)
	if err != nil {
		w.t.Fatal(err)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.Join(r, " ")
	}
	return out
}

// all reads all columns of a table but some.
func (w *world) all(name string, but ...string) []string {
	w.t.Helper()
	var columns []string
	for _, c := range w.load(name).Columns() {
		if !slices.Contains(but, c.Name) {
			columns = append(columns, c.Name)
		}
	}
	return w.rows(name, columns...)
}

func (w *world) ledger() ledger.Silver {
	w.t.Helper()
	l, _, _, err := ledger.Read[ledger.Silver](w.load(silverName))
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// whole checks that each record sent is in silver or in quarantine, exactly once,
// and that the ledgers count them so.
func (w *world) whole() {
	w.t.Helper()
	seen, reasons, unmatched := map[string]int{}, map[string]int64{}, int64(0)
	silver := w.rows(silverName, "_partition_id", "_partition_offset", "_unmatched")
	for _, row := range silver {
		f := strings.Fields(row)
		seen[f[0]+":"+f[1]]++
		if len(f) > 2 {
			unmatched++
		}
	}
	for _, row := range w.rows(quarantineName, "_partition_id", "_partition_offset", "reason") {
		f := strings.SplitN(row, " ", 3)
		seen[f[0]+":"+f[1]]++
		reasons[f[2]]++
	}
	records := int64(0)
	for _, n := range w.sent {
		records += n
	}
	for at, n := range seen {
		if n != 1 {
			w.t.Errorf("record %s is there %d times", at, n)
		}
	}
	if int64(len(seen)) != records {
		w.t.Errorf("%d records are there of %d", len(seen), records)
	}
	l := w.ledger()
	if l.Records != records || l.Rows() != int64(len(silver)) || l.Unmatched != unmatched {
		w.t.Errorf("silver's ledger has %d records, %d rows, %d unmatched; want %d, %d, %d", l.Records, l.Rows(), l.Unmatched, records, len(silver), unmatched)
	}
	counted := maps.Clone(l.Quarantined)
	maps.DeleteFunc(counted, func(_ string, n int64) bool { return n == 0 })
	if !maps.Equal(counted, reasons) {
		w.t.Errorf("silver's ledger has the reasons %v, quarantine %v", counted, reasons)
	}
}

// same compares lists.
func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s\ngot:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
