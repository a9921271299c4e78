package bronze_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

// positions are where the chains end: silver has read all.
func positions(t *testing.T, lake smelt.Store) map[int32]int64 {
	t.Helper()
	r := bronze.NewReader(lake, "p")
	ids, err := r.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[int32]int64{}
	for _, id := range ids {
		last, err := r.Last(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		out[id] = last.End
	}
	return out
}

// plan plans with all that silver can have read.
func plan(t *testing.T, m *bronze.Merger, lake smelt.Store) bronze.MergePlan {
	t.Helper()
	p, err := m.Plan(t.Context(), positions(t, lake), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// work does all that a plan has, and says how many bytes were merged.
func work(t *testing.T, m *bronze.Merger, p bronze.MergePlan) (written int64) {
	t.Helper()
	for _, run := range p.Runs {
		o, err := m.Merge(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		written += o.Size
	}
	for _, l := range p.Leftovers {
		if err := m.Clean(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	return written
}

// keys are the objects of a partition, without what their names have in common.
func keys(t *testing.T, lake smelt.Store, partition int32) (out []string) {
	t.Helper()
	prefix := bronze.PartitionPrefix("p", partition)
	objects, err := lake.List(t.Context(), prefix, "", math.MaxInt)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(o.Key, prefix), ".ndjson.zst"), "-")
		for i := range parts {
			parts[i] = "0" + strings.TrimLeft(parts[i], "0")
			if len(parts[i]) > 1 {
				parts[i] = parts[i][1:]
			}
		}
		out = append(out, strings.Join(parts, "-"))
	}
	return out
}

// TestMergeHoursAndDays runs a stream of an event every 20 s for three days, which
// is merged every 20 minutes.
func TestMergeHoursAndDays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const every, days = 20 * time.Second, 3
		time.Sleep(10*time.Hour - 7*time.Minute) // not at midnight
		lake, tp := store.NewMemory(), newTopic()
		w, m := newWriter(t, "a", lake, tp), newMerger(t, lake)
		var written, merged int64
		most, began := 0, time.Now()
		for time.Since(began) < days*24*time.Hour {
			for range int(20 * time.Minute / every) {
				tp.produce(smelt.Record{Timestamp: time.Now().UnixMilli(), Value: fmt.Appendf(nil, `{"n":%d,"text":"some text that is much alike"}`, time.Now().Unix())}, 0)
				written += step(t, w).Bytes
				time.Sleep(every - bronze.DefaultFlush)
			}
			merged += work(t, m, plan(t, m, lake))
			most = max(most, len(keys(t, lake, 0)))
		}
		work(t, m, plan(t, m, lake))
		checkLake(t, lake, tp)
		// Three days before today, up to 23 hours, and up to two hours' and the grace
		// period's worth of the writer's objects, besides what was merged in that time.
		const want = 4 + 23 + 3*180
		objects := keys(t, lake, 0)
		t.Logf("%d records: %d objects at the end, %d at most; %d bytes were written, and %d merged", len(tp.records[0]), len(objects), most, written, merged)
		if merged > 2*written {
			t.Errorf("%d bytes were written by the writer, and %d by the merger: want twice as many at most", written, merged)
		}
		if most > want+24 || len(objects) > want {
			t.Errorf("%d objects at the end, %d at most, want no more than %d", len(objects), most, want)
		}
		old := 0
		for _, o := range objects {
			if strings.Contains(o, "-") {
				old++
			}
		}
		if old > 4+23+1 {
			t.Errorf("%d merged objects of three days: %v", old, objects)
		}
	})
}

