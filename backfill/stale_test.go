package backfill_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/table"
	"smelt/pipeline"
	"smelt/silver"
)

// staleWorld is a lake in memory whose readings have a place and a unit. Silver
// has the key of the places, but not that of the units.
type staleWorld struct {
	*pipetest.Lake
	line  *line.Line
	stale *backfill.Stale
	opens int // how often silver was to be read
}

func setupStale(t *testing.T) *staleWorld {
	t.Helper()
	p, err := pipeline.Read(fstest.MapFS{
		"readings/pipeline.yml": {Data: []byte(`source: {kafka: readings}
events:
  time: seen
  columns: {sensor: varchar not null, unit: varchar not null, seen: timestamptz not null}
references:
  places: {table: public.places, key: sensor, on: sensor}
  units:  {table: public.units, key: unit, on: unit}
`)},
		"readings/silver.sql": {Data: []byte(`SELECT sensor, seen, places.city AS city, units.name AS unit_name, _partition_id, _partition_offset
FROM bronze.readings LEFT JOIN reference.places USING (sensor) LEFT JOIN reference.units USING (unit)`)},
	}, "readings")
	if err != nil {
		t.Fatal(err)
	}
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	lake, err := pipetest.NewLake(db, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := &staleWorld{Lake: lake}
	w.places("a=Espoo", "b=Bergen")
	w.units("C=Celsius")
	if w.line, err = line.Open(t.Context(), p, lake.Parts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.line.Close(), lake.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := w.line.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.stale = backfill.NewStale(p, lake.References, func(context.Context) (silver.Config, error) {
		w.opens++
		return line.SilverConfig(p, lake.Parts), nil
	})
	return w
}

func (w *staleWorld) places(rows ...string) { w.set("places", "sensor", "city", rows) }
func (w *staleWorld) units(rows ...string)  { w.set("units", "unit", "name", rows) }

func (w *staleWorld) set(name, key, value string, rows []string) {
	varchar := smelt.Type{Name: "varchar"}
	var content [][]any
	for _, r := range rows {
		content = append(content, []any{r[:1], r[2:]})
	}
	w.References.Set(name, []smelt.Column{{Name: key, Type: varchar}, {Name: value, Type: varchar}}, content)
}

// send brings readings of sensors through to silver.
func (w *staleWorld) send(t *testing.T, sensors string) {
	t.Helper()
	for i, sensor := range sensors {
		at := time.Date(2026, 11, 29, 12, i, 0, 0, time.UTC)
		w.Topic.Append(smelt.Record{Timestamp: at.UnixMilli(), Value: fmt.Appendf(nil, `{"sensor":"%c","unit":"C","seen":%q}`, sensor, at.Format(time.RFC3339))})
	}
	if err := pipetest.Drain(t.Context(), w.line); err != nil {
		t.Fatal(err)
	}
}

func (w *staleWorld) silver(t *testing.T) *table.Table {
	t.Helper()
	tbl, err := w.Parts.Area.Lake.Load(t.Context(), silver.TableName("readings"))
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

func (w *staleWorld) expect(t *testing.T, when string, opens int, want ...backfill.StaleRows) {
	t.Helper()
	got, err := w.stale.Count(t.Context(), w.silver(t))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", when, got, want)
	}
	if w.opens != opens {
		t.Errorf("%s: silver was to be read %d times, want %d", when, w.opens, opens)
	}
}

func (w *staleWorld) correct(t *testing.T) backfill.Result {
	t.Helper()
	job, err := backfill.Open(t.Context(), w.line.Silver.Config, backfill.Scope{ReferenceChanges: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := job.Run(t.Context(), nil)
	if err := errors.Join(err, job.Close()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStale(t *testing.T) {
	t.Parallel()
	w := setupStale(t)
	w.expect(t, "a table that is there from the beginning", 0)
	w.send(t, "aabz")
	w.expect(t, "rows of the newest version", 0)

	places := func(rows, unmatched int64) backfill.StaleRows {
		return backfill.StaleRows{Reference: "places", Rows: rows, Unmatched: unmatched, Exact: true}
	}
	w.places("a=Helsinki", "b=Bergen")
	w.expect(t, "a corrected row", 1, places(2, 0))
	w.expect(t, "the same again", 1, places(2, 0))
	w.send(t, "aaa")
	w.expect(t, "newer rows, in files that need not be read", 1, places(2, 0))
	w.places("a=Helsinki", "z=Zagreb")
	w.expect(t, "a row that is gone, and one that came", 2, places(3, 1))

	if r := w.correct(t); r.Differing != 4 {
		t.Errorf("the backfill changed %d rows, want the 4 that were counted", r.Differing)
	}
	w.expect(t, "corrected", 2)
	w.places("a=Helsinki", "z=Zagreb", "q=Quito")
	w.expect(t, "a new key that no row has", 3)
	w.send(t, "q")
	w.expect(t, "and then one has it, with its row", 3)

	w.units("C=Centigrade")
	w.expect(t, "a reference whose key silver does not have", 4, backfill.StaleRows{Reference: "units", Rows: 8, Exact: true})
	w.send(t, "a")
	w.places("a=Vantaa")
	w.expect(t, "a correction, and two rows that are gone", 5, places(8, 0), backfill.StaleRows{Reference: "units", Rows: 8, Exact: true})
}

// What is too much to be read is not: all rows of files that may have such rows
// are an upper bound.
func TestStaleTooMuch(t *testing.T) {
	t.Parallel()
	w := setupStale(t)
	w.send(t, "abz")
	w.places("a=Helsinki", "b=Bergen")
	w.send(t, "a")
	w.stale.AtMost(1)
	w.expect(t, "too much", 0, backfill.StaleRows{Reference: "places", Rows: 3})
	w.stale.AtMost(1 << 20)
	w.send(t, "b")
	w.expect(t, "not too much", 1, backfill.StaleRows{Reference: "places", Rows: 1, Exact: true})
}

func TestStaleNotReadable(t *testing.T) {
	t.Parallel()
	w := setupStale(t)
	w.send(t, "ab")
	w.places("a=Helsinki", "b=Bergen")
	down := errors.New("no room on the disk")
	closed := backfill.NewStale(w.line.Pipeline, w.References, func(context.Context) (silver.Config, error) { return silver.Config{}, down })
	if _, err := closed.Count(t.Context(), w.silver(t)); !errors.Is(err, down) {
		t.Errorf("got %v, want %v", err, down)
	}
}

// Where the store is slow the rows that were not counted in time are an upper
// bound, and are counted the next time.
func TestStaleLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testStaleLate)
}

func testStaleLate(t *testing.T) {
	w := setupStale(t)
	w.send(t, "ab")
	w.places("a=Helsinki", "b=Bergen")
	slow := true
	late := backfill.NewStale(w.line.Pipeline, w.References, func(ctx context.Context) (silver.Config, error) {
		if slow {
			slow = false
			<-ctx.Done()
			return silver.Config{}, ctx.Err()
		}
		return line.SilverConfig(w.line.Pipeline, w.Parts), nil
	})
	for _, want := range []backfill.StaleRows{{Reference: "places", Rows: 2}, {Reference: "places", Rows: 1, Exact: true}} {
		got, err := late.Count(t.Context(), w.silver(t))
		if err != nil || !reflect.DeepEqual(got, []backfill.StaleRows{want}) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}
