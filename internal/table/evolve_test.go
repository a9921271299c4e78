package table_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/table"
)

func typ(name string) smelt.Type { return smelt.Type{Name: name} }

func list(elem smelt.Type) smelt.Type { return smelt.Type{Name: "list", Elem: &elem} }

// record is a struct of fields given as name and type by turns.
func record(fields ...any) smelt.Type {
	t := smelt.Type{Name: "struct"}
	for i := 0; i < len(fields); i += 2 {
		t.Fields = append(t.Fields, smelt.Column{Name: fields[i].(string), Type: fields[i+1].(smelt.Type)})
	}
	return t
}

// TestWith gives a table of one column another type for it.
func TestWith(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		have, given smelt.Type
		want        string // "" for a conflict
	}{
		{typ("integer"), typ("integer"), "INTEGER"},
		{typ("integer"), typ("tinyint"), "INTEGER"},
		{typ("integer"), typ("bigint"), "BIGINT"},
		{typ("bigint"), typ("integer"), "BIGINT"},
		{typ("bigint"), typ("smallint"), "BIGINT"},
		{typ("float"), typ("double"), "DOUBLE"},
		{typ("double"), typ("float"), "DOUBLE"},
		{typ("decimal(5,2)"), typ("decimal(9,2)"), "DECIMAL(9,2)"},
		{typ("decimal(9,2)"), typ("decimal(5,2)"), "DECIMAL(9,2)"},
		{typ("varchar"), typ("json"), "VARCHAR"},
		{record("a", typ("integer")), record("a", typ("bigint"), "b", typ("date")), `STRUCT("a" BIGINT, "b" DATE)`},
		{record("a", typ("integer"), "b", typ("date")), record("b", typ("date")), `STRUCT("a" INTEGER, "b" DATE)`},
		{record("a", record("x", typ("float"))), record("a", record("x", typ("double"), "y", list(typ("varchar")))), `STRUCT("a" STRUCT("x" DOUBLE, "y" VARCHAR[]))`},
		{list(typ("integer")), list(typ("bigint")), "BIGINT[]"},
		{list(list(typ("float"))), list(list(typ("double"))), "DOUBLE[][]"},
		{list(record("a", typ("integer"))), list(record("a", typ("bigint"), "b", typ("varchar"))), `STRUCT("a" BIGINT, "b" VARCHAR)[]`},

		{typ("varchar"), typ("double"), ""},
		{typ("double"), typ("integer"), ""},
		{typ("integer"), typ("double"), ""},
		{typ("bigint"), typ("decimal(38,0)"), ""},
		{typ("decimal(5,2)"), typ("decimal(9,3)"), ""},
		{typ("timestamptz"), typ("varchar"), ""},
		{typ("timestamptz"), typ("timestamp"), ""},
		{typ("date"), typ("timestamp"), ""},
		{typ("varchar"), typ("blob"), ""},
		{typ("boolean"), typ("integer"), ""},
		{list(typ("integer")), typ("integer"), ""},
		{record("a", typ("integer")), typ("varchar"), ""},
		{record("a", typ("integer")), record("a", typ("varchar")), ""},
		{record("a", typ("integer")), record("A", typ("integer")), ""},
		{list(typ("varchar")), list(typ("date")), ""},
	} {
		t.Run(c.have.String()+" to "+c.given.String(), func(t *testing.T) {
			t.Parallel()
			l := newLake(t)
			tbl := create(t, l, "silver.a", table.Definition{Columns: []smelt.Column{{Name: "id", Type: typ("date")}, {Name: "c", Type: c.have}}})
			given := smelt.Column{Name: "c", Type: c.given}
			with, err := tbl.With(given)
			if c.want == "" {
				var conflicts table.Conflicts
				if !errors.As(err, &conflicts) || len(conflicts) != 1 || conflicts[0].Column != "c" {
					t.Fatalf("got %v, want a conflict of c", err)
				}
				if _, err := tbl.Commit(t.Context(), table.Change{Columns: []smelt.Column{given}}); err == nil {
					t.Error("the commit went through")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			next := commit(t, tbl, table.Change{Columns: []smelt.Column{given}})
			for _, v := range []*table.Table{with, next} {
				if got := v.Columns()[1].Type.String(); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
			if with.FieldIDs() != next.FieldIDs() {
				t.Errorf("ahead of the commit the ids are %s, after it %s", with.FieldIDs(), next.FieldIDs())
			}
			if !strings.HasPrefix(next.FieldIDs(), strings.TrimRight(tbl.FieldIDs(), "}")) {
				t.Errorf("ids have changed: %s, before %s", next.FieldIDs(), tbl.FieldIDs())
			}
			if again, err := next.With(given); err != nil || again != next {
				t.Errorf("the same columns once more: %v, another table: %v", err, again != next)
			}
		})
	}
}

func TestConflictsAreAllNamed(t *testing.T) {
	t.Parallel()
	tbl := create(t, newLake(t), "silver.a", readings())
	_, err := tbl.With(
		smelt.Column{Name: "City", Type: typ("varchar")}, smelt.Column{Name: "value", Type: typ("varchar")},
		smelt.Column{Name: "new", Type: typ("date")}, smelt.Column{Name: "event_time", Type: typ("date")})
	const want = `columns of silver.a: column City: the table has it as city, and names that differ only in case are one to most engines
column value: DOUBLE in the table, VARCHAR now
column event_time: TIMESTAMPTZ in the table, DATE now`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestEvolve changes a table's definition while a writer that has loaded it before
// goes on.
func TestEvolve(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	def := readings()
	def.Partition = []smelt.PartitionField{{Transform: "day", Column: "event_time"}}
	before := create(t, l, "silver.a", def)
	before = commit(t, before, table.Change{Add: []table.File{place(t, l, before, "first")}})

	def.Columns = append(def.Columns, smelt.Column{Name: "site", Type: typ("varchar")})
	def.Partition = []smelt.PartitionField{{Transform: "identity", Column: "site"}, {Transform: "hour", Column: "event_time"}}
	after, err := l.Evolve(t.Context(), "silver.a", def)
	if err != nil {
		t.Fatal(err)
	}
	if got := after.Partition(); !reflect.DeepEqual(got, def.Partition) || len(after.Columns()) != 4 {
		t.Errorf("got %v with columns %v", got, after.Columns())
	}
	if len(after.Snapshots()) != 1 {
		t.Errorf("%d snapshots, want none more", len(after.Snapshots()))
	}
	if again, err := l.Evolve(t.Context(), "silver.a", def); err != nil || again.MetadataLocation() != after.MetadataLocation() {
		t.Errorf("as it is already: %v, metadata written: %v", err, again.MetadataLocation() != after.MetadataLocation())
	}
	turned := table.Definition{Columns: def.Columns, Partition: []smelt.PartitionField{def.Partition[1], def.Partition[0]}}
	if again, err := l.Evolve(t.Context(), "silver.a", turned); err != nil || again.MetadataLocation() != after.MetadataLocation() {
		t.Errorf("in another order: %v, metadata written: %v", err, again.MetadataLocation() != after.MetadataLocation())
	}

	// The writer of before: a file of the old partitioning, without the column.
	late := commit(t, before, table.Change{Add: []table.File{place(t, l, before, "late")}})
	if !reflect.DeepEqual(late.Partition(), def.Partition) || len(late.Columns()) != 4 {
		t.Errorf("the old writer's commit took the table back to %v, %v", late.Partition(), late.Columns())
	}
	late = commit(t, late, table.Change{Add: []table.File{place(t, l, late, "new")}})
	if got := files(t, late, head(t, late)); got != "first late new" {
		t.Errorf("files %s", got)
	}
	// One that adds another column does not know of the first: it has to look again.
	_, err = before.Commit(t.Context(), table.Change{Columns: []smelt.Column{{Name: "other", Type: typ("date")}}})
	if !errors.Is(err, table.ErrConflict) {
		t.Errorf("a column beside one that it does not know: %v, want a conflict", err)
	}
	def.Columns[2].Type = typ("varchar")
	var conflicts table.Conflicts
	if _, err := l.Evolve(t.Context(), "silver.a", def); !errors.As(err, &conflicts) {
		t.Errorf("got %v, want a conflict", err)
	}
}

// TestBoundsOfBefore looks at the statistics of a file that was written before its
// columns were widened.
func TestBoundsOfBefore(t *testing.T) {
	t.Parallel()
	l, db := newLake(t), openDuck(t)
	columns := func(n, x, d string) []smelt.Column {
		return []smelt.Column{{Name: "n", Type: typ(n)}, {Name: "x", Type: typ(x)}, {Name: "d", Type: typ(d)}}
	}
	tbl := create(t, l, "silver.a", table.Definition{Columns: columns("integer", "float", "decimal(5,2)")})
	tbl = commit(t, tbl, table.Change{Add: []table.File{write(t, l, db, tbl, "old", "SELECT -3::INTEGER AS n, 0.5::FLOAT AS x, 1.25::DECIMAL(5,2) AS d", nil)}})
	wide := columns("bigint", "double", "decimal(20,2)")
	with, err := tbl.With(wide...)
	if err != nil {
		t.Fatal(err)
	}
	f := write(t, l, db, with, "new", "SELECT 5000000000 AS n, 0.1::DOUBLE AS x, 12345678901.25::DECIMAL(20,2) AS d", nil)
	tbl = commit(t, tbl, table.Change{Add: []table.File{f}, Columns: wide})
	got, err := tbl.Files(t.Context(), head(t, tbl))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		n int64
		x float64
	}{{5000000000, 0.1}, {-3, 0.5}} { // new, old
		if lo, hi, ok := got[i].IntRange("n"); !ok || lo != want.n || hi != want.n {
			t.Errorf("%s: n from %d to %d, known: %v, want %d", got[i].Key, lo, hi, ok, want.n)
		}
		if lo, _, ok := got[i].Bounds("n"); !ok || lo != any(want.n) {
			t.Errorf("%s: n from %v, known: %v, want %d", got[i].Key, lo, ok, want.n)
		}
		if lo, hi, ok := got[i].Bounds("x"); !ok || lo != any(want.x) || hi != any(want.x) {
			t.Errorf("%s: x from %v to %v, known: %v, want %v", got[i].Key, lo, hi, ok, want.x)
		}
	}
}

// place stores an object in place of a data file, in a partition of its own, and
// describes it.
func place(t testing.TB, l lake, tbl *table.Table, name string) table.File {
	t.Helper()
	key := l.Key(tbl.Location()) + "/data/" + name + ".parquet"
	if err := l.store.Put(t.Context(), key, strings.NewReader("PAR1"), smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	f, err := tbl.NewFile(smelt.DataFile{Path: key, Rows: 10, Bytes: 4, Partition: partitionOf(tbl, name)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// partitionOf makes up a file's partition from its name.
func partitionOf(tbl *table.Table, name string) map[string]any {
	n := int64(len(name)) + int64(name[len(name)-1])
	var out map[string]any
	for _, p := range tbl.Partition() {
		if out == nil {
			out = map[string]any{}
		}
		switch p.Column {
		case "event_time":
			out["event_time_"+p.Transform] = 20000 + n
		case "n":
			out["n"] = n
		default:
			out[p.Column] = "x" + name
			if strings.HasSuffix(name, "2") {
				out[p.Column] = nil
			}
		}
	}
	return out
}

// TestSeveralPartitionings makes every kind of commit over files of several
// partitionings, back and forth between them, while the type of a column that
// files are partitioned by is widened; and holds what the table says of its files
// against what was put there.
func TestSeveralPartitionings(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	day, hour := smelt.PartitionField{Transform: "day", Column: "event_time"}, smelt.PartitionField{Transform: "hour", Column: "event_time"}
	city, n := smelt.PartitionField{Transform: "identity", Column: "city"}, smelt.PartitionField{Transform: "identity", Column: "n"}
	partitionings := [][]smelt.PartitionField{{day}, {day, city}, {city}, {n, hour}, nil, {hour}, {city, n, day}}

	l := newLake(t)
	def := readings()
	def.Columns = append(def.Columns, smelt.Column{Name: "n", Type: typ("integer")})
	def.Partition = partitionings[0]
	tbl := create(t, l, "silver.a", def)
	want := map[string]map[string]any{}
	const commits, widenAt = 120, 50
	for i := range commits {
		if i == widenAt {
			def.Columns[3].Type = typ("bigint")
		}
		if i == widenAt || random.IntN(6) == 0 {
			def.Partition = partitionings[random.IntN(len(partitionings))]
			var err error
			if tbl, err = l.Evolve(t.Context(), "silver.a", def); err != nil {
				t.Fatalf("commit %d, to %v: %v", i, def.Partition, err)
			}
		}
		var c table.Change
		for j := range 1 + random.IntN(3) {
			f := place(t, l, tbl, fmt.Sprintf("f%03d-%d", i, j))
			c.Add = append(c.Add, f)
			want[f.Key] = partitionOf(tbl, fmt.Sprintf("f%03d-%d", i, j))
		}
		if kind := random.IntN(3); kind > 0 && i > 0 {
			there, err := tbl.Files(t.Context(), head(t, tbl))
			if err != nil {
				t.Fatal(err)
			}
			random.Shuffle(len(there), func(i, j int) { there[i], there[j] = there[j], there[i] })
			c.Remove, c.Replace = there[:min(1+random.IntN(3), len(there))], kind == 1
			if c.Replace { // in the partition of one of them, be it of a partitioning of before
				key := fmt.Sprintf("silver/a/data/merged-%03d.parquet", i)
				merged, err := tbl.Rewritten(there[0], smelt.DataFile{Path: key, Rows: 10, Bytes: 4})
				if err != nil {
					t.Fatal(err)
				}
				if err := l.store.Put(t.Context(), key, strings.NewReader("PAR1"), smelt.PutOptions{}); err != nil {
					t.Fatal(err)
				}
				c.Add, want[key] = append(c.Add, merged), there[0].Partition
			}
			for _, f := range c.Remove {
				delete(want, f.Key)
			}
		}
		tbl = commit(t, tbl, c)
		if random.IntN(10) == 0 {
			var err error
			if tbl, err = tbl.RewriteManifests(t.Context()); err != nil {
				t.Fatalf("commit %d: %v", i, err)
			}
		}

		fresh, err := table.Open(l.store, l.catalog, "s3://lake").Load(t.Context(), "silver.a") // nothing cached
		if err != nil {
			t.Fatal(err)
		}
		got, err := fresh.Files(t.Context(), head(t, fresh))
		if err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
		has := map[string]map[string]any{}
		for _, f := range got {
			has[f.Key] = f.Partition
		}
		if !reflect.DeepEqual(has, want) {
			t.Fatalf("commit %d: partitions\n got %v\nwant %v", i, has, want)
		}
	}
	_, err := l.Expire(t.Context(), "silver.a", table.Retention{Last: 1, Grace: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if _, err := l.store.Stat(t.Context(), key); err != nil {
			t.Errorf("after expiry %s: %v", key, err)
		}
	}
}
