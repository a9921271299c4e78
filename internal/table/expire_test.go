package table_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/internal/table"
)

// expireNow keeps few snapshots, so that tests need few commits.
func expireNow() table.Retention { return table.Retention{Last: 5, Grace: time.Nanosecond} }

func expire(t *testing.T, l lake, name string, policy table.Retention) (table.Expired, *table.Table) {
	t.Helper()
	done, err := l.Expire(t.Context(), name, policy)
	if err != nil {
		t.Fatal(err)
	}
	tbl, err := l.Load(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	checkWhole(t, l, name)
	return done, tbl
}

// checkWhole checks that the store holds what the table's snapshots have, all
// of it and nothing else.
func checkWhole(t *testing.T, l lake, name string) {
	t.Helper()
	tbl, err := table.Open(l.store, l.catalog, "s3://lake").Load(t.Context(), name) // nothing cached
	if err != nil {
		t.Fatal(err)
	}
	want, err := tbl.Reached(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := keys(t, l.store, strings.ReplaceAll(name, ".", "/")+"/")
	for _, key := range got {
		if _, used := slices.BinarySearch(want, key); !used {
			t.Errorf("garbage: %s", key)
		}
	}
	for _, key := range want {
		if _, there := slices.BinarySearch(got, key); !there {
			t.Errorf("missing: %s", key)
		}
	}
}

func TestExpireWaitsForABatch(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	for range 54 {
		tbl = commit(t, tbl, table.Change{})
	}
	before := tbl.MetadataLocation()
	if done, tbl := expire(t, l, "silver.a", expireNow()); done != (table.Expired{}) || tbl.MetadataLocation() != before {
		t.Errorf("54 snapshots: got %+v, want nothing done", done)
	}
	commit(t, tbl, table.Change{})
	if done, _ := expire(t, l, "silver.a", table.Retention{Last: 5}); done.Snapshots != 0 {
		t.Errorf("all are young: got %+v, want nothing done", done)
	}
	done, tbl := expire(t, l, "silver.a", expireNow())
	if done.Snapshots != 50 || len(tbl.Snapshots()) != 5 || len(tbl.Ancestors()) != 5 {
		t.Errorf("55 snapshots: got %+v, %d are left, want 50 dropped", done, len(tbl.Snapshots()))
	}
	commit(t, tbl, table.Change{})
}

func TestReadingWhatHasExpired(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	for i := range 60 {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%02d", i), i)}})
	}
	stale, err := table.Open(l.store, l.catalog, "s3://lake").Load(t.Context(), "silver.a")
	if err != nil {
		t.Fatal(err)
	}
	expire(t, l, "silver.a", expireNow())
	first, last := stale.Snapshots()[0].ID, head(t, stale)
	if _, err := stale.Files(t.Context(), first); !errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("Files: got %v, want ErrNotFound", err)
	}
	if _, _, err := stale.Changes(t.Context(), first, last); !errors.Is(err, table.ErrUnknown) {
		t.Errorf("Changes: got %v, want ErrUnknown", err)
	}
	if _, err := stale.Files(t.Context(), last); err != nil {
		t.Errorf("Files of the newest: %v", err)
	}
}

func TestExpireHeedsDisabledCollection(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	for range 60 {
		tbl = commit(t, tbl, table.Change{Properties: map[string]string{"gc.enabled": "false"}})
	}
	if done, _ := expire(t, l, "silver.a", expireNow()); done != (table.Expired{}) {
		t.Errorf("got %+v, want nothing done", done)
	}
}

func TestExpireKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	var ids []int64
	const commits = 90
	for i := range commits {
		c := table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%03d", i), i)}}
		if i%10 == 9 { // files are replaced as well
			old, err := tbl.Files(t.Context(), head(t, tbl))
			if err != nil {
				t.Fatal(err)
			}
			c.Remove = old[:len(old)/2]
		}
		tbl = commit(t, tbl, c)
		ids = append(ids, head(t, tbl))
	}
	for name, i := range map[string]int{"release": 3, "smelt-else": 4, "audit": 30} {
		if err := tbl.SetRef(t.Context(), name, ids[i], name == "audit"); err != nil {
			t.Fatal(err)
		}
	}
	want := map[int64]string{}
	for _, i := range []int{3, 4, 30, 70, 80, 89} {
		want[ids[i]] = files(t, tbl, ids[i])
	}
	policy := expireNow()
	policy.Needed = []int64{ids[80], ids[70], 12345}
	done, tbl := expire(t, l, "silver.a", policy)

	if kept := 3 + commits - 70; done.Snapshots != commits-kept || len(tbl.Snapshots()) != kept {
		t.Errorf("got %+v, %d snapshots left, want %d", done, len(tbl.Snapshots()), kept)
	}
	for id, names := range want {
		if got := files(t, tbl, id); got != names {
			t.Errorf("snapshot %d: got files %q, want %q", id, got, names)
		}
	}
	refs := slices.Sorted(maps.Keys(tbl.Refs()))
	if want := []string{"audit", "main", "release", "smelt-else"}; !slices.Equal(refs, want) {
		t.Errorf("got refs %v, want %v", refs, want)
	}
	if _, _, err := tbl.Changes(t.Context(), ids[70], ids[89]); err != nil {
		t.Errorf("changes since the needed snapshot: %v", err)
	}
}

