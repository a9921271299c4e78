package table_test

import (
	"fmt"
	"testing"
	"time"

	"smelt"
	"smelt/internal/table"
)

func health(t testing.TB, tbl *table.Table) table.Health {
	t.Helper()
	h, err := tbl.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// counted is a table's health by its files, one by one.
func counted(t testing.TB, tbl *table.Table) (h table.Health) {
	t.Helper()
	files, err := tbl.Files(t.Context(), head(t, tbl))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		h.DataFiles, h.Rows, h.Bytes = h.DataFiles+1, h.Rows+f.Rows, h.Bytes+f.Bytes
	}
	return h
}

func checkHealth(t testing.TB, l lake, tbl *table.Table) {
	t.Helper()
	got, want := health(t, tbl), counted(t, tbl)
	if got.DataFiles != want.DataFiles || got.Rows != want.Rows || got.Bytes != want.Bytes || got.DeleteFiles != 0 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	o, err := l.store.Stat(t.Context(), l.Key(tbl.MetadataLocation()))
	if err != nil || got.MetadataBytes != o.Size || got.Snapshots != len(tbl.Snapshots()) {
		t.Errorf("got %+v, want %d bytes of metadata, %d snapshots, %v", got, o.Size, len(tbl.Snapshots()), err)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	if h := health(t, tbl); h.MetadataBytes == 0 || h.DataFiles != 0 || h.Manifests != 0 || h.Scattered() {
		t.Errorf("a new table: %+v", h)
	}
	for i := range 25 {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprint(i), i%24)}})
		checkHealth(t, l, tbl)
	}
	files, err := tbl.Files(t.Context(), head(t, tbl))
	if err != nil {
		t.Fatal(err)
	}
	merged, err := tbl.NewFile(smelt.DataFile{Path: "silver/a/data/merged.parquet", Rows: 100, Bytes: 7})
	if err != nil {
		t.Fatal(err)
	}
	tbl = commit(t, tbl, table.Change{Remove: files[:10], Add: []table.File{merged}, Replace: true})
	checkHealth(t, l, tbl)
	if h := health(t, tbl); h.DeadEntries != 10 || h.Manifests == 0 || h.ManifestBytes == 0 {
		t.Errorf("after a compaction: %+v", h)
	}
	tbl = commit(t, tbl, table.Change{Remove: files[10:12], Add: []table.File{put(t, l, tbl, "new", 1)}})
	checkHealth(t, l, tbl)
	if err := tbl.DeleteRows(t.Context(), merged); err != nil {
		t.Fatal(err)
	}
	if h := health(t, load(t, l, "silver.a")); h.DeleteFiles != 1 || h.DataFiles != 15 {
		t.Errorf("with a file of deletes: %+v", h)
	}
}

// daily makes a file a day, each in a commit that takes another away, as gold's do.
func daily(t *testing.T, l lake, name string, days int) *table.Table {
	t.Helper()
	def := readings()
	def.Partition = []smelt.PartitionField{{Transform: "day", Column: "event_time"}}
	tbl := create(t, l, name, def)
	file := func(day, n int) table.File {
		key := fmt.Sprintf("%s/data/%d-%d.parquet", l.Key(tbl.Location()), day, n)
		putObject(t, l, key)
		f, err := tbl.NewFile(smelt.DataFile{Path: key, Rows: 1, Bytes: 4, Partition: map[string]any{"event_time_day": int64(20000 + day)}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	today := file(0, 0)
	tbl = commit(t, tbl, table.Change{Add: []table.File{today}})
	for day := 1; day < days; day++ {
		tomorrow := file(day, 0)
		tbl = commit(t, tbl, table.Change{Add: []table.File{file(day-1, 1), tomorrow}, Remove: []table.File{today}})
		today = tomorrow
	}
	return tbl
}

// A table that is only overwritten has one manifest per partition until they are rewritten.
func TestRewriteManifests(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := daily(t, l, "gold.a", 60)
	before, was := health(t, tbl), files(t, tbl, head(t, tbl))
	if before.Manifests < 60 || !before.Scattered() {
		t.Errorf("before: %+v", before)
	}
	t.Logf("60 days, each overwritten: %+v", before)
	next, err := tbl.RewriteManifests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after := health(t, next)
	t.Logf("written anew: %+v", after)
	if after.Manifests != 1 || after.DeadEntries != 0 || after.Scattered() || after.DataFiles != before.DataFiles {
		t.Errorf("after: %+v", after)
	}
	if got := files(t, next, head(t, next)); got != was {
		t.Errorf("files %s, were %s", got, was)
	}
	checkHealth(t, l, next)
	s, _ := next.Current()
	if s.Operation != "replace" {
		t.Errorf("a snapshot that says %s", s.Operation)
	}
	added, removed, err := next.Changes(t.Context(), head(t, tbl), head(t, next))
	if err != nil || len(added)+len(removed) > 0 {
		t.Errorf("changes: %v, %v, %v", added, removed, err)
	}
	if _, err := tbl.RewriteManifests(t.Context()); err == nil {
		t.Error("a race was not lost")
	}
	checkWhole(t, l, "gold.a")
}

// Manifests of row-level deletes are not rewritten, so they are no reason to rewrite the others.
func TestScatteredDeletes(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	f := put(t, l, tbl, "f", 1)
	commit(t, tbl, table.Change{Add: []table.File{f}})
	for range 60 {
		if err := load(t, l, "silver.a").DeleteRows(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if h := health(t, load(t, l, "silver.a")); h.Manifests < 60 || h.Scattered() {
		t.Errorf("%+v", h)
	}
}

func TestScattered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		health table.Health
		want   bool
	}{
		{table.Health{}, false},
		{table.Health{DataFiles: 50, Manifests: 50}, false},
		{table.Health{DataFiles: 60, Manifests: 60}, true},
		{table.Health{DataFiles: 10000, Manifests: 60}, false},  // 50 are needed
		{table.Health{DataFiles: 10000, Manifests: 101}, true},  // twice that
		{table.Health{DataFiles: 3, DeadEntries: 60}, false},    // not worth a commit
		{table.Health{DataFiles: 300, DeadEntries: 301}, true},  //
		{table.Health{DataFiles: 300, DeadEntries: 299}, false}, //
	} {
		if got := c.health.Scattered(); got != c.want {
			t.Errorf("%+v: got %v", c.health, got)
		}
	}
}

// What would go is counted without anything going.
func TestExpirable(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	for i := range 30 {
		tbl = commit(t, tbl, table.Change{Properties: map[string]string{"p": fmt.Sprint(i)}})
	}
	for _, c := range []struct {
		policy table.Retention
		want   int
	}{
		{table.Retention{}, 0},
		{expireNow(), 25},
		{table.Retention{Last: 5, Grace: time.Hour}, 0},
		{table.Retention{Last: 5, Grace: time.Nanosecond, Needed: []int64{tbl.Ancestors()[9].ID}}, 20},
	} {
		if got, err := l.Expirable(t.Context(), "silver.a", c.policy); err != nil || got != c.want {
			t.Errorf("%+v: got %d, %v, want %d", c.policy, got, err, c.want)
		}
	}
	if n := len(load(t, l, "silver.a").Snapshots()); n != 30 {
		t.Errorf("%d snapshots are left", n)
	}
}
