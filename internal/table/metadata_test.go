package table_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/table"
)

// Every change of a table's metadata deletes the files that it no longer lists.
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

// A metadata file is, byte by byte, what iceberg-go makes of the table.
func TestMetadataIsAsTheLibraryWritesIt(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	def := readings()
	def.Partition = []smelt.PartitionField{{Column: "event_time", Transform: "day"}}
	tbl := create(t, l, "silver.a", def)
	check := func(after string) {
		t.Helper()
		body, _, err := l.store.Get(t.Context(), l.Key(tbl.MetadataLocation()))
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		got, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		want, err := tbl.MetadataAsLibrary()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("after %s: got\n%s\nwant\n%s", after, got, want)
		}
	}
	check("Create")
	if unknown := tbl.UnknownMetadata(); len(unknown) > 0 {
		t.Errorf("iceberg-go has fields that are not written: %v", unknown)
	}
	for i := range 2 * table.ExpireBatch {
		change := table.Change{
			Summary:    map[string]string{"what": fmt.Sprintf("<%d> & \u2028", i)},
			Properties: map[string]string{"count": fmt.Sprint(i)},
		}
		switch i {
		case 1:
			change.Columns = []smelt.Column{{Name: "more", Type: smelt.Type{Name: "varchar"}}}
		case 2:
			change.Tag = "a-tag"
		}
		tbl = commit(t, tbl, change)
	}
	check("commits")
	var err error
	if tbl, err = tbl.WithStatistics(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("statistics")
	if tbl, err = tbl.Rollback(t.Context(), tbl.Ancestors()[3].ID, nil, "was"); err != nil {
		t.Fatal(err)
	}
	check("Rollback")
	tbl = commit(t, tbl, table.Change{})
	if done, err := l.Expire(t.Context(), "silver.a", table.Retention{Last: 5, Grace: time.Nanosecond}); err != nil || done.Snapshots < table.ExpireBatch {
		t.Fatalf("Expire: got %+v, %v", done, err)
	}
	tbl = load(t, l, "silver.a")
	check("Expire")

	// Another process has kept nothing of the file before.
	other := lake{table.Open(l.store, l.catalog, "s3://lake"), l.store, l.catalog}
	tbl = commit(t, load(t, other, "silver.a"), table.Change{})
	check("a commit of another")
	tbl = commit(t, load(t, l, "silver.a"), table.Change{})
	check("a commit on that")
}