func TestMergeMeta(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		w, m := newWriter(t, "a", lake, tp, func(c *bronze.Config) { c.RecordMax = 100 }), newMerger(t, lake)
		for i, value := range [][]byte{[]byte("1"), nil, bytes.Repeat([]byte("x"), 100), []byte("2"), []byte("3")} {
			tp.produce(smelt.Record{Timestamp: []int64{smelt.NoTimestamp, 70, 50, 60, 99}[i], Key: []byte("k"), Value: value}, int64(5*i))
			step(t, w)
		}
		before, metas := readAll(t, lake, 0)
		time.Sleep(time.Hour)
		p := plan(t, m, lake)
		if len(p.Runs) != 1 || p.Runs[0].Objects != 4 || p.Objects != 5 || len(p.Leftovers) != 0 {
			t.Fatalf("got %+v", p)
		}
		o, err := m.Merge(t.Context(), p.Runs[0])
		if err != nil {
			t.Fatal(err)
		}
		if again, err := newMerger(t, lake).Merge(t.Context(), p.Runs[0]); err != nil || again.Key != o.Key || again.Meta["writer"] != o.Meta["writer"] {
			t.Errorf("a second merger: %+v, %v", again, err)
		}
		after, got := readAll(t, lake, 0)
		if fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("got %v, want %v", after, before)
		}
		want := metas[3]
		want.Start, want.First, want.Members, want.Writer = 0, 0, 4, got[0].Writer
		want.Counts = bronze.Counts{Count: 4, Tombstones: 1, Oversize: 1, Bytes: want.Chain.Bytes}
		want.Longest = max(metas[0].Longest, metas[1].Longest, metas[2].Longest, metas[3].Longest)
		want.MinTimestamp, want.MaxTimestamp = 50, 70
		if len(got) != 2 || got[0] != want {
			t.Errorf("got %+v\nwant %+v", got[0], want)
		}
		// What it covers goes when it has been there for the grace period.
		if p := plan(t, m, lake); len(p.Runs)+len(p.Leftovers) != 0 {
			t.Errorf("at once: %+v", p)
		}
		time.Sleep(bronze.DefaultGrace)
		p = plan(t, m, lake)
		if len(p.Leftovers) != 1 || p.Leftovers[0].By != o.Key || len(p.Leftovers[0].Keys) != 4 {
			t.Fatalf("after the grace period: %+v", p)
		}
		work(t, m, p)
		if left := keys(t, lake, 0); len(left) != 2 {
			t.Errorf("left: %v", left)
		}
		if cleaned, _ := readAll(t, lake, 0); fmt.Sprint(cleaned) != fmt.Sprint(before) {
			t.Errorf("after cleaning: got %v, want %v", cleaned, before)
		}
	})
}

func TestMergeWaitsForSilver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		w, m := newWriter(t, "a", lake, tp), newMerger(t, lake)
		for range 10 {
			tp.fill(1, 1)
			step(t, w)
		}
		now := time.Now().Add(time.Hour)
		for below, want := range map[int64]int{0: 0, 8: 0, 9: 9, 1 << 40: 9} { // the last object is in none
			p, err := m.Plan(t.Context(), map[int32]int64{0: below}, now)
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, run := range p.Runs {
				got += run.Objects
			}
			if got != want {
				t.Errorf("silver at %d: %d objects are to be merged, want %d", below, got, want)
			}
		}
		if p, err := m.Plan(t.Context(), positions(t, lake), time.Now()); err != nil || len(p.Runs) != 0 {
			t.Errorf("an hour that is not over: %+v, %v", p, err)
		}
	})
}

// TestMergeLoses has a run whose members go before it is merged.
func TestMergeLoses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		v := newRiver(t, seeded(t), 10)
		time.Sleep(time.Hour)
		first, second := plan(t, v.merger, v.lake), plan(t, newMerger(t, v.lake), v.lake)
		wider := after(t, v.reader, -1, 1<<20)[:9]
		if _, err := v.merger.Merge(t.Context(), bronze.NewRun(0, wider)); err != nil {
			t.Fatal(err)
		}
		work(t, v.merger, first)
		time.Sleep(bronze.DefaultGrace)
		work(t, v.merger, plan(t, v.merger, v.lake))
		if len(keys(t, v.lake, 0)) != 2 {
			t.Fatalf("left: %v", keys(t, v.lake, 0))
		}
		narrower := slices.Clone(wider[:3])
		if _, err := v.merger.Merge(t.Context(), bronze.NewRun(0, narrower)); !errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("members that have gone: %v", err)
		}
		for _, l := range second.Leftovers {
			if err := v.merger.Clean(t.Context(), l); err != nil {
				t.Error(err)
			}
		}
		v.check()
	})
}

