package inspect_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/table"
	"smelt/pipeline"
)

// world is a lake in memory with a line that works on it.
type world struct {
	*pipetest.Lake
	line     *line.Line
	pipeline *smelt.Pipeline
	duck     *duck.DB
	from     time.Time // of the first reading that is sent
}

const declaration = `source: {kafka: readings}
events:
  time: seen
  columns:
    sensor: varchar not null
    value:  double not null
    seen:   timestamptz not null
references:
  places: {table: public.places, key: sensor, on: sensor}
silver:
  partition: day(seen)
gold:
  hourly: {window: 1h, column: hour}
`

const silverSQL = `SELECT sensor, seen, value, places.city AS city, _partition_id, _partition_offset
FROM bronze.readings LEFT JOIN reference.places USING (sensor)`

// The sum of doubles depends on the order of its terms, which DuckDB is free to choose.
const hourlySQL = `SELECT date_trunc('hour', seen) AS hour, city, count(*) AS readings, sum(value) AS total
FROM silver.readings GROUP BY ALL`

func newWorld(t *testing.T) *world {
	t.Helper()
	p, err := pipeline.Read(fstest.MapFS{
		"readings/pipeline.yml": {Data: []byte(declaration)},
		"readings/silver.sql":   {Data: []byte(silverSQL)},
		"readings/hourly.sql":   {Data: []byte(hourlySQL)},
	}, "readings")
	if err != nil {
		t.Fatal(err)
	}
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	lake, err := pipetest.NewLake(db, 2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	varchar := smelt.Type{Name: "varchar"}
	lake.References.Set("places", []smelt.Column{{Name: "sensor", Type: varchar}, {Name: "city", Type: varchar}}, [][]any{{"a", "Espoo"}})
	l, err := line.Open(t.Context(), p, lake.Parts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), lake.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return &world{lake, l, p, db, noon}
}

// noon is when the first reading is.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// send appends records to a partition: readings a minute apart, of sensor a and
// of one that has no place; "-" is a tombstone and "!" no JSON.
func (w *world) send(partition int32, kinds string) {
	for i, kind := range kinds {
		at := w.from.Add(time.Duration(i) * time.Minute)
		r := smelt.Record{Partition: partition, Timestamp: at.UnixMilli()}
		switch kind {
		case '-':
		case '!':
			r.Value = []byte("{")
		default:
			r.Value = fmt.Appendf(nil, `{"sensor":"%c","value":%d.1,"seen":%q}`, kind, i, at.Format(time.RFC3339))
		}
		w.Topic.Append(r)
	}
}

// drain brings what was sent through, in one bronze object a partition.
func (w *world) drain(t *testing.T) {
	t.Helper()
	if err := pipetest.Drain(t.Context(), w.line); err != nil {
		t.Fatal(err)
	}
}

// healthy is a lake with two objects in each chain.
func healthy(t *testing.T) *world {
	w := newWorld(t)
	w.send(0, "aaz!-")
	w.send(1, "a!")
	w.drain(t)
	w.send(0, "aa")
	w.send(1, "z-")
	w.drain(t)
	return w
}

func (w *world) verifier() inspect.Verifier {
	return inspect.Verifier{Area: w.Parts.Area, Duck: w.duck, RecordMax: bronze.DefaultRecordMax}
}

func (w *world) verify(t *testing.T) inspect.Verdict {
	t.Helper()
	return w.verifyBy(t, w.verifier())
}

func (w *world) verifyBy(t *testing.T, by inspect.Verifier) inspect.Verdict {
	t.Helper()
	v, err := by.Verify(t.Context(), w.pipeline)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (w *world) load(t *testing.T, name string) *table.Table {
	t.Helper()
	tbl, err := w.Parts.Area.Lake.Load(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

func filesOf(t *testing.T, tbl *table.Table) []table.File {
	t.Helper()
	current, ok := tbl.Current()
	if !ok {
		t.Fatalf("%s has no snapshot", tbl.Name())
	}
	files, err := tbl.Files(t.Context(), current.ID)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// rewrite replaces all files of a table by what a query over its rows gives, as
// another program would.
func (w *world) rewrite(t *testing.T, name, query string) {
	t.Helper()
	ctx, tbl := t.Context(), w.load(t, name)
	old := filesOf(t, tbl)
	paths, release, err := w.Parts.Area.Fetch(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	session, err := w.duck.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Exec(ctx, "CREATE TABLE work.t AS FROM "+duck.ReadParquet(tbl.Columns(), paths), "CREATE TABLE work.changed AS "+query); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	written, err := session.WriteParquet(ctx, "work.changed", dir, duck.Layout{FieldIDs: tbl.FieldIDs(), Partition: duck.PartitionValues(tbl.Partition())})
	if err != nil {
		t.Fatal(err)
	}
	change := table.Change{Remove: old}
	for _, f := range written {
		change.Add = append(change.Add, w.upload(t, tbl, f))
	}
	if _, err := tbl.Commit(ctx, change); err != nil {
		t.Fatal(err)
	}
}

func (w *world) upload(t *testing.T, tbl *table.Table, f smelt.DataFile) table.File {
	t.Helper()
	local, err := os.Open(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	f.Path = w.Parts.Area.Lake.Key(tbl.Location()) + "/data/" + strings.ReplaceAll(filepath.ToSlash(f.Path[1:]), "/", "-")
	if err := w.Parts.Area.Store.Put(t.Context(), f.Path, local, smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	file, err := tbl.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// objects lists the keys of a partition of bronze.
func (w *world) objects(t *testing.T, partition int32) (keys []string) {
	t.Helper()
	list, err := w.Parts.Area.Store.List(t.Context(), bronze.PartitionPrefix("readings", partition), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		keys = append(keys, o.Key)
	}
	return keys
}

func (w *world) delete(t *testing.T, key string) {
	t.Helper()
	if err := w.Parts.Area.Store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// receipt is the line without what depends on the clock.
func receipt(r inspect.Receipt) string {
	text, _, _ := strings.Cut(r.String(), "  fresh ")
	return text
}

func TestVerifyHealthy(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	v := w.verify(t)
	if err := v.Err(); err != nil {
		t.Fatalf("%v: %+v", err, v.Mismatches)
	}
	if got, want := receipt(v.Receipt), "bronze 11 = silver 7 + quarantine 2 + tombstones 2 ✓  gold 7 ✓"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if v.Unmatched != 2 || v.Quarantined["not json"] != 2 || v.FreshSeconds == nil {
		t.Errorf("got %+v", v)
	}

	// Records in bronze that silver has not read yet are not a mismatch.
	w.send(1, "aa!")
	if _, err := w.line.Bronze.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	v = w.verify(t)
	if err := v.Err(); err != nil {
		t.Fatalf("%v: %+v", err, v.Mismatches)
	}
	const want = "bronze 11 = silver 7 + quarantine 2 + tombstones 2 ✓  + 3 on their way  gold 7 ✓"
	if got := receipt(v.Receipt); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r, err := inspect.Count(t.Context(), w.Parts.Area.Store, w.Parts.Area.Lake, w.pipeline, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := receipt(r); got != want {
		t.Errorf("the receipt that is read: got  %s\nwant %s", got, want)
	}
	if !r.Ready().All() {
		t.Errorf("not ready: %+v", r)
	}

	// Gold that is behind silver equals its SQL over silver as it was.
	if _, err := w.line.Silver.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	v = w.verify(t)
	if got, want := receipt(v.Receipt), "bronze 14 = silver 9 + quarantine 3 + tombstones 2 ✓  gold 7 ✓"; got != want || v.Err() != nil {
		t.Errorf("got  %s %+v\nwant %s", got, v.Mismatches, want)
	}
}

func TestVerifyNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.verify(t)
	if got, want := receipt(v.Receipt), "bronze 0 = silver 0 + quarantine 0 ✓  gold is empty"; got != want || v.Err() != nil {
		t.Errorf("got  %s %+v\nwant %s", got, v.Mismatches, want)
	}
	r, err := inspect.Count(t.Context(), w.Parts.Area.Store, w.Parts.Area.Lake, w.pipeline, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if r.Ready() != (inspect.Ready{}) {
		t.Errorf("ready: %+v", r)
	}
}

func TestVerifyMismatches(t *testing.T) {
	t.Parallel()
	const (
		whole = "bronze 11 = silver 7 + quarantine 2 + tombstones 2 "
		mend  = " Something other than smelt has changed silver.readings: roll it back to the snapshot before (its position goes back along), and the pipeline reads bronze again from there."
		note  = " If nothing else is reported, the data is complete and only this count is wrong."
		gold  = "in the windows of 2026-11-29 12:00:00+00 and perhaps others. Something other than smelt has changed it: drop the table, and the pipeline computes it again."
	)
	for _, test := range []struct {
		name    string
		harm    func(*testing.T, *world)
		receipt string
		says    []string
	}{
		{
			name: "silver rows deleted",
			harm: func(t *testing.T, w *world) {
				w.rewrite(t, "silver.readings", "FROM work.t WHERE NOT (_partition_id = 0 AND _partition_offset IN (1, 5))")
			},
			receipt: "bronze 11 = silver 5 + quarantine 2 + tombstones 2 ✗  gold 7 ✓",
			says: []string{
				"2 records of bronze.readings in neither silver.readings nor quarantine.readings, although silver has read past: 0:1, 0:5." + mend,
				"The ledger of silver.readings notes 7 rows, but 5 were counted." + note,
			},
		},
		{
			name: "a silver row twice",
			harm: func(t *testing.T, w *world) {
				w.rewrite(t, "silver.readings", "FROM work.t UNION ALL FROM work.t WHERE _partition_id = 1 AND _partition_offset = 0")
			},
			receipt: "bronze 11 = silver 8 + quarantine 2 + tombstones 2 ✗  gold 7 ✓",
			says: []string{
				"1 record with more than one row in silver.readings: 1:0." + mend,
				"The ledger of silver.readings notes 7 rows, but 8 were counted." + note,
			},
		},
		{
			name: "a silver row of no record, one of a tombstone and one beyond the position",
			harm: func(t *testing.T, w *world) {
				w.rewrite(t, "silver.readings", `FROM work.t UNION ALL SELECT * REPLACE (CASE _partition_offset WHEN 0 THEN 7 WHEN 1 THEN 0 ELSE 0 END AS _partition_id,
					CASE _partition_offset WHEN 0 THEN 3 WHEN 1 THEN 4 ELSE 99 END AS _partition_offset) FROM work.t WHERE _partition_id = 0 AND _partition_offset < 3`)
			},
			receipt: "bronze 11 = silver 10 + quarantine 2 + tombstones 2 ✗  gold 7 ✓",
			says: []string{
				"1 record without a value (tombstones), yet with a row in silver.readings or quarantine.readings: 0:4. No stop or restart can do this, so it is a bug in smelt: please report it with this output.",
				"1 record with a row in silver.readings, but not in bronze.readings: 7:3." + mend,
				"1 record with a row in silver.readings beyond the position that it notes, so that they will be read again: 0:99." + mend,
				"The ledger of silver.readings notes 7 rows, but 10 were counted." + note,
				"The ledger of silver.readings notes 2 rows that found no reference row, but 3 were counted." + note,
			},
		},
		{
			name: "a quarantine file forgotten",
			harm: func(t *testing.T, w *world) {
				q := w.load(t, "quarantine.readings")
				l, _, _, err := ledger.Read[ledger.Quarantine](q)
				if err != nil {
					t.Fatal(err)
				}
				change := table.Change{Remove: filesOf(t, q)[:1]}
				if err := ledger.Write(&change, l); err != nil {
					t.Fatal(err)
				}
				if _, err := q.Commit(t.Context(), change); err != nil {
					t.Fatal(err)
				}
			},
			receipt: "bronze 11 = silver 7 + quarantine 0 + tombstones 2 ✗  gold 7 ✓",
			says: []string{
				"2 records of bronze.readings in neither silver.readings nor quarantine.readings, although silver has read past: 0:3, 1:1." + mend,
				`The ledger of silver.readings notes 2 rejects with the reason "not json", but 0 were counted.` + note,
			},
		},
		{
			name: "rows of silver in quarantine too, and one of quarantine twice",
			harm: func(t *testing.T, w *world) {
				w.rewrite(t, "quarantine.readings", "FROM work.t UNION ALL SELECT * REPLACE (0 AS _partition_offset) FROM work.t WHERE _partition_id = 0 UNION ALL FROM work.t WHERE _partition_id = 1")
			},
			receipt: "bronze 11 = silver 7 + quarantine 4 + tombstones 2 ✗  gold 7 ✓",
			says: []string{
				"1 record with more than one row in quarantine.readings: 1:1. Something other than smelt has changed quarantine.readings: roll silver.readings back to the snapshot before; quarantine follows, and the pipeline reads bronze again from there.",
				"1 record in both silver.readings and quarantine.readings: 0:0. No stop or restart can do this, so it is a bug in smelt: please report it with this output.",
				`The ledger of silver.readings notes 2 rejects with the reason "not json", but 4 were counted.` + note,
			},
		},
		{
			name: "silver rolled back alone, and the pipeline does not run",
			harm: func(t *testing.T, w *world) {
				before := w.load(t, "silver.readings")
				l, _, _, err := ledger.Read[ledger.Silver](before)
				if err != nil {
					t.Fatal(err)
				}
				w.send(0, "!a")
				w.drain(t)
				properties, err := ledger.Properties(l)
				if err != nil {
					t.Fatal(err)
				}
				current, _ := before.Current()
				if _, err := w.load(t, "silver.readings").Rollback(t.Context(), current.ID, properties, ""); err != nil {
					t.Fatal(err)
				}
			},
			receipt: "bronze 11 = silver 7 + quarantine 3 + tombstones 2 ✗  + 2 on their way  gold 8 ✓",
			says: []string{
				"1 record with a row in quarantine.readings beyond silver's position, so that they will be read again: 0:7. Something other than smelt has rolled back silver.readings or quarantine.readings. The pipeline's next step brings quarantine to where silver is: start it, and verify again.",
			},
		},
		{
			name:    "a bronze object in the middle is gone",
			harm:    func(t *testing.T, w *world) { w.send(0, "a"); w.drain(t); w.delete(t, w.objects(t, 0)[1]) },
			receipt: "bronze 9 = silver 8 + quarantine 2 + tombstones 2 ✗  gold 8 ✓",
			says: []string{
				"Partition 0 of bronze cannot be read beyond offset 5: break in the chain of bronze objects: bronze/readings/0/00000000000000000000.ndjson.zst ends at 5, but the next object is bronze/readings/0/00000000000000000007.ndjson.zst. Restore the object from a backup or an older version of it in the bucket.",
				"3 records of silver.readings and quarantine.readings that could not be looked up, since bronze cannot be read so far: 0:5, 0:6, 0:7. Mend bronze first.",
				"The ledger of silver.readings notes 12 records read from bronze, but 9 were counted." + note,
			},
		},
		{
			name:    "the last bronze object is gone",
			harm:    func(t *testing.T, w *world) { w.delete(t, w.objects(t, 0)[1]) },
			receipt: "bronze 9 = silver 7 + quarantine 2 + tombstones 2 ✗  gold 7 ✓",
			says: []string{
				"Partition 0 of bronze ends at offset 5, but silver has read up to 7: objects are missing at its end. Restore them from a backup or from older versions in the bucket.",
				"2 records with a row in silver.readings, but not in bronze.readings: 0:5, 0:6. Mend bronze first.",
				"The ledger of silver.readings notes 11 records read from bronze, but 9 were counted." + note,
			},
		},
		{
			name:    "the first bronze object is gone",
			harm:    func(t *testing.T, w *world) { w.delete(t, w.objects(t, 1)[0]) },
			receipt: "bronze 9 = silver 7 + quarantine 2 + tombstones 2 ✗  gold 7 ✓",
			says: []string{
				"Partition 1 of bronze has 2 records up to offset 4, but its objects count 4: objects are missing at its beginning, or lines were changed. Restore them from a backup or from older versions in the bucket.",
				"1 record with a row in silver.readings, but not in bronze.readings: 1:0. Mend bronze first.",
				"1 record with a row in quarantine.readings, but not in bronze.readings: 1:1. Mend bronze first.",
				"The ledger of silver.readings notes 11 records read from bronze, but 9 were counted." + note,
			},
		},
		{
			name: "a gold row changed",
			harm: func(t *testing.T, w *world) {
				w.rewrite(t, "gold.readings_hourly", "SELECT * REPLACE (CASE city WHEN 'Espoo' THEN readings + 1 ELSE readings END AS readings) FROM work.t")
			},
			receipt: whole + "✓  gold 7 ✗",
			says:    []string{"gold.readings_hourly differs from hourly.sql over silver: it lacks 1 row and has 1 row that the SQL does not return, " + gold},
		},
		{
			name: "a gold sum that is off",
			harm: func(t *testing.T, w *world) {
				w.rewrite(t, "gold.readings_hourly", "SELECT * REPLACE (CASE city WHEN 'Espoo' THEN total + 0.0001 ELSE total END AS total) FROM work.t")
			},
			receipt: whole + "✓  gold 7 ✗",
			says:    []string{"gold.readings_hourly differs from hourly.sql over silver: it lacks 1 row and has 1 row that the SQL does not return, " + gold},
		},
		{
			name: "a gold row missing",
			harm: func(t *testing.T, w *world) {
				w.rewrite(t, "gold.readings_hourly", "FROM work.t WHERE city IS NULL")
			},
			receipt: whole + "✓  gold 7 ✗",
			says:    []string{"gold.readings_hourly differs from hourly.sql over silver: it lacks 1 row and has 0 rows that the SQL does not return, " + gold},
		},
		{
			name: "a gold row twice",
			harm: func(t *testing.T, w *world) {
				w.rewrite(t, "gold.readings_hourly", "FROM work.t UNION ALL FROM work.t WHERE city = 'Espoo'")
			},
			receipt: whole + "✓  gold 7 ✗",
			says:    []string{"gold.readings_hourly differs from hourly.sql over silver: it lacks 0 rows and has 1 row that the SQL does not return, " + gold},
		},
		{
			name: "a gold sum that is off by its last bits",
			harm: func(t *testing.T, w *world) {
				w.rewrite(t, "gold.readings_hourly", "SELECT * REPLACE (total * (1 + 1e-13) AS total) FROM work.t")
			},
			receipt: whole + "✓  gold 7 ✓",
		},
		{
			name:    "another gold SQL",
			harm:    func(t *testing.T, w *world) { w.pipeline.Gold[0].SQL += " " },
			receipt: whole + "✓  gold 7 ✗",
			says:    []string{"gold.readings_hourly was computed by another version of hourly.sql: smelt run computes it again."},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := healthy(t)
			test.harm(t, w)
			v := w.verify(t)
			if got := receipt(v.Receipt); got != test.receipt {
				t.Errorf("got  %s\nwant %s", got, test.receipt)
			}
			var says []string
			for _, m := range v.Mismatches {
				says = append(says, m.Message)
			}
			if got, want := strings.Join(says, "\n"), strings.Join(test.says, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if failed := errors.Is(v.Err(), smelt.ErrVerify); failed != (len(test.says) > 0) {
				t.Errorf("err: %v", v.Err())
			}
		})
	}
}

// relabel rewrites a ledger with a change.
func relabel[L ledger.Silver | ledger.Gold](t *testing.T, w *world, name string, change func(*L)) {
	t.Helper()
	tbl := w.load(t, name)
	l, _, _, err := ledger.Read[L](tbl)
	if err != nil {
		t.Fatal(err)
	}
	change(&l)
	var c table.Change
	if err := ledger.Write(&c, l); err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// finds wants a mismatch of some records or rows among those of a lake.
func (w *world) finds(t *testing.T, check, table string, count int64) {
	t.Helper()
	v := w.verify(t)
	if !slices.ContainsFunc(v.Mismatches, func(m inspect.Mismatch) bool { return m.Check == check && m.Table == table && m.Count == count }) {
		t.Errorf("got %+v, want %s in %s, of %d", v.Mismatches, check, table, count)
	}
}

// Lines that are twice in an object are found although the object counts them so.
func TestVerifyLinesTwice(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	key, lake := w.objects(t, 0)[1], w.Parts.Area.Store
	body, o, err := lake.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	once, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	add := func(field, what string) {
		n, err := strconv.Atoi(o.Meta[field])
		if err != nil {
			t.Fatal(err)
		}
		more, err := strconv.Atoi(o.Meta[what])
		if err != nil {
			t.Fatal(err)
		}
		o.Meta[field] = strconv.Itoa(n + more)
	}
	for _, counted := range []string{"count", "bytes"} {
		add("chain-"+counted, counted)
		add(counted, counted)
	}
	if err := lake.Put(t.Context(), key, bytes.NewReader(append(once, once...)), smelt.PutOptions{Meta: o.Meta}); err != nil {
		t.Fatal(err)
	}
	w.finds(t, "repeated", "bronze.readings", 2)
}

// That retention took out a row does not account for two that are lost.
func TestVerifyLostBesideRetired(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	w.rewrite(t, "silver.readings", "FROM work.t WHERE NOT (_partition_id = 0 AND _partition_offset IN (1, 5))")
	relabel(t, w, "silver.readings", func(l *ledger.Silver) { l.Retired = 1 })
	w.finds(t, "lost", "silver.readings", 1)
}

// What gold notes of silver is held against silver.
func TestVerifyGoldNote(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	relabel(t, w, "gold.readings_hourly", func(l *ledger.Gold) { l.SilverRows-- })
	w.finds(t, "ledger", "gold.readings_hourly", 1)
}
