package bronze_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

// bubble runs a test in a time of its own, in which waiting takes none.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Parallel()
	synctest.Test(t, f)
}

func TestWriterKeepsEveryRecord(t *testing.T) {
	for _, codec := range []bronze.Codec{bronze.Zstd, bronze.Gzip} {
		t.Run(string(codec), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				lake, tp := store.NewMemory(), newTopic()
				w := newWriter(t, "a", lake, tp, func(c *bronze.Config) { c.Codec, c.ObjectBytes = codec, 10_000 })
				tp.fill(12, 300)
				var n int64
				for n < 12*300 {
					n += step(t, w).Records
				}
				checkLake(t, lake, tp)
				if ids, err := bronze.NewReader(lake, "p").Partitions(t.Context()); err != nil || len(ids) != 12 {
					t.Errorf("partitions %v, %v", ids, err)
				}
				if got, want := tp.committed[3], tp.records[3][299].Offset+1; got != want {
					t.Errorf("committed %d, want %d", got, want)
				}
			})
		})
	}
}

func TestWriterMeta(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		w := newWriter(t, "a", lake, tp, func(c *bronze.Config) { c.RecordMax = 100 })
		for i, r := range []smelt.Record{
			{Timestamp: smelt.NoTimestamp, Value: []byte("1")},
			{Timestamp: 70, Value: nil},
			{Timestamp: 50, Key: []byte("k"), Value: bytes.Repeat([]byte("x"), 100)},
			{Timestamp: 60, Value: []byte("2")},
		} {
			tp.produce(r, int64(5*i))
		}
		step(t, w)
		lines, metas := readAll(t, lake, 0)
		m := metas[0]
		want := bronze.Meta{
			Counts: bronze.Counts{Count: 4, Tombstones: 1, Oversize: 1, Bytes: m.Bytes}, Chain: m.Counts,
			Start: 0, End: 34, First: 0, Last: 33, Longest: m.Longest, MinTimestamp: 50, MaxTimestamp: 70,
			Cluster: "cluster-1", Topic: "topic-1", Writer: "a-1", Written: m.Written,
		}
		if len(metas) != 1 || m != want {
			t.Errorf("got %+v, want %+v", metas, want)
		}
		if l := lines[2]; l.Kind != bronze.KindOversize || l.Size != 100 || string(l.Record.Key) != "k" {
			t.Errorf("oversize: %+v", l)
		}
	})
}

func TestWriterWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		w := newWriter(t, "a", lake, tp)
		began := time.Now()
		if progress := step(t, w); progress != (smelt.Progress{}) || time.Since(began) != bronze.DefaultFlush {
			t.Errorf("idle: %+v after %v", progress, time.Since(began))
		}
		if objects, _ := lake.List(t.Context(), "", "", 10); len(objects) != 0 {
			t.Errorf("idle wrote %v", objects)
		}
		tp.fill(1, 1)
		began = time.Now()
		if progress := step(t, w); progress.Records != 1 || time.Since(began) != bronze.DefaultFlush {
			t.Errorf("one record: %+v after %v", progress, time.Since(began))
		}
		tp.fill(1, 1)
		full := newWriter(t, "b", lake, tp, func(c *bronze.Config) { c.ObjectBytes = 1 })
		began = time.Now()
		if progress := step(t, full); progress.Records != 1 || time.Since(began) != 0 {
			t.Errorf("a full object: %+v after %v", progress, time.Since(began))
		}
	})
}

func TestWriterDrains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		w := newWriter(t, "a", lake, tp)
		tp.fill(2, 10)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(bronze.DefaultFlush/2, cancel)
		if progress, err := w.Step(ctx); err != nil || progress.Records != 20 {
			t.Errorf("%+v, %v", progress, err)
		}
		checkLake(t, lake, tp)
		if progress, err := w.Step(ctx); err != nil || progress != (smelt.Progress{}) {
			t.Errorf("after the end: %+v, %v", progress, err)
		}
	})
}

func TestWriterDrainIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := newTopic()
		w := newWriter(t, "a", stuck{store.NewMemory()}, tp)
		tp.fill(1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := time.AfterFunc(bronze.DefaultFlush+time.Minute, cancel)
		defer cancelled.Stop()
		began := time.Now()
		if _, err := w.Step(ctx); !errors.Is(err, smelt.ErrStore) || time.Since(began) > bronze.DefaultFlush+time.Minute+10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// stuck is a store whose puts hang.
type stuck struct{ smelt.Store }

func (s stuck) Put(ctx context.Context, _ string, _ io.ReadSeeker, _ smelt.PutOptions) error {
	<-ctx.Done()
	return ctx.Err()
}

// script makes a store whose first puts fail as listed.
func script(inner smelt.Store, faults ...store.Fault) *store.Faulty {
	var mu sync.Mutex
	return store.NewFaulty(inner, func(op store.Op) store.Fault {
		mu.Lock()
		defer mu.Unlock()
		if op.Name != "put" || len(faults) == 0 {
			return store.None
		}
		f := faults[0]
		faults = faults[1:]
		return f
	})
}

func TestWriterRepliesLost(t *testing.T) {
	before, after := store.FailBefore, store.FailAfter
	tests := []struct {
		name   string
		faults []store.Fault
		errors int // steps that fail
	}{
		{"reply lost", []store.Fault{after}, 0},
		{"request lost", []store.Fault{before}, 0},
		{"lost for a step", []store.Fault{before, before, before}, 1},
		{"reply lost, then the store is away", []store.Fault{after, before, before, before, before}, 1},
		{"away for long", []store.Fault{before, before, before, before, before, before, after, before, before}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				lake, tp := store.NewMemory(), newTopic()
				w := newWriter(t, "a", script(lake, tt.faults...), tp)
				tp.fill(1, 10)
				failed := 0
				for {
					_, err := w.Step(t.Context())
					if err == nil {
						break
					}
					if failed++; !errors.Is(err, smelt.ErrStore) {
						t.Errorf("not marked: %v", err)
					}
					if at := tp.committed[0]; at != 0 {
						t.Errorf("%d is committed, and nothing is known to be in the lake", at)
					}
					tp.fill(1, 1) // must not get into the object that is under way
				}
				if failed != tt.errors {
					t.Errorf("%d steps failed, want %d", failed, tt.errors)
				}
				if _, metas := readAll(t, lake, 0); len(metas) != 1 || metas[0].Count != 10 {
					t.Errorf("got %+v", metas)
				}
				step(t, w)
				checkLake(t, lake, tp)
			})
		})
	}
}

// TestWriterResumesAfterCrash kills the process right after a put, whose offset
// is not committed.
func TestWriterResumesAfterCrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		tp.fill(1, 10)
		if _, err := newWriter(t, "a", script(lake, store.CrashAfter), tp).Step(t.Context()); err == nil {
			t.Error("no error of a crash")
		}
		tp.fill(1, 10)
		if progress := step(t, newWriter(t, "b", lake, tp)); progress.Records != 10 {
			t.Errorf("got %+v, want the 10 new records", progress)
		}
		checkLake(t, lake, tp)
	})
}

// TestChainBeginsAtZero has retention move the log's start between two writers that
// begin a chain.
func TestChainBeginsAtZero(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		tp.fill(1, 10)
		var once atomic.Bool
		w := newWriter(t, "a", store.NewFaulty(lake, func(op store.Op) store.Fault {
			if op.Name == "put" && once.CompareAndSwap(false, true) {
				tp.start = tp.records[0][4].Offset
				step(t, newWriter(t, "b", lake, tp))
			}
			return store.None
		}), tp)
		step(t, w)
		if lines, metas := readAll(t, lake, 0); len(metas) != 1 || len(lines) != 6 || metas[0].Start != 0 {
			t.Errorf("%d records in %+v", len(lines), metas)
		}
	})
}

// TestWriterTakesRecordsOnce has a source give what it gave before.
func TestWriterTakesRecordsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		w := newWriter(t, "a", lake, tp)
		tp.fill(1, 5)
		tp.polled = func() { // once, while they are buffered
			tp.polled = nil
			tp.newest.next[0] = 0
		}
		step(t, w)
		tp.newest.next[0] = 0 // and once they are in the lake
		tp.fill(1, 5)
		step(t, w)
		checkLake(t, lake, tp)
	})
}

func TestTwoWritersAtOnePosition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		slow := newWriter(t, "slow", held{lake, 10 * time.Second}, tp)
		quick := newWriter(t, "quick", lake, tp)
		tp.fill(1, 10)
		var got smelt.Progress
		var wg sync.WaitGroup
		wg.Go(func() { got = step(t, slow) }) // has 10 records, and 5 more
		time.Sleep(time.Second)
		wg.Go(func() { step(t, quick) }) // has 10 records, and 5 more
		time.Sleep(bronze.DefaultFlush * 2)
		wg.Wait()
		if got.Records != 0 {
			t.Errorf("the slow one wrote %d of the other's records", got.Records)
		}
		tp.fill(1, 5)
		step(t, slow)
		tp.fill(1, 5)
		step(t, quick) // loses against what slow wrote, and goes on after it
		checkLake(t, lake, tp)
		if _, metas := readAll(t, lake, 0); len(metas) != 3 || !strings.HasPrefix(metas[1].Writer, "slow-") || metas[2].Count != 5 {
			t.Errorf("got %+v", metas)
		}
	})
}

