package table_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/internal/table"
)

// orphanAge is that of an orphan in these tests.
const orphanAge = 2 * table.FileAge

// sweep removes what is an orphan, and returns the names of the objects in the
// table's folder that were.
func sweep(t *testing.T, l lake, name string) (gone []string) {
	t.Helper()
	found, err := l.Orphans(t.Context(), name, time.Now().Add(-orphanAge))
	if err != nil {
		t.Fatal(err)
	}
	fenced, err := l.Fence(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	removed, err := fenced.RemoveOrphans(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range removed {
		_, file, _ := strings.Cut(strings.TrimPrefix(o.Key, strings.ReplaceAll(name, ".", "/")), "/")
		gone = append(gone, file)
	}
	return gone
}

func putObject(t *testing.T, l lake, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := l.store.Put(t.Context(), key, strings.NewReader("x"), smelt.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Only what is in the folder, is old, and is reached by no snapshot of any branch
// or tag goes.
func TestOrphans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLake(t)
		tbl := create(t, l, "silver.a", readings())
		create(t, l, "silver.ab", readings())
		for i := range 30 { // manifests are merged, files replaced
			tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%02d", i), i%24)}})
		}
		live, err := tbl.Files(t.Context(), head(t, tbl))
		if err != nil {
			t.Fatal(err)
		}
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, "tagged", 1)}})
		if err := tbl.SetRef(t.Context(), "theirs", head(t, tbl), false); err != nil {
			t.Fatal(err)
		}
		tbl = load(t, l, "silver.a")
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, "branched", 1)}})
		if err := tbl.SetRef(t.Context(), "branch", head(t, tbl), true); err != nil {
			t.Fatal(err)
		}
		// A new table of the name is elsewhere while an old one is being dropped.
		putObject(t, l, "silver/a-1f3a9c2e/data/lost.parquet")
		// Main goes on without either.
		if tbl, err = load(t, l, "silver.a").Rollback(t.Context(), tbl.Ancestors()[2].ID, nil, ""); err != nil {
			t.Fatal(err)
		}
		tbl = commit(t, tbl, table.Change{Remove: live[:3], Add: []table.File{put(t, l, tbl, "merged", 1)}, Replace: true})
		if err := tbl.DeleteRows(t.Context(), live[7]); err != nil {
			t.Fatal(err)
		}
		putObject(t, l, "silver/a/data/deletes.parquet",
			"silver/a/data/lost.parquet", "silver/a/data/00000000-other.parquet", "silver/a/metadata/lost.metadata.json", "silver/a/metadata/lost-m1.avro",
			"silver/ab/data/lost.parquet", "silver/a.parquet", "quarantine/a/data/lost.parquet")
		time.Sleep(orphanAge)
		putObject(t, l, "silver/a/data/young.parquet")
		time.Sleep(time.Hour)

		if found, err := l.Orphans(t.Context(), "silver.a", time.Now().Add(-orphanAge-2*time.Hour)); err != nil || len(found) > 0 {
			t.Errorf("all are younger than that: got %v, %v", found, err)
		}
		got := sweep(t, l, "silver.a")
		want := []string{"data/00000000-other.parquet", "data/lost.parquet", "metadata/lost-m1.avro", "metadata/lost.metadata.json"}
		if !slices.Equal(got, want) {
			t.Errorf("gone: %q, want %q", got, want)
		}
		for _, key := range []string{"silver/ab/data/lost.parquet", "silver/a.parquet", "silver/a-1f3a9c2e/data/lost.parquet", "quarantine/a/data/lost.parquet", "silver/a/data/young.parquet"} {
			if _, err := l.store.Stat(t.Context(), key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		if err := l.store.Delete(t.Context(), "silver/a/data/young.parquet"); err != nil {
			t.Fatal(err)
		}
		checkWhole(t, l, "silver.a")
		if again := sweep(t, l, "silver.a"); len(again) > 0 {
			t.Errorf("a second time: %q", again)
		}
	})
}

// Nothing is an orphan of a table in whose folder another engine has put another.
func TestOrphansOfNested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLake(t)
		create(t, l, "silver.a", readings())
		putObject(t, l, "silver/a/data/lost.parquet", "silver/a/copy/metadata/00000-x.metadata.json", "silver/a/copy/data/live.parquet")
		if err := l.catalog.Swap(t.Context(), smelt.Move{Table: "theirs.copy", To: "s3://lake/silver/a/copy/metadata/00000-x.metadata.json"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(orphanAge + time.Hour)
		if gone := sweep(t, l, "silver.a"); len(gone) > 0 {
			t.Errorf("gone: %q", gone)
		}
	})
}

// Nothing is an orphan of a table that says so, or that lies elsewhere.
func TestOrphansHeedsDisabledCollection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLake(t)
		tbl := create(t, l, "silver.a", readings())
		putObject(t, l, "silver/a/data/lost.parquet")
		commit(t, tbl, table.Change{Properties: map[string]string{"gc.enabled": "false"}})
		time.Sleep(orphanAge + time.Hour)
		if gone := sweep(t, l, "silver.a"); len(gone) > 0 {
			t.Errorf("gone: %q", gone)
		}
		putObject(t, l, "silver/none/data/lost.parquet")
		if _, err := l.Orphans(t.Context(), "silver.none", time.Now().Add(time.Hour)); !errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("the folder of a table that is not there: %v", err)
		}
	})
}

