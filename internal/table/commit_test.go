package table_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"smelt"
	"smelt/internal/table"
)

func TestCommit(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	t0 := create(t, l, "silver.a", readings())
	a, b, c := put(t, l, t0, "a", 1), put(t, l, t0, "b", 2), put(t, l, t0, "c", 3)

	t1 := commit(t, t0, table.Change{Add: []table.File{a, b}, Summary: map[string]string{"smelt.position": "7"}, Properties: map[string]string{"smelt.position": "7"}})
	t2 := commit(t, t1, table.Change{Remove: []table.File{a}, Add: []table.File{c}})
	t3 := commit(t, t2, table.Change{Summary: map[string]string{"smelt.position": "8"}})
	t4 := commit(t, t3, table.Change{Remove: []table.File{b}})

	for i, want := range []struct {
		tbl       *table.Table
		files     string
		operation string
		position  string
	}{
		{t1, "a b", "append", "7"},
		{t2, "b c", "overwrite", ""},
		{t3, "b c", "append", "8"},
		{t4, "c", "overwrite", ""},
	} {
		s, _ := want.tbl.Current()
		if got := files(t, want.tbl, s.ID); got != want.files {
			t.Errorf("commit %d: got files %q, want %q", i+1, got, want.files)
		}
		if s.Operation != want.operation || s.Summary["smelt.position"] != want.position {
			t.Errorf("commit %d: got %s with position %q, want %s with %q", i+1, s.Operation, s.Summary["smelt.position"], want.operation, want.position)
		}
		if got := len(want.tbl.Ancestors()); got != i+1 {
			t.Errorf("commit %d: got %d ancestors", i+1, got)
		}
	}
	if got := t4.Properties()["smelt.position"]; got != "7" {
		t.Errorf("property: got %q, want 7", got)
	}
	if got := files(t, t4, head(t, t1)); got != "a b" {
		t.Errorf("time travel: got %q, want %q", got, "a b")
	}
	loaded, err := table.Open(l.store, l.catalog, "s3://lake").Load(t.Context(), "silver.a")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := head(t, loaded), head(t, t4); got != want {
		t.Errorf("loaded: got snapshot %d, want %d", got, want)
	}
	if s, _ := loaded.Current(); s.Parent != head(t, t3) || time.Since(s.Time) > time.Minute {
		t.Errorf("got parent %d at %s, want %d now", s.Parent, s.Time, head(t, t3))
	}
}

func TestCommitConflicts(t *testing.T) {
	t.Parallel()
	changes := map[string]func(t *testing.T, l lake, tbl *table.Table) table.Change{
		"nothing": func(*testing.T, lake, *table.Table) table.Change { return table.Change{} },
		"properties": func(*testing.T, lake, *table.Table) table.Change {
			return table.Change{Properties: map[string]string{"a": "b"}}
		},
		"add": func(t *testing.T, l lake, tbl *table.Table) table.Change {
			return table.Change{Add: []table.File{put(t, l, tbl, "late", 1)}}
		},
		"replace": func(t *testing.T, l lake, tbl *table.Table) table.Change {
			old, err := tbl.Files(t.Context(), head(t, tbl))
			if err != nil {
				t.Fatal(err)
			}
			return table.Change{Remove: old, Add: []table.File{put(t, l, tbl, "late", 1)}}
		},
		"compact": func(t *testing.T, l lake, tbl *table.Table) table.Change {
			old, err := tbl.Files(t.Context(), head(t, tbl))
			if err != nil {
				t.Fatal(err)
			}
			return table.Change{Remove: old, Add: []table.File{put(t, l, tbl, "late", 1)}, Replace: true}
		},
		"columns": func(*testing.T, lake, *table.Table) table.Change {
			return table.Change{Columns: []smelt.Column{{Name: "new", Type: smelt.Type{Name: "date"}}}}
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLake(t)
			stale := create(t, l, "silver.a", readings())
			stale = commit(t, stale, table.Change{Add: []table.File{put(t, l, stale, "base", 0)}})
			c := change(t, l, stale)
			won := commit(t, stale, table.Change{}) // an empty commit fences too
			before := keys(t, l.store, "")

			if _, err := stale.Commit(t.Context(), c); !errors.Is(err, table.ErrConflict) {
				t.Fatalf("got %v, want ErrConflict", err)
			}
			if after := keys(t, l.store, ""); strings.Join(after, "\n") != strings.Join(before, "\n") {
				t.Errorf("the loser left something behind:\nbefore %v\nafter %v", before, after)
			}
			now, err := l.Load(t.Context(), "silver.a")
			if err != nil {
				t.Fatal(err)
			}
			if head(t, now) != head(t, won) || len(now.Columns()) != 3 || now.Properties()["a"] != "" {
				t.Error("the loser changed the table")
			}
			commit(t, now, change(t, l, now))
		})
	}
}

