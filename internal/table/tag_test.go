package table_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/internal/table"
)

const day = 24 * time.Hour

// load loads a table with nothing cached.
func load(t testing.TB, l lake, name string) *table.Table {
	t.Helper()
	tbl, err := table.Open(l.store, l.catalog, "s3://lake").Load(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

// namesOf returns the tags and branches of a snapshot.
func namesOf(tbl *table.Table, snapshot int64) []table.Ref {
	return slices.DeleteFunc(tbl.Names(), func(r table.Ref) bool { return r.Snapshot != snapshot })
}

func TestCommitTags(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	t0 := create(t, l, "silver.a", readings())
	t1 := commit(t, t0, table.Change{Add: []table.File{put(t, l, t0, "a", 1)}, Tag: "smelt-backfill-0"})
	if refs := slices.Sorted(maps.Keys(t1.Refs())); !slices.Equal(refs, []string{"main"}) {
		t.Errorf("a change to a table without a snapshot: got refs %v, want main alone", refs)
	}
	t2 := commit(t, t1, table.Change{Remove: []table.File{put(t, l, t1, "a", 1)}, Add: []table.File{put(t, l, t1, "b", 1)}, Tag: "smelt-backfill-1"})
	for _, tbl := range []*table.Table{t2, load(t, l, "silver.a")} {
		if got, want := tbl.Refs()["smelt-backfill-1"], head(t, t1); got != want {
			t.Errorf("the tag is at %d, want the snapshot before, %d", got, want)
		}
		if got := files(t, tbl, tbl.Refs()["smelt-backfill-1"]); got != "a" {
			t.Errorf("files at the tag: got %q, want a", got)
		}
	}
	refs := namesOf(t2, head(t, t1))
	if len(refs) != 1 || refs[0].Branch || time.Until(refs[0].Until) > table.TagAge || time.Until(refs[0].Until) < table.TagAge-time.Minute {
		t.Errorf("got %+v, want a tag until %s from now", refs, table.TagAge)
	}
	checkWhole(t, l, "silver.a")

	_, err := t2.Commit(t.Context(), table.Change{Tag: "smelt-backfill-1"})
	if !errors.Is(err, smelt.ErrExists) || errors.Is(err, table.ErrConflict) {
		t.Errorf("a name that is taken: got %v, want ErrExists", err)
	}
	if err := t2.SetRef(t.Context(), "smelt-backfill-2", head(t, t1), false); err != nil {
		t.Fatal(err)
	}
	if _, err = t2.Commit(t.Context(), table.Change{Tag: "smelt-backfill-2"}); !errors.Is(err, table.ErrConflict) {
		t.Errorf("a name that was taken since: got %v, want ErrConflict", err)
	}
	checkWhole(t, l, "silver.a")
}

// A tag lasts for its age from when it was set, however old its snapshot is by
// then.
func TestExpireKeepsTagsForTheirAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLake(t)
		tbl := create(t, l, "silver.a", readings())
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, "old", 1)}})
		old := head(t, tbl)
		time.Sleep(40 * day) // nothing comes in
		swap := table.Change{Add: []table.File{put(t, l, tbl, "new", 1)}, Remove: []table.File{put(t, l, tbl, "old", 1)}, Tag: "smelt-backfill-1"}
		tbl = commit(t, tbl, swap)
		for name, age := range map[string]time.Duration{"mine": 0, "mine-aged": day, "smelt-other": 0} {
			if err := l.Tag(t.Context(), "silver.a", name, head(t, tbl), age); err != nil {
				t.Fatal(err)
			}
		}
		last := table.Retention{Last: 1}
		var got []string
		for range 2 {
			time.Sleep(table.TagAge - day)
			tbl = load(t, l, "silver.a")
			for i := range 60 {
				tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%s-%02d", time.Now().Format("0102"), i), i)}})
			}
			time.Sleep(time.Hour)
			_, tbl = expire(t, l, "silver.a", last)
			tags := slices.Sorted(maps.Keys(tbl.Refs()))
			tags = slices.DeleteFunc(tags, func(name string) bool {
				return strings.HasPrefix(name, "smelt-hourly-") || strings.HasPrefix(name, "smelt-daily-")
			})
			got = append(got, strings.Join(tags, " "))
			if _, tagged := tbl.Refs()["smelt-backfill-1"]; tagged && files(t, tbl, old) != "old" {
				t.Errorf("files at the tag: got %q, want old", files(t, tbl, old))
			}
		}
		want := []string{"main mine mine-aged smelt-backfill-1 smelt-other", "main mine mine-aged smelt-other"}
		if !slices.Equal(got, want) {
			t.Errorf("got refs\n %q, want\n %q", got, want)
		}
		if _, there := tbl.Snapshot(old); there {
			t.Error("the snapshot of a tag that is over is still there")
		}
	})
}

