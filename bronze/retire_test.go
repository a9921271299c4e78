package bronze_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"smelt/bronze"
	"smelt/internal/store"
)

// offsets are those of the records that a chain still has.
func offsets(t *testing.T, lake *store.Memory) (out []int64) {
	t.Helper()
	r := bronze.NewReader(lake, "p")
	for position := int64(-1); ; {
		refs := after(t, r, position, 1)
		if len(refs) == 0 {
			return out
		}
		m, err := r.Lines(t.Context(), refs[0], func(line []byte) error {
			decoded, err := bronze.Decode(line)
			out = append(out, decoded.Record.Offset)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		position = m.End
	}
}

// TestRetire retires records three times and keeps some. The first time takes the very objects that were
// merged before.
func TestRetire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		w, m := newWriter(t, "a", lake, tp), newMerger(t, lake)
		var hours [][]int64 // offsets
		for range 3 {
			var of []int64
			for range 5 {
				tp.fill(1, 2)
				step(t, w)
				records := tp.records[0]
				of = append(of, records[len(records)-2].Offset, records[len(records)-1].Offset)
			}
			hours = append(hours, of)
			time.Sleep(time.Hour)
			work(t, m, plan(t, m, lake))
		}
		all := slices.Concat(hours...)
		retire := func(hour int, keep ...int64) bronze.Meta {
			t.Helper()
			before := time.Date(2000, 1, 1, hour, 0, 0, 0, time.UTC)
			runs, err := m.PlanRetire(t.Context(), positions(t, lake), before)
			if err != nil || len(runs) != 1 {
				t.Fatalf("before %v: %+v, %v", before, runs, err)
			}
			o, meta, err := m.Retire(t.Context(), runs[0], keep)
			if err != nil {
				t.Fatal(err)
			}
			if again, _, err := newMerger(t, lake).Retire(t.Context(), runs[0], keep); err != nil || again.Key != o.Key {
				t.Errorf("a second one: %+v, %v", again, err)
			}
			if runs, err := m.PlanRetire(t.Context(), positions(t, lake), before); err != nil || len(runs) != 0 {
				t.Errorf("it is done, and yet there is %+v, %v", runs, err)
			}
			return meta
		}
		check := func(meta bronze.Meta, of []int64, kept ...int64) {
			t.Helper()
			gone := int64(len(of) - len(kept))
			if meta.Count != int64(len(kept)) || meta.Retired.Count != gone || meta.Chain.Count != int64(len(of)) || meta.Start != 0 || meta.End != of[len(of)-1]+1 {
				t.Errorf("kept %v of %v: %+v", kept, of, meta)
			}
			if len(kept) > 0 && (meta.First != kept[0] || meta.Last != kept[len(kept)-1] || meta.Bytes == 0) {
				t.Errorf("kept %v: %+v", kept, meta)
			}
			want := slices.Concat(kept, all[len(of):])
			for range 2 {
				if got := offsets(t, lake); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				time.Sleep(bronze.DefaultGrace)
				work(t, m, plan(t, m, lake))
			}
			if last, err := bronze.NewReader(lake, "p").Last(t.Context(), 0); err != nil || last.Chain.Count != int64(len(all)) {
				t.Errorf("the end: %+v, %v", last, err)
			}
		}
		if runs, err := m.PlanRetire(t.Context(), map[int32]int64{0: all[3]}, time.Now()); err != nil || len(runs) != 0 {
			t.Errorf("below silver's position: %+v, %v", runs, err)
		}
		check(retire(1, all[2], all[3], all[14]), hours[0], all[2], all[3])
		check(retire(2, all[3], all[4], all[10], all[12]), all[:20], all[3], all[10], all[12]) // the fifth has gone already
		if n := len(keys(t, lake, 0)); n != 3 {
			t.Errorf("%d objects are left: %v", n, keys(t, lake, 0))
		}
		check(retire(23), all[:28]) // the last object stays
		if got := fmt.Sprint(keys(t, lake, 0)); got != fmt.Sprintf("[0-%d-retired %d]", all[27]+1, all[27]+1) {
			t.Errorf("left: %v", got)
		}
		n, last, err := bronze.NewReader(lake, "p").RetiredRecords(t.Context())
		if third := time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC); err != nil || n != 28 || last.Before(third) || last.After(third.Add(time.Hour)) {
			t.Errorf("%d records, the last one written at %s, went, %v: want 28, in the third hour", n, last, err)
		}
	})
}

// TestRetireDies kills a retirement before and after every call to the store. The chain has all records, or
// those to be kept.
func TestRetireDies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		v := newRiver(t, seeded(t), 9)
		v.merge()
		all := offsets(t, v.lake)
		below, keep := positions(t, v.lake), []int64{all[1], all[3]}
		lastAt := v.bounds[len(v.bounds)-2]
		want := slices.DeleteFunc(slices.Clone(all), func(offset int64) bool { return offset < lastAt && !slices.Contains(keep, offset) })
		for call := int64(0); ; call++ {
			dying, calls := dyingAt(v.lake, call, store.CrashAfter)
			time.Sleep(bronze.DefaultGrace)
			err := retire(t, newMerger(t, dying), below, keep)
			if got := offsets(t, v.lake); !slices.Equal(got, want) && !slices.Equal(got, all) {
				t.Fatalf("after %d calls: %v\nwant %v\nor %v", call, got, want, all)
			}
			if err == nil && calls.Load() <= call {
				break
			}
		}
		if got := offsets(t, v.lake); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if left := keys(t, v.lake, 0); len(left) != 2 {
			t.Errorf("left: %v", left)
		}
	})
}

func retire(t *testing.T, m *bronze.Merger, below map[int32]int64, keep []int64) error {
	runs, err := m.PlanRetire(t.Context(), below, time.Now())
	if err != nil {
		return err
	}
	for _, run := range runs {
		if _, _, err := m.Retire(t.Context(), run, keep); err != nil {
			return err
		}
	}
	p, err := m.Plan(t.Context(), nil, time.Now())
	if err != nil {
		return err
	}
	for _, l := range p.Leftovers {
		if err := m.Clean(t.Context(), l); err != nil {
			return err
		}
	}
	return nil
}

// TestDuckDBReadsNoLines reads what retirement leaves where it keeps nothing.
func TestDuckDBReadsNoLines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, codec := range []bronze.Codec{bronze.Zstd, bronze.Gzip} {
			lake, tp := store.NewMemory(), newTopic()
			w := newWriter(t, "a", lake, tp, func(c *bronze.Config) { c.Codec = codec })
			for range 3 {
				tp.fill(1, 1)
				step(t, w)
			}
			m := bronze.NewMerger(bronze.MergerConfig{Pipeline: "p", Store: lake, Codec: codec})
			if err := retire(t, m, positions(t, lake), nil); err != nil {
				t.Fatal(err)
			}
			duck := openLake(t)
			r := bronze.NewReader(lake, "p")
			ref := after(t, r, -1, 1)[0]
			duck.file += filepath.Ext(ref.Key)
			if _, err := r.Download(t.Context(), ref, duck.file); err != nil {
				t.Fatal(err)
			}
			for _, value := range []string{"JSON", "STRUCT(n BIGINT)"} {
				var n int
				if err := duck.db.QueryRow("SELECT count(*) " + duck.from(value)).Scan(&n); err != nil || n != 0 || !ref.Retired {
					t.Errorf("%s: %d lines, %v", ref.Key, n, err)
				}
			}
		}
	})
}