// TestCleanLoses has the merged object go, at the hands of another than smelt, before
// what it covers.
func TestCleanLoses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		v := newRiver(t, seeded(t), 5)
		time.Sleep(time.Hour)
		work(t, v.merger, plan(t, v.merger, v.lake))
		time.Sleep(bronze.DefaultGrace)
		p := plan(t, v.merger, v.lake)
		if len(p.Leftovers) != 1 {
			t.Fatalf("got %+v", p)
		}
		if err := v.lake.Delete(t.Context(), p.Leftovers[0].By); err != nil {
			t.Fatal(err)
		}
		if err := v.merger.Clean(t.Context(), p.Leftovers[0]); !errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		v.check()
	})
}

// TestMergeRefusesBreak: a chain that lacks an object is not merged or retired, since that would hide the
// loss.
func TestMergeRefusesBreak(t *testing.T) {
	bubble(t, func(t *testing.T) {
		v := newRiver(t, seeded(t), 5)
		if err := v.lake.Delete(t.Context(), after(t, v.reader, -1, 1<<20)[1].Key); err != nil {
			t.Fatal(err)
		}
		run := bronze.NewRun(0, after(t, v.reader, -1, 1<<20)[:2])
		if _, err := v.merger.Merge(t.Context(), run); !errors.Is(err, bronze.ErrBreak) {
			t.Errorf("merge: %v", err)
		}
		if _, _, err := v.merger.Retire(t.Context(), run, nil); !errors.Is(err, bronze.ErrBreak) {
			t.Errorf("retire: %v", err)
		}
		if left := keys(t, v.lake, 0); len(left) != 4 {
			t.Errorf("it wrote %v", left)
		}
	})
}

// TestMergeRefusesDamage has a member whose lines are not those that it should have.
func TestMergeRefusesDamage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		v := newRiver(t, seeded(t), 5)
		refs := after(t, v.reader, -1, 1<<20)[:3]
		swap(t, v.lake, refs[1].Key, refs[0].Key)
		if _, err := v.merger.Merge(t.Context(), bronze.NewRun(0, refs)); !errors.Is(err, smelt.ErrStore) {
			t.Errorf("got %v", err)
		}
		if left := keys(t, v.lake, 0); len(left) != 5 {
			t.Errorf("it wrote %v", left)
		}
	})
}

// swap gives an object the bytes of another, twice.
func swap(t *testing.T, lake smelt.Store, key, other string) {
	t.Helper()
	o, err := lake.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	body, _, err := lake.Get(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	twice := bytes.Repeat(b.Bytes(), 7)
	if err := lake.Put(t.Context(), key, bytes.NewReader(twice), smelt.PutOptions{Meta: o.Meta}); err != nil {
		t.Fatal(err)
	}
}

// TestMergerDies kills a merger before and after every call to the store, until one succeeds. The chain is
// complete each time.
func TestMergerDies(t *testing.T) {
	for _, fault := range []store.Fault{store.Crash, store.CrashAfter, store.FailAfter} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				v := newRiver(t, seeded(t), 12)
				before := positions(t, v.lake)
				for call := int64(0); ; call++ {
					if call > 1000 {
						t.Fatal("it never comes through")
					}
					dying, calls := dyingAt(v.lake, call, fault)
					time.Sleep(bronze.DefaultGrace)
					err := maintain(t.Context(), newMerger(t, dying), before)
					v.check()
					if err == nil && calls.Load() <= call {
						break
					}
				}
				if left := keys(t, v.lake, 0); len(left) > 3 {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

// dyingAt is a store with a fault at one of the calls that it counts.
func dyingAt(lake smelt.Store, call int64, fault store.Fault) (dying smelt.Store, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return store.NewFaulty(lake, func(store.Op) store.Fault {
		if calls.Add(1) == call+1 {
			return fault
		}
		return store.None
	}), calls
}

// maintain does all pending work.
func maintain(ctx context.Context, m *bronze.Merger, below map[int32]int64) error {
	p, err := m.Plan(ctx, below, time.Now())
	if err != nil {
		return err
	}
	for _, run := range p.Runs {
		if _, err := m.Merge(ctx, run); err != nil {
			return err
		}
	}
	for _, l := range p.Leftovers {
		if err := m.Clean(ctx, l); err != nil {
			return err
		}
	}
	return nil
}