func TestTag(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	tbl = commit(t, tbl, table.Change{})
	first := head(t, tbl)
	tbl = commit(t, tbl, table.Change{})
	if err := tbl.SetRef(t.Context(), "audit", first, true); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		tag      string
		snapshot int64
		age      time.Duration
		want     error // nil: done; errAny: some other
	}{
		{"a new one", "release", first, 0, nil},
		{"the same again", "release", first, 0, nil},
		{"the same for a while", "release", first, day, nil},
		{"elsewhere", "release", head(t, tbl), 0, smelt.ErrExists},
		{"a branch's name", "audit", first, 0, smelt.ErrExists},
		{"main", "main", first, 0, smelt.ErrExists},
		{"no such snapshot", "other", 12345, 0, smelt.ErrNotFound},
		{"no name", "", first, 0, errAny},
		{"a name that begins with a space", " a", first, 0, errAny},
		{"a number", "2026", first, 0, errAny},
		{"a time", "2026-11-29", first, 0, errAny},
		{"a duration", "2h", first, 0, errAny},
	} {
		err := l.Tag(t.Context(), "silver.a", c.tag, c.snapshot, c.age)
		if c.want == errAny && err == nil || c.want != errAny && !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	if err := l.Tag(t.Context(), "silver.none", "a", first, 0); !errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("no such table: got %v, want ErrNotFound", err)
	}
	refs := namesOf(load(t, l, "silver.a"), first)
	if len(refs) != 2 || refs[0].Name != "audit" || !refs[0].Branch || refs[1].Name != "release" || refs[1].Until.IsZero() {
		t.Errorf("got %+v, want the branch audit and the tag release with an age", refs)
	}

	if err := l.Untag(t.Context(), "silver.a", "releas"); !errors.Is(err, smelt.ErrNotFound) || !strings.Contains(err.Error(), `did you mean "release"`) {
		t.Errorf("Untag of none: got %v", err)
	}
	if err := l.Untag(t.Context(), "silver.a", "audit"); !errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("Untag of a branch: got %v, want ErrNotFound", err)
	}
	if err := l.Untag(t.Context(), "silver.a", "release"); err != nil {
		t.Error(err)
	}
	if _, there := load(t, l, "silver.a").Refs()["release"]; there {
		t.Error("Untag left the tag")
	}
	checkWhole(t, l, "silver.a")
}

// errAny is an error that callers do not distinguish.
var errAny = errors.New("any")

// A tag is tried again when another commit comes first, but not without limit.
func TestTagWhileOthersCommit(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := commit(t, create(t, l, "silver.a", readings()), table.Change{})
	others := func(times int) lake {
		var c *beforeSwap
		var do func()
		do = func() {
			commit(t, load(t, l, "silver.a"), table.Change{})
			if times--; times > 0 {
				c.do = do
			}
		}
		c = &beforeSwap{l.catalog, do}
		return lake{table.Open(l.store, c, "s3://lake"), l.store, l.catalog}
	}
	if err := others(3).Tag(t.Context(), "silver.a", "a", head(t, tbl), 0); err != nil {
		t.Error(err)
	}
	if err := others(1000).Tag(t.Context(), "silver.a", "b", head(t, tbl), 0); !errors.Is(err, table.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	got := slices.Sorted(maps.Keys(load(t, l, "silver.a").Refs()))
	if want := []string{"a", "main"}; !slices.Equal(got, want) {
		t.Errorf("got refs %v, want %v", got, want)
	}
	checkWhole(t, l, "silver.a")
}
