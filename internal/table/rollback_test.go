package table_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/internal/table"
)

// abc is a table of three snapshots: file a, a and b, a and b and c.
func abc(t *testing.T, l lake) (tbl *table.Table, ids []int64) {
	t.Helper()
	tbl = create(t, l, "silver.a", readings())
	for _, name := range []string{"a", "b", "c"} {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, name, 1)}, Properties: map[string]string{"p": name}})
		ids = append(ids, head(t, tbl))
	}
	return tbl, ids
}

func rollBack(t *testing.T, tbl *table.Table, snapshot int64, tag string) *table.Table {
	t.Helper()
	next, err := tbl.Rollback(t.Context(), snapshot, nil, tag)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestRollback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLake(t)
		tbl, ids := abc(t, l)
		if err := tbl.KeepOnMain(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		tbl = load(t, l, "silver.a")
		time.Sleep(time.Hour)
		rolledBack := time.Now().UTC()
		back, err := tbl.Rollback(t.Context(), ids[0], map[string]string{"p": "again"}, "smelt-rollback-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, tbl := range []*table.Table{back, load(t, l, "silver.a")} {
			if chain := tbl.Ancestors(); len(chain) != 1 || chain[0].ID != ids[0] {
				t.Errorf("got ancestors %+v, want the first snapshot alone", chain)
			}
			if got := tbl.Refs(); got["main"] != ids[0] || got["smelt-rollback-1"] != ids[2] || tbl.KeptOnMain() != 7 {
				t.Errorf("got refs %v, main keeps %d", got, tbl.KeptOnMain())
			}
			if got := tbl.Properties(); got["p"] != "again" || got["write.parquet.compression-codec"] != "zstd" {
				t.Errorf("got properties %v", got)
			}
		}
		last := back.Arrivals()[len(back.Arrivals())-1]
		if want := (table.Arrival{Snapshot: ids[0], Time: rolledBack}); last != want {
			t.Errorf("got the last arrival %+v, want %+v", last, want)
		}
		checkWhole(t, l, "silver.a")

		// The table goes on from there.
		next := commit(t, back, table.Change{Add: []table.File{put(t, l, back, "d", 1)}})
		if s, _ := next.Current(); s.Parent != ids[0] || s.Sequence != 4 || files(t, next, s.ID) != "a d" {
			t.Errorf("got %+v with files %q, want the fourth snapshot, after the first, with a d", s, files(t, next, s.ID))
		}
		added, removed, err := next.Changes(t.Context(), ids[0], head(t, next))
		if err != nil || names(added) != "d" || len(removed) > 0 {
			t.Errorf("changes since: got added %q, removed %q, %v", names(added), names(removed), err)
		}
		added, removed, err = next.Changes(t.Context(), ids[2], head(t, next))
		if err != nil || names(added) != "d" || names(removed) != "b c" {
			t.Errorf("changes since what was rolled back: got added %q, removed %q, %v", names(added), names(removed), err)
		}

		// And back to what was rolled back.
		undone := rollBack(t, next, back.Refs()["smelt-rollback-1"], "")
		undone = commit(t, undone, table.Change{Add: []table.File{put(t, l, undone, "e", 1)}})
		if s, _ := undone.Current(); s.Parent != ids[2] || s.Sequence != 5 || files(t, undone, s.ID) != "a b c e" {
			t.Errorf("got %+v with files %q, want the fifth snapshot, after the third, with a b c e", s, files(t, undone, s.ID))
		}
	})
}

func TestRollbackFails(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	stale, ids := abc(t, l)
	if err := l.Tag(t.Context(), "silver.a", "mine", ids[0], 0); err != nil {
		t.Fatal(err)
	}
	tbl := load(t, l, "silver.a")
	before := keys(t, l.store, "")
	for _, c := range []struct {
		name     string
		tbl      *table.Table
		snapshot int64
		tag      string
		want     error
	}{
		{"not from the newest state", stale, ids[0], "", table.ErrConflict},
		{"no such snapshot", tbl, 12345, "", smelt.ErrNotFound},
		{"a tag that is taken", tbl, ids[0], "mine", smelt.ErrExists},
	} {
		if _, err := c.tbl.Rollback(t.Context(), c.snapshot, map[string]string{"p": "new"}, c.tag); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	if after := keys(t, l.store, ""); !reflect.DeepEqual(after, before) {
		t.Errorf("left behind:\nbefore %v\nafter %v", before, after)
	}
	if tbl := load(t, l, "silver.a"); head(t, tbl) != ids[2] || tbl.Properties()["p"] != "c" {
		t.Error("the table was changed")
	}

	gone := errors.New("connection reset")
	own := table.Open(l.store, &lostReply{l.catalog, gone}, "s3://lake")
	tbl, err := own.Load(t.Context(), "silver.a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.Rollback(t.Context(), ids[0], nil, ""); !errors.Is(err, gone) || errors.Is(err, table.ErrConflict) || !errors.Is(err, smelt.ErrDatabase) {
		t.Errorf("a lost reply: got %v, want the catalog's error as it is", err)
	}
	if got := head(t, load(t, l, "silver.a")); got != ids[0] {
		t.Errorf("after the lost reply: main is at %d, want what was asked for, %d", got, ids[0])
	}
	checkWhole(t, l, "silver.a")
}

// What was rolled back stays as long as its tag, and what has none goes.
func TestExpireAfterRollback(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl, ids := abc(t, l)
	tbl = rollBack(t, tbl, ids[0], "smelt-rollback-1")
	tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, "detour", 1)}})
	detour := head(t, tbl)
	tbl = rollBack(t, tbl, ids[0], "")
	for i := range 60 {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%02d", i), 1)}})
	}
	done, tbl := expire(t, l, "silver.a", table.Retention{Last: 1, Grace: time.Nanosecond})
	if done.Snapshots != 1+1+1+59 {
		t.Errorf("got %+v, want all dropped but the newest and the tagged one", done)
	}
	if got := files(t, tbl, ids[2]); got != "a b c" {
		t.Errorf("files at the tag: got %q", got)
	}
	if got := strings.Fields(files(t, tbl, head(t, tbl))); len(got) != 61 {
		t.Errorf("got %d files on main, want 61", len(got))
	}
	if _, there := tbl.Snapshot(detour); there {
		t.Error("the detour is still there")
	}
	undone := rollBack(t, tbl, ids[2], "")
	commit(t, undone, table.Change{Add: []table.File{put(t, l, undone, "d", 1)}})
	checkWhole(t, l, "silver.a")
}

// Main is at the very snapshot that the commit was prepared from, but there were
// others on it meanwhile.
func TestCommitAfterOthersWereRolledBack(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl, ids := abc(t, l)
	late := commit(t, tbl, table.Change{})
	rollBack(t, late, ids[2], "")
	if _, err := tbl.Commit(t.Context(), table.Change{}); !errors.Is(err, table.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	commit(t, load(t, l, "silver.a"), table.Change{})
}