// The reply to a commit is lost. If it succeeded, its files stay; otherwise they are deleted.
func TestOrphansOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLake(t)
		create(t, l, "silver.a", readings())
		gone := errors.New("connection reset")
		for _, c := range []struct {
			name    string
			catalog table.Catalog
		}{
			{"committed", &lostReply{l.catalog, gone}},
			{"lost", &lostCall{l.catalog, gone}},
		} {
			own := lake{table.Open(l.store, c.catalog, "s3://lake"), l.store, l.catalog}
			tbl, err := own.Load(t.Context(), "silver.a")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tbl.Commit(t.Context(), table.Change{Add: []table.File{put(t, l, tbl, c.name, 1)}}); !errors.Is(err, gone) {
				t.Fatalf("%s: got %v", c.name, err)
			}
		}
		time.Sleep(orphanAge + time.Hour)
		got := sweep(t, l, "silver.a")
		data := slices.DeleteFunc(slices.Clone(got), func(f string) bool { return strings.HasPrefix(f, "metadata/") })
		if !slices.Equal(data, []string{"data/lost.parquet"}) || len(got) != 4 { // with a manifest, a list and a metadata file
			t.Errorf("gone: %q", got)
		}
		checkWhole(t, l, "silver.a")
	})
}

// lostCall is a catalog whose swap never arrives.
type lostCall struct {
	table.Catalog
	err error
}

func (c *lostCall) Swap(context.Context, ...smelt.Move) error { return c.err }

// Files that wait too long for their commit are refused, and nothing is left behind but
// themselves.
func TestCommitRefusesOldFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLake(t)
		tbl := create(t, l, "silver.a", readings())
		f, intime := put(t, l, tbl, "f", 1), put(t, l, tbl, "intime", 1)
		time.Sleep(table.FileAge)
		tbl = commit(t, tbl, table.Change{Add: []table.File{intime}})
		time.Sleep(time.Second)
		before := keys(t, l.store, "")
		for _, c := range []table.Change{
			{Add: []table.File{put(t, l, tbl, "new", 1), f}}, {Add: []table.File{f}},
		} {
			if _, err := tbl.Commit(t.Context(), c); !errors.Is(err, table.ErrOld) || errors.Is(err, table.ErrConflict) {
				t.Errorf("got %v, want ErrOld", err)
			}
		}
		if got := keys(t, l.store, ""); len(got) != len(before)+1 { // "new"
			t.Errorf("objects %q, were %q", got, before)
		}
		// A file of the table may be as old as it likes.
		files, err := tbl.Files(t.Context(), head(t, tbl))
		if err != nil {
			t.Fatal(err)
		}
		commit(t, commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, "g", 1)}}), table.Change{Remove: files})
	})
}

// patient is a catalog to which a call may come however late: a process that was
// frozen notices that its time is over only after it has sent the call.
type patient struct{ table.Catalog }

func (c patient) Swap(ctx context.Context, moves ...smelt.Move) error {
	return c.Catalog.Swap(context.WithoutCancel(ctx), moves...)
}

// A commit is delayed for days just before its swap, after it has found its files young. It fails once they were taken for
// orphans.
func TestOrphansOfHeldUpCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLake(t)
		create(t, l, "silver.a", readings())
		var gone []string
		own := lake{table.Open(l.store, &beforeSwap{patient{l.catalog}, func() {
			time.Sleep(orphanAge + time.Hour)
			gone = sweep(t, l, "silver.a")
		}}, "s3://lake"), l.store, l.catalog}
		tbl, err := own.Load(t.Context(), "silver.a")
		if err != nil {
			t.Fatal(err)
		}
		_, err = tbl.Commit(t.Context(), table.Change{Add: []table.File{put(t, l, tbl, "f", 1)}})
		if !errors.Is(err, table.ErrConflict) {
			t.Errorf("got %v, want a conflict", err)
		}
		if !slices.Contains(gone, "data/f.parquet") {
			t.Errorf("gone: %q", gone)
		}
		checkWhole(t, l, "silver.a")
	})
}

// No commit to a table that was loaded before a search for orphans succeeds.
func TestFence(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	f := put(t, l, tbl, "f", 1)
	if _, err := l.Fence(t.Context(), "silver.a"); err != nil {
		t.Fatal(err)
	}
	before := keys(t, l.store, "")
	if _, err := tbl.Commit(t.Context(), table.Change{Add: []table.File{f}}); !errors.Is(err, table.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if got := keys(t, l.store, ""); !slices.Equal(got, before) {
		t.Errorf("objects %q, were %q", got, before)
	}
	commit(t, load(t, l, "silver.a"), table.Change{Add: []table.File{f}})
}
