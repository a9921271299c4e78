package table_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/table"
)

// filled makes a table of a few commits.
func filled(t *testing.T, l lake, name string) *table.Table {
	t.Helper()
	tbl := create(t, l, name, readings())
	for i := range 3 {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, fmt.Sprint(i), i)}})
	}
	return tbl
}

func TestDrop(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	empty := create(t, l, "silver.a", readings())
	tbl := filled(t, l, "silver.a")
	filled(t, l, "silver.ab")
	if err := l.Tag(t.Context(), "silver.a", "mine", head(t, tbl), 0); err != nil {
		t.Fatal(err)
	}
	want, err := l.Measure(t.Context(), "silver/a")
	if err != nil || want.Objects != len(keys(t, l.store, "silver/a/")) || want.Bytes == 0 {
		t.Fatalf("measured %+v, %v", want, err)
	}
	others := len(keys(t, l.store, "silver/ab/"))

	gone, err := l.Drop(t.Context(), "silver.a")
	if err != nil || gone != want {
		t.Errorf("dropped %+v, %v, want %+v", gone, err, want)
	}
	if left := keys(t, l.store, "silver/a/"); len(left) > 0 {
		t.Errorf("left in its folder: %v", left)
	}
	if got := len(keys(t, l.store, "silver/ab/")); got != others {
		t.Errorf("silver.ab has %d objects, had %d", got, others)
	}
	if _, err := l.Load(t.Context(), "silver.a"); !errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("load: got %v, want ErrNotFound", err)
	}
	if _, err := l.Drop(t.Context(), "silver.a"); !errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("once more: got %v, want ErrNotFound", err)
	}

	// A writer that has the table from before, with a new one of the name or without.
	if _, err := tbl.Commit(t.Context(), table.Change{}); err == nil {
		t.Error("a commit to the table that was dropped went through")
	}
	anew := create(t, l, "silver.a", readings())
	if anew.Location() != tbl.Location() {
		t.Errorf("the new table is at %s, want %s again", anew.Location(), tbl.Location())
	}
	for _, before := range []*table.Table{empty, tbl} {
		if _, err := before.Commit(t.Context(), table.Change{}); err == nil {
			t.Error("a commit of before went through to the table that is there now")
		}
	}
	commit(t, anew, table.Change{})
}

// TestDropDies ends a drop at each call to the store or the catalog, and then drops
// again.
func TestDropDies(t *testing.T) {
	t.Parallel()
	died := errors.New("died")
	for at := 1; ; at++ {
		calls, armed := 0, false
		die := func() bool {
			if armed {
				calls++
			}
			return armed && calls >= at // a process that has died makes no more calls
		}
		objects := store.NewFaulty(store.NewMemory(), func(store.Op) store.Fault {
			if die() {
				return store.FailBefore
			}
			return store.None
		})
		c := &mortal{Catalog: table.NewMemoryCatalog(), die: die, with: died}
		l := lake{table.Open(objects, c, "s3://lake"), objects, c}
		filled(t, l, "silver.a")
		armed = true
		_, err := l.Drop(t.Context(), "silver.a")
		armed = false
		if err == nil {
			if at < 6 {
				t.Errorf("a drop makes %d calls only", at-1)
			}
			return
		}

		// The pipeline starts meanwhile.
		fresh := lake{table.Open(objects, c, "s3://lake"), objects, c}
		tbl := create(t, fresh, "silver.a", readings())
		_, filledBefore := tbl.Current()
		if !filledBefore {
			tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, fresh, tbl, "new", 1)}})
			left, err := fresh.Leftovers(t.Context(), "silver.a")
			if err != nil {
				t.Fatal(err)
			}
			if len(left) > 0 && strings.HasSuffix(tbl.Location(), "/"+left[0]) {
				t.Fatalf("died at call %d: the new table is in %s, which is being deleted", at, left[0])
			}
		}
		if _, err := tbl.Files(t.Context(), head(t, tbl)); err != nil {
			t.Fatalf("died at call %d: %v", at, err)
		}
		if _, err := fresh.Drop(t.Context(), "silver.a"); err != nil {
			t.Fatalf("died at call %d, and then: %v", at, err)
		}
		if left := keys(t, objects, "silver/"); len(left) > 0 {
			t.Fatalf("died at call %d: left at last %v", at, left)
		}
		if names, err := fresh.List(t.Context()); err != nil || len(names) > 0 {
			t.Fatalf("died at call %d: the catalog has %v, %v", at, names, err)
		}
	}
}