// held is a store whose puts take their time.
type held struct {
	smelt.Store
	time.Duration
}

func (h held) Put(ctx context.Context, key string, body io.ReadSeeker, opts smelt.PutOptions) error {
	time.Sleep(h.Duration)
	return h.Store.Put(ctx, key, body, opts)
}

// TestLatePut: a put that was given up arrives when the partition is assigned to the writer again. The writer
// puts its buffer first and finds that it exists. Later records go into another object.
func TestLatePut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		w := newWriter(t, "a", &late{Store: lake}, tp)
		tp.fill(1, 10)
		if _, err := w.Step(t.Context()); err == nil {
			t.Fatal("no error of puts that time out")
		}
		tp.fill(1, 5)
		end := tp.records[0][9].Offset + 1
		clear(tp.newest.next) // the source asks again where to resume
		if next, err := tp.newest.resume(t.Context(), 0, tp.newest.held(0)); err != nil || next != end {
			t.Fatalf("resume: %d, %v, want %d", next, err, end)
		}
		if progress := step(t, w); progress.Records != 10+5 {
			t.Errorf("got %+v, want the 10 records of the late object, and 5 more", progress)
		}
		checkLake(t, lake, tp)
	})
}

// late is a store that gives up the first puts, and does them just before the
// one that comes next.
type late struct {
	smelt.Store
	seen int
	put  func() error
}

func (l *late) Put(ctx context.Context, key string, body io.ReadSeeker, opts smelt.PutOptions) error {
	if l.seen++; l.seen > 3 {
		if l.seen == 4 {
			if err := l.put(); err != nil {
				return err
			}
		}
		return l.Store.Put(ctx, key, body, opts)
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	l.put = func() error { return l.Store.Put(context.WithoutCancel(ctx), key, bytes.NewReader(b), opts) }
	return errors.New("timed out")
}

func TestWriterRefusesAnotherTopic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		tp.fill(1, 10)
		step(t, newWriter(t, "a", lake, tp))
		again := newTopic()
		again.id = "topic-2"
		again.fill(1, 30)
		_, err := newWriter(t, "b", lake, again).Step(t.Context())
		if !errors.Is(err, smelt.ErrStopped) || !errors.Is(err, smelt.ErrSource) || !strings.Contains(err.Error(), "topic-2") || !strings.Contains(err.Error(), "topic-1") {
			t.Errorf("got %v", err)
		}
		checkLake(t, lake, tp)
	})
}

func TestWriterReopensSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		tp.fill(2, 10)
		fail := true
		w := newWriter(t, "a", store.NewFaulty(lake, func(op store.Op) store.Fault {
			if fail && op.Name == "list" && strings.Contains(op.Key, "/1/") {
				fail = false
				return store.FailBefore
			}
			return store.None
		}), tp)
		if _, err := w.Step(t.Context()); !errors.Is(err, smelt.ErrStore) {
			t.Errorf("got %v", err)
		}
		step(t, w)
		if tp.opened != 2 {
			t.Errorf("opened %d times, want 2", tp.opened)
		}
		checkLake(t, lake, tp)
	})
}

// TestWritersAnyHow: three writers share a lake whose calls fail at random. They step in any order and restart
// after crashes.
func TestWritersAnyHow(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	for range 6 {
		chance := rand.New(rand.NewPCG(rng.Uint64(), 0))
		synctest.Test(t, func(t *testing.T) { anyHow(t, chance) })
	}
}

func anyHow(t *testing.T, rng *rand.Rand) {
	lake, tp := store.NewMemory(), newTopic()
	var mu sync.Mutex
	decide := func(store.Op) store.Fault {
		mu.Lock()
		defer mu.Unlock()
		if n := rng.IntN(40); n < 5 {
			return store.Fault(n)
		}
		return store.None
	}
	started := 0
	start := func() *bronze.Writer {
		started++
		return newWriter(t, fmt.Sprint("w", started), store.NewFaulty(lake, decide), tp, func(c *bronze.Config) { c.ObjectBytes = 2000 })
	}
	writers := []*bronze.Writer{start(), start(), start()}
	for range 150 {
		i := rng.IntN(len(writers))
		switch n := rng.IntN(10); {
		case n < 3:
			tp.fill(int32(1+rng.IntN(3)), 1+rng.IntN(20))
		case n == 3:
			writers[i] = start()
		default:
			if _, err := writers[i].Step(t.Context()); errors.Is(err, store.ErrCrash) {
				writers[i] = start()
			}
		}
	}
	last := newWriter(t, "last", lake, tp)
	for step(t, last).More {
	}
	checkLake(t, lake, tp)
}
