package table_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"smelt/internal/table"
)

// two makes two tables.
func two(t *testing.T, l lake) (a, b *table.Table) {
	return create(t, l, "silver.a", readings()), create(t, l, "quarantine.a", readings())
}

// Edits of two tables succeed together.
func TestPublish(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	a, b := two(t, l)
	got, err := l.Publish(t.Context(),
		a.Change(table.Change{Add: []table.File{put(t, l, a, "a1", 1)}}),
		b.Change(table.Change{Add: []table.File{put(t, l, b, "b1", 1)}}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a1", "b1"} {
		if is := files(t, got[i], head(t, got[i])); is != want {
			t.Errorf("%s has %s, want %s", got[i].Name(), is, want)
		}
	}
	loaded, err := l.LoadAll(t.Context(), "quarantine.a", "gold.none", "silver.a")
	if err != nil || loaded[0] != got[1] || loaded[1] != nil || loaded[2] != got[0] {
		t.Errorf("loaded %v, %v", loaded, err)
	}
}

// If one edit cannot be made, the other is not made either, and nothing is left behind.
func TestPublishAllOrNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(t *testing.T, l lake, a, b *table.Table) // between the load and the edits
		want   error
	}{
		{"another commit to the first", func(t *testing.T, l lake, a, _ *table.Table) { commit(t, a, table.Change{}) }, table.ErrConflict},
		{"another commit to the second", func(t *testing.T, l lake, _, b *table.Table) { commit(t, b, table.Change{}) }, table.ErrConflict},
		{"a fence on the second", func(t *testing.T, l lake, _, b *table.Table) {
			if _, err := l.Fence(t.Context(), b.Name()); err != nil {
				t.Fatal(err)
			}
		}, table.ErrConflict},
		{"files of the second that waited too long", func(*testing.T, lake, *table.Table, *table.Table) { time.Sleep(table.FileAge + time.Second) }, table.ErrOld},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLake(t)
				a, b := two(t, l)
				fb := put(t, l, b, "b1", 1)
				c.change(t, l, a, b)
				fa := put(t, l, a, "a1", 1)
				before := keys(t, l.store, "")
				_, err := l.Publish(t.Context(), a.Change(table.Change{Add: []table.File{fa}}), b.Change(table.Change{Add: []table.File{fb}}))
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				for _, name := range []string{"silver.a", "quarantine.a"} {
					now, err := l.Load(t.Context(), name)
					if err != nil {
						t.Fatal(err)
					}
					if current, ok := now.Current(); ok && files(t, now, current.ID) != "" {
						t.Errorf("%s has %s", name, files(t, now, current.ID))
					}
				}
				if after := keys(t, l.store, ""); len(after) != len(before) {
					t.Errorf("objects %q, were %q", after, before)
				}
			})
		})
	}
}

// Of writers that race for two tables one wins, for both.
func TestPublishRaces(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	a, b := two(t, l)
	var (
		mu  sync.Mutex
		won int
		wg  sync.WaitGroup
	)
	for i := range 10 {
		edits := []table.Edit{a.Change(table.Change{}), b.Change(table.Change{})}
		if i%2 == 0 {
			edits[0], edits[1] = edits[1], edits[0]
		}
		wg.Go(func() {
			_, err := l.Publish(t.Context(), edits...)
			if err != nil && !errors.Is(err, table.ErrConflict) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			}
		})
	}
	wg.Wait()
	loaded, err := l.LoadAll(t.Context(), "silver.a", "quarantine.a")
	if err != nil || won != 1 || len(loaded[0].Snapshots()) != 1 || len(loaded[1].Snapshots()) != 1 {
		t.Errorf("%d won, %v; the tables have %d and %d snapshots", won, err, len(loaded[0].Snapshots()), len(loaded[1].Snapshots()))
	}
}