func TestExpireTags(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind, layout string
		span, every  time.Duration // of a tag; between commits
		commits      int
		min, max     int // tags
	}{
		{"hourly", "2006010215", time.Hour, 20 * time.Minute, 130, 24 - 17, 24 + 17}, // a batch takes 17 hours
		{"daily", "20060102", 24 * time.Hour, 6 * time.Hour, 130, 30 - 13, 30 + 13},  // a batch takes 13 days
	}
	for _, c := range cases {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLake(t)
				tbl := create(t, l, "silver.a", readings())
				for i := range c.commits {
					time.Sleep(c.every)
					tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%03d", i), i)}})
					if i%10 == 0 {
						if _, err := l.Expire(t.Context(), "silver.a", expireNow()); err != nil {
							t.Fatal(err)
						}
						var err error
						if tbl, err = l.Load(t.Context(), "silver.a"); err != nil {
							t.Fatal(err)
						}
					}
				}
				checkWhole(t, l, "silver.a")
				tags := 0
				for name, id := range tbl.Refs() {
					stamp, ours := strings.CutPrefix(name, "smelt-"+c.kind+"-")
					if !ours {
						continue
					}
					tags++
					s, ok := tbl.Snapshot(id)
					if !ok {
						t.Fatalf("%s points to no snapshot", name)
					}
					end := s.Time.Truncate(c.span).Add(c.span)
					if s.Time.Format(c.layout) != stamp || end.Sub(s.Time) > c.every {
						t.Errorf("%s points to a snapshot of %s", name, s.Time)
					}
				}
				if tags < c.min || tags > c.max {
					t.Errorf("%d %s tags, want %d to %d", tags, c.kind, c.min, c.max)
				}
				if got, most := len(tbl.Snapshots()), 5+50+10+41+43; got > most {
					t.Errorf("%d snapshots, want at most %d", got, most)
				}
			})
		})
	}
}

// beforeSwap runs something just before a swap, once.
type beforeSwap struct {
	table.Catalog
	do func()
}

func (c *beforeSwap) Swap(ctx context.Context, moves ...smelt.Move) error {
	if do := c.do; do != nil {
		c.do = nil
		do()
	}
	return c.Catalog.Swap(ctx, moves...)
}

func TestExpireLosesRaces(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	for i := range 60 {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprintf("%02d", i), i)}})
	}
	first := tbl.Snapshots()[0].ID
	for name, do := range map[string]func(){
		"a tag": func() {
			if err := tbl.SetRef(t.Context(), "mine", first, false); err != nil {
				t.Error(err)
			}
		},
		"a commit": func() {
			now, err := l.Load(t.Context(), "silver.a")
			if err != nil {
				t.Error(err)
				return
			}
			commit(t, now, table.Change{})
		},
	} {
		own := lake{table.Open(l.store, &beforeSwap{l.catalog, do}, "s3://lake"), l.store, l.catalog}
		if done, _ := expire(t, own, "silver.a", expireNow()); done != (table.Expired{}) {
			t.Errorf("%s came first: got %+v, want nothing done", name, done)
		}
	}
	done, tbl := expire(t, l, "silver.a", expireNow())
	if done.Snapshots != 61-1-5 {
		t.Errorf("got %+v", done)
	}
	if got := files(t, tbl, first); got != "00" {
		t.Errorf("the tagged snapshot has files %q", got)
	}
}

func TestExpireWhileWriting(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	l := newLake(t)
	tbl := create(t, l, "gold.a", readings())
	for i := range 120 {
		var live []table.File
		if s, ok := tbl.Current(); ok {
			var err error
			if live, err = tbl.Files(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
		var c table.Change
		if r.IntN(3) > 0 {
			for _, f := range live {
				if r.IntN(3) == 0 {
					c.Remove = append(c.Remove, f)
				}
			}
			c.Replace = len(c.Remove) > 0 && r.IntN(2) == 0
		}
		stale := tbl // loaded before the expiry, committed after it
		if i%50 == 49 || i > 114 {
			if done, _ := expire(t, l, "gold.a", expireNow()); done.Snapshots > 0 {
				t.Logf("commit %d: %+v", i, done)
			}
		}
		c.Add = []table.File{put(t, l, stale, fmt.Sprintf("%03d", i), i)}
		tbl = commit(t, stale, c)
		if r.IntN(20) == 0 {
			all := tbl.Snapshots()
			if err := tbl.SetRef(t.Context(), fmt.Sprintf("t%d", i), all[r.IntN(len(all))].ID, r.IntN(2) == 0); err != nil {
				t.Fatal(err)
			}
			var err error
			if tbl, err = l.Load(t.Context(), "gold.a"); err != nil {
				t.Fatal(err)
			}
		}
	}
	expire(t, l, "gold.a", expireNow())
}