func TestFirstCommitConflicts(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	empty := create(t, l, "silver.a", readings())
	commit(t, empty, table.Change{})
	if _, err := empty.Commit(t.Context(), table.Change{}); !errors.Is(err, table.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
}

func TestCommitAfterMaintenance(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	tbl = commit(t, tbl, table.Change{})
	if err := tbl.SetRef(t.Context(), "mine", head(t, tbl), false); err != nil {
		t.Fatal(err)
	}
	tbl = commit(t, tbl, table.Change{}) // main is as it was
	if _, ok := tbl.Refs()["mine"]; !ok {
		t.Error("the commit lost the tag that came between")
	}
}

func TestRacingCommitters(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	create(t, l, "silver.a", readings())
	const writers, each = 2, 15
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			own := lake{table.Open(l.store, l.catalog, "s3://lake"), l.store, l.catalog}
			for done := 0; done < each; {
				tbl, err := own.Load(t.Context(), "silver.a")
				if err != nil {
					t.Error(err)
					return
				}
				_, err = tbl.Commit(t.Context(), table.Change{Add: []table.File{put(t, own, tbl, fmt.Sprintf("w%d-%02d", w, done), done)}})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, table.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	tbl, err := l.Load(t.Context(), "silver.a")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tbl.Files(t.Context(), head(t, tbl))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != writers*each || len(tbl.Ancestors()) != writers*each {
		t.Errorf("got %d files in %d snapshots, want %d each", len(got), len(tbl.Ancestors()), writers*each)
	}
}

// lostReply is a catalog whose swap works but whose reply never comes.
type lostReply struct {
	table.Catalog
	err error
}

func (c *lostReply) Swap(ctx context.Context, moves ...smelt.Move) error {
	if err := c.Catalog.Swap(ctx, moves...); err != nil {
		return err
	}
	return c.err
}

func TestCommitWithoutReply(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	create(t, l, "silver.a", readings())
	gone := errors.New("connection reset")
	own := lake{table.Open(l.store, &lostReply{l.catalog, gone}, "s3://lake"), l.store, l.catalog}
	tbl, err := own.Load(t.Context(), "silver.a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = tbl.Commit(t.Context(), table.Change{Add: []table.File{put(t, l, tbl, "a", 1)}})
	if !errors.Is(err, gone) || errors.Is(err, table.ErrConflict) || !errors.Is(err, smelt.ErrDatabase) {
		t.Fatalf("got %v, want the catalog's error as it is", err)
	}
	tbl, err = own.Load(t.Context(), "silver.a")
	if err != nil {
		t.Fatal(err)
	}
	if got := files(t, tbl, head(t, tbl)); got != "a" {
		t.Errorf("after the lost reply: got files %q, want what was committed", got)
	}
}

func TestCommitRefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, "a", 1)}})
	before := keys(t, l.store, "silver/a/metadata/")
	for name, c := range map[string]table.Change{
		"a file of no table":     {Remove: []table.File{put(t, l, tbl, "b", 1)}},
		"a column that is there": {Columns: []smelt.Column{{Name: "City", Type: smelt.Type{Name: "date"}}}},
		"compaction of nothing":  {Add: []table.File{put(t, l, tbl, "c", 1)}, Replace: true},
	} {
		if _, err := tbl.Commit(t.Context(), c); err == nil || errors.Is(err, table.ErrConflict) {
			t.Errorf("%s: got %v, want an error that is no conflict", name, err)
		}
	}
	if after := keys(t, l.store, "silver/a/metadata/"); len(after) != len(before) {
		t.Errorf("left behind: %v, before %v", after, before)
	}
}

func TestManyCommitsStaySmall(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	const commits, step = 300, 100
	start := time.Now()
	for i := range commits {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%05d", i), i)}, Properties: map[string]string{"p": fmt.Sprint(i)}})
		if i%step == step-1 {
			o, err := l.store.Stat(t.Context(), l.Key(tbl.MetadataLocation()))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("commits %d to %d: %s each, metadata %d bytes", i-step+2, i+1, time.Since(start)/step, o.Size)
			start = time.Now()
			done, err := l.Expire(t.Context(), "silver.a", table.Retention{Last: step / 2, Grace: time.Nanosecond})
			if err != nil || done.Snapshots != i+1-step/2 && done.Snapshots != step {
				t.Fatalf("Expire: got %+v, %v", done, err)
			}
			if tbl, err = l.Load(t.Context(), "silver.a"); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := tbl.Files(t.Context(), head(t, tbl))
	if err != nil || len(got) != commits {
		t.Errorf("got %d files, %v, want %d", len(got), err, commits)
	}
	const kept = 50 // snapshots, each with a list and about one manifest
	if meta := keys(t, l.store, "silver/a/metadata/"); len(meta) > 20+3*kept {
		t.Errorf("%d metadata files are left", len(meta))
	}
}

func BenchmarkCommit(b *testing.B) {
	l := newLake(b)
	tbl := create(b, l, "silver.a", readings())
	for i := 0; b.Loop(); i++ {
		tbl = commit(b, tbl, table.Change{Add: []table.File{put(b, l, tbl, fmt.Sprintf("%09d", i), i%24)}})
		if i%50 == 49 {
			if _, err := l.Expire(b.Context(), "silver.a", table.Retention{Grace: time.Nanosecond}); err != nil {
				b.Fatal(err)
			}
			var err error
			if tbl, err = l.Load(b.Context(), "silver.a"); err != nil {
				b.Fatal(err)
			}
		}
	}
}
