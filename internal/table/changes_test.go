package table_test

import (
	"errors"
	"fmt"
	"testing"

	"smelt"
	"smelt/internal/table"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	f := map[string]table.File{}
	var ids []int64
	step := func(c table.Change) {
		tbl = commit(t, tbl, c)
		ids = append(ids, head(t, tbl))
	}
	pick := func(names ...string) []table.File {
		var out []table.File
		for _, name := range names {
			if _, ok := f[name]; !ok {
				f[name] = put(t, l, tbl, name, len(f))
			}
			out = append(out, f[name])
		}
		return out
	}
	step(table.Change{Add: pick("a")})                                               // 0
	step(table.Change{Add: pick("b", "c")})                                          // 1
	step(table.Change{})                                                             // 2
	step(table.Change{Remove: pick("b"), Add: pick("d")})                            // 3
	step(table.Change{Remove: pick("a", "c"), Add: pick("ac"), Replace: true})       // 4: compaction
	step(table.Change{Add: pick("e")})                                               // 5
	step(table.Change{Remove: pick("ac"), Add: pick("g")})                           // 6
	step(table.Change{Remove: pick("d", "e", "g"), Add: pick("all"), Replace: true}) // 7

	cases := []struct {
		from, to       int
		added, removed string
	}{
		{0, 0, "", ""},
		{0, 1, "b c", ""},
		{1, 2, "", ""},
		{1, 3, "d", "b"},
		{0, 3, "c d", ""}, // b came and went
		{3, 4, "", ""},
		{0, 4, "c d", ""}, // c is in ac since
		{2, 5, "d e", "b"},
		{4, 6, "e g", "ac"},
		{3, 6, "e g", "ac"}, // ac stands for a and c, which snapshot 3 had
		{0, 6, "c d e g", "ac"},
		{6, 7, "", ""},
		{0, 7, "c d e g", "ac"},
		{3, 1, "b", "d"}, // backwards: by what the two have
		{7, 0, "a", "all"},
	}
	fresh, err := table.Open(l.store, l.catalog, "s3://lake").Load(t.Context(), "silver.a")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d to %d", c.from, c.to), func(t *testing.T) {
			added, removed, err := fresh.Changes(t.Context(), ids[c.from], ids[c.to])
			if err != nil {
				t.Fatal(err)
			}
			if names(added) != c.added || names(removed) != c.removed {
				t.Errorf("got added %q, removed %q, want %q, %q", names(added), names(removed), c.added, c.removed)
			}
			for _, f := range append(added, removed...) {
				if _, _, ok := f.Range("event_time"); !ok {
					t.Errorf("%s has no range", f.Key)
				}
			}
		})
	}
	for name, c := range map[string][2]int64{
		"no such snapshot":       {1, ids[1]},
		"to no such snapshot":    {ids[1], 1},
		"from before everything": {0, ids[1]},
	} {
		if _, _, err := fresh.Changes(t.Context(), c[0], c[1]); !errors.Is(err, table.ErrUnknown) {
			t.Errorf("%s: got %v, want ErrUnknown", name, err)
		}
	}
}

func TestChangesAcrossMergedManifests(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	tbl = commit(t, tbl, table.Change{})
	from := head(t, tbl)
	const commits = 45
	for i := range commits {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%02d", i), i)}})
	}
	added, removed, err := tbl.Changes(t.Context(), from, head(t, tbl))
	if err != nil || len(added) != commits || len(removed) != 0 {
		t.Errorf("got %d added, %d removed, %v, want %d added", len(added), len(removed), err, commits)
	}
	checkWhole(t, l, "silver.a") // merging leaves nothing behind
}

func TestRowDeletes(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, "a", 1)}})
	before := head(t, tbl)
	whole, err := tbl.Files(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	if err := tbl.DeleteRows(t.Context(), whole[0]); err != nil {
		t.Fatal(err)
	}
	if tbl, err = l.Load(t.Context(), "silver.a"); err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.Files(t.Context(), head(t, tbl)); !errors.Is(err, table.ErrRowDeletes) {
		t.Errorf("Files: got %v, want ErrRowDeletes", err)
	}
	if _, err := tbl.Files(t.Context(), before); err != nil {
		t.Errorf("Files before the deletes: %v", err)
	}
	if _, err := tbl.Files(t.Context(), 7); !errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("Files of no snapshot: got %v, want ErrNotFound", err)
	}
	if _, _, err := tbl.Changes(t.Context(), before, head(t, tbl)); !errors.Is(err, table.ErrUnknown) {
		t.Errorf("Changes: got %v, want ErrUnknown", err)
	}
	// Once they are compacted away, what comes after is known again.
	if err := tbl.CompactDeletes(t.Context(), whole[0], put(t, l, tbl, "compacted", 1)); err != nil {
		t.Fatal(err)
	}
	if tbl, err = l.Load(t.Context(), "silver.a"); err != nil {
		t.Fatal(err)
	}
	compacted := head(t, tbl)
	for range 2 {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprint(head(t, tbl)), 1)}})
	}
	if added, removed, err := tbl.Changes(t.Context(), compacted, head(t, tbl)); err != nil || len(added) != 2 || len(removed) != 0 {
		t.Errorf("Changes after the compaction: got %d added, %d removed, %v, want 2 added", len(added), len(removed), err)
	}
	if _, _, err := tbl.Changes(t.Context(), before, head(t, tbl)); !errors.Is(err, table.ErrUnknown) {
		t.Errorf("Changes across the deletes: got %v, want ErrUnknown", err)
	}
}
