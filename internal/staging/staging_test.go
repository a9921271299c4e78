package staging_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
)

// world is an area in memory, a table in it and a DuckDB that writes its files.
type world struct {
	staging.Area
	table   *table.Table
	session *duck.Session
	down    atomic.Bool  // the store answers nothing
	refused atomic.Int64 // that many puts from now, one takes place but fails; 0: none
}

const (
	cacheBytes = 1 << 20
	duckBytes  = 1 << 30
)

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{}
	w.Store = store.NewFaulty(store.NewMemory(), func(op store.Op) store.Fault {
		switch {
		case w.down.Load():
			return store.FailBefore
		case op.Name == "put" && w.refused.Add(-1) == 0:
			return store.FailAfter
		}
		return store.None
	})
	w.Lake = table.Open(w.Store, table.NewMemoryCatalog(), "s3://lake")
	var err error
	if w.Cache, err = store.NewCache(w.Store, t.TempDir(), cacheBytes); err != nil {
		t.Fatal(err)
	}
	w.table, err = w.Lake.Create(t.Context(), "silver.sensors", table.Definition{
		Columns:   []smelt.Column{{Name: "n", Type: smelt.Type{Name: "bigint"}}, {Name: "city", Type: smelt.Type{Name: "varchar"}}},
		Partition: []smelt.PartitionField{{Transform: "identity", Column: "city"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := duck.Open(duck.Config{MemoryBytes: duckBytes, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if w.session, err = db.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.session.Close() })
	return w
}

// write lets DuckDB write six rows, a file for each of three cities.
func (w *world) write(t *testing.T) []smelt.DataFile {
	t.Helper()
	files, err := w.session.WriteParquet(t.Context(), "(SELECT n, 'city ' || n % 3 AS city FROM range(6) AS r(n))", t.TempDir(), duck.Layout{
		FieldIDs: w.table.FieldIDs(), Partition: duck.PartitionValues(w.table.Partition()), Sort: "n",
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func (w *world) upload(t *testing.T) []staging.Staged {
	t.Helper()
	staged, err := w.Upload(t.Context(), w.table, w.write(t))
	if err != nil {
		t.Fatal(err)
	}
	return staged
}

// stored lists the objects of the table's data folder.
func (w *world) stored(t *testing.T) []string {
	t.Helper()
	const all = 1000
	objects, err := w.Store.List(t.Context(), w.Lake.Key(w.table.Location())+"/data/", "", all)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	return keys
}

// total adds up a relation's numbers, and counts its rows.
func (w *world) total(t *testing.T, relation string) [2]int64 {
	t.Helper()
	var got [2]int64
	if err := w.session.Row(t.Context(), "SELECT count(*), coalesce(sum(n), 0)::BIGINT FROM "+relation, &got[0], &got[1]); err != nil {
		t.Fatal(err)
	}
	return got
}

// What is written, uploaded and committed comes back the same, and from the
// cache: with the store gone too.
func TestThere(t *testing.T) {
	t.Parallel()
	w := setup(t)
	staged := w.upload(t)
	committed, err := w.table.Commit(t.Context(), table.Change{Add: staging.Files(staged)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Keep(staged); err != nil {
		t.Fatal(err)
	}
	head, _ := committed.Current()
	files, err := committed.Files(t.Context(), head.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 || len(w.stored(t)) != 3 {
		t.Fatalf("got %d files of the table, %d objects, want 3", len(files), len(w.stored(t)))
	}
	w.down.Store(true)
	paths, release, err := w.Fetch(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got, want := w.total(t, duck.ReadParquet(committed.Columns(), paths)), [2]int64{6, 15}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Two attempts at one step share no name.
func TestNames(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.upload(t)
	w.upload(t)
	keys := w.stored(t)
	if len(keys) != 6 {
		t.Errorf("got %d objects, want 6: %v", len(keys), keys)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "silver/sensors/data/") || filepath.Ext(key) != ".parquet" {
			t.Errorf("%s is no data file of the table", key)
		}
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	w := setup(t)
	kept, gone := w.upload(t), w.upload(t)
	if err := w.Discard(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if got := w.stored(t); len(got) != len(kept) {
		t.Errorf("got %d objects, want %d", len(got), len(kept))
	}
	paths, release, err := w.Fetch(t.Context(), staging.Files(kept))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got := w.total(t, duck.ReadParquet(w.table.Columns(), paths)); got[0] != 6 {
		t.Errorf("got %d rows, want 6", got[0])
	}
}

// If one file of an upload fails, perhaps after it has arrived, no file is left.
func TestUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	files := w.write(t)
	w.refused.Store(int64(len(files)))
	staged, err := w.Upload(t.Context(), w.table, files)
	if err == nil || staged != nil {
		t.Fatalf("staged %v, %v; want the error of the last put", staged, err)
	}
	if left := w.stored(t); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// While the store is unavailable nothing is staged, and Discard of nothing works.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	w := setup(t)
	files := w.write(t)
	there := staging.Files(w.upload(t))
	w.down.Store(true)
	staged, err := w.Upload(t.Context(), w.table, files)
	if err == nil {
		t.Fatal("uploaded without a store")
	}
	if err := w.Discard(t.Context(), staged); err != nil {
		t.Errorf("discard: %v", err)
	}
	for _, f := range files {
		if _, err := os.Stat(f.Path); err != nil {
			t.Errorf("the local file is gone: %v", err)
		}
	}
	paths, release, err := w.Fetch(t.Context(), there)
	release()
	if err == nil || paths != nil {
		t.Errorf("fetched %v without a store", paths)
	}
}

func TestFetchCancelled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	files := staging.Files(w.upload(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, release, err := w.Fetch(ctx, files)
	release()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func column(name, typ string) smelt.Column {
	return smelt.Column{Name: name, Type: smelt.Type{Name: typ}}
}

func typ(name string) smelt.Type { return smelt.Type{Name: name} }

func TestFuture(t *testing.T) {
	t.Parallel()
	w := setup(t)
	future, err := staging.Future(w.table, []smelt.Column{column("city", "varchar"), column("n", "integer")})
	if err != nil || future != w.table {
		t.Errorf("what it has: another table: %v, %v", future != w.table, err)
	}
	given := []smelt.Column{column("m", "float"), column("n", "integer")}
	future, err = staging.Future(w.table, given)
	if err != nil {
		t.Fatal(err)
	}
	if want := append(w.table.Columns(), given[0]); !reflect.DeepEqual(future.Columns(), want) {
		t.Errorf("got %v, want %v", future.Columns(), want)
	}
	if got, want := staging.Fitted(future, given), []smelt.Column{given[0], column("n", "bigint")}; !reflect.DeepEqual(got, want) {
		t.Errorf("fitted: got %v, want %v", got, want)
	}

	_, err = staging.Future(w.table, []smelt.Column{column("n", "double"), column("CITY", "varchar")})
	const want = `the pipeline's SQL gives columns that silver.sensors cannot take:
  column n: BIGINT in the table, DOUBLE now
  column CITY: the table has it as city, and names that differ only in case are one to most engines
Either cast each column back, or give it another name with AS, or drop the pipeline's tables, which are then computed again from bronze:
  ./bin/smelt drop sensors`
	if !errors.Is(err, smelt.ErrPipeline) || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	conflicts := table.Conflicts{{Column: "n", Have: typ("bigint"), Given: typ("date")}}
	if got := staging.Refused("gold.sensors_hourly", conflicts); !strings.HasSuffix(got.Error(), "or drop the table, which is then computed again:\n  ./bin/smelt drop gold.sensors_hourly") {
		t.Errorf("of gold: %v", got)
	}
	if err := errors.New("another"); staging.Refused("gold.x", err) != err || staging.Refused("gold.x", nil) != nil {
		t.Error("another error did not stay as it is")
	}
}

func TestRelation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	relation := staging.Relation("(SELECT 'x' AS other, 7::BIGINT AS n)", w.table, []smelt.Column{column("n", "bigint")})
	got, err := w.session.Describe(t.Context(), "FROM "+relation)
	if err != nil {
		t.Fatal(err)
	}
	if want := w.table.Columns(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := w.total(t, relation), [2]int64{1, 7}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	narrow := staging.Relation("(SELECT 'x' AS city, 7::INTEGER AS n)", w.table, []smelt.Column{column("n", "integer"), column("city", "varchar")})
	if got, err := w.session.Describe(t.Context(), "FROM "+narrow); err != nil || !reflect.DeepEqual(got, w.table.Columns()) {
		t.Errorf("of a narrower column: got %v, %v, want %v", got, err, w.table.Columns())
	}
}

// TestBatches divides lists of files, by their MiB.
func TestBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sizes, want []int }{
		{nil, nil},
		{[]int{100, 100, 56}, []int{3}},
		{[]int{100, 100, 57, 1}, []int{2, 2}},
		{[]int{300, 300, 1}, []int{1, 1, 1}},
		{make([]int, 1001), []int{500, 500, 1}},
	} {
		var files []table.File
		for _, s := range c.sizes {
			files = append(files, table.File{Bytes: int64(s) << 20})
		}
		var got []int
		for _, b := range staging.Batches(files, staging.FileSize, 500, 256<<20) {
			got = append(got, len(b))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.sizes, got, c.want)
		}
	}
}