// mortal is a catalog that cannot be reached any more from some call on.
type mortal struct {
	table.Catalog
	die  func() bool
	with error
}

func (m *mortal) Current(ctx context.Context, names ...string) ([]string, error) {
	if m.die() {
		return nil, m.with
	}
	return m.Catalog.Current(ctx, names...)
}

func (m *mortal) Drop(ctx context.Context, name, location string) error {
	if m.die() {
		return m.with
	}
	return m.Catalog.Drop(ctx, name, location)
}

func (m *mortal) List(ctx context.Context) ([]string, error) {
	if m.die() {
		return nil, m.with
	}
	return m.Catalog.List(ctx)
}

// overtaken is a catalog before whose next drop another writer commits.
type overtaken struct {
	table.Catalog
	commit func()
}

func (o *overtaken) Drop(ctx context.Context, name, location string) error {
	if commit := o.commit; commit != nil {
		o.commit = nil
		commit()
	}
	return o.Catalog.Drop(ctx, name, location)
}

func TestDropIsOvertaken(t *testing.T) {
	t.Parallel()
	objects, c := store.NewMemory(), &overtaken{Catalog: table.NewMemoryCatalog()}
	l := lake{table.Open(objects, c, "s3://lake"), objects, c}
	tbl := filled(t, l, "silver.a")
	c.commit = func() { commit(t, tbl, table.Change{}) }
	if _, err := l.Drop(t.Context(), "silver.a"); err != nil {
		t.Fatal(err)
	}
	if left := keys(t, objects, "silver/"); len(left) > 0 || c.commit != nil {
		t.Errorf("left: %v", left)
	}
}

// TestDropWhileCreated has the pipeline start between the two steps of a drop: the new
// table has a folder of its own.
func TestDropWhileCreated(t *testing.T) {
	t.Parallel()
	var l lake
	var starts func()
	objects := store.NewFaulty(store.NewMemory(), func(op store.Op) store.Fault {
		if start := starts; start != nil && op.Name == "list" && op.Key == "silver/a/" {
			starts = nil
			start()
		}
		return store.None
	})
	catalog := table.NewMemoryCatalog()
	l = lake{table.Open(objects, catalog, "s3://lake"), objects, catalog}
	filled(t, l, "silver.a")
	starts = func() { filled(t, lake{table.Open(objects, catalog, "s3://lake"), objects, catalog}, "silver.a") }
	if _, err := l.Drop(t.Context(), "silver.a"); err != nil || starts != nil {
		t.Fatalf("got %v", err)
	}
	tbl := load(t, l, "silver.a")
	files, err := tbl.Files(t.Context(), head(t, tbl))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, err := objects.Stat(t.Context(), f.Key); err != nil {
			t.Errorf("a file of the new table: %v", err)
		}
	}
}

// TestDropWhatIsDamaged drops a table whose metadata is lost, and leaves one whose
// folder is not its own.
func TestDropWhatIsDamaged(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	tbl := filled(t, l, "silver.a")
	if err := l.store.Delete(t.Context(), l.Key(tbl.MetadataLocation())); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Open(l.store, l.catalog, "s3://lake").Drop(t.Context(), "silver.a"); err != nil {
		t.Error(err)
	}
	if left := keys(t, l.store, "silver/"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}

	filled(t, l, "silver.b")
	for location, want := range map[string]string{
		"s3://lake/silver/metadata/1.json":   "silver.b is in its folder silver",
		"s3://lake/silver/b/metadata/1.json": "silver.b is in its folder silver/b",
		"s3://lake/odd.json":                 "drop it with the engine that created it",
		"s3://other/x/metadata/1.json":       "drop it with the engine that created it",
	} {
		if err := l.catalog.Swap(t.Context(), smelt.Move{Table: "silver.odd", To: location}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Drop(t.Context(), "silver.odd"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a table at %s: got %v, want %s", location, err, want)
		}
		if err := l.catalog.Drop(t.Context(), "silver.odd", location); err != nil {
			t.Fatal(err)
		}
	}
	b, err := l.Load(t.Context(), "silver.b")
	if err != nil {
		t.Fatal(err)
	}
	if got := files(t, b, head(t, b)); got != "0 1 2" {
		t.Errorf("silver.b has the files %s", got)
	}
}
