package bronze_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

// crowd is a chain at which several are at work, of whom some are held up in the
// middle of it for hours while the others go on.
type crowd struct {
	t       *testing.T
	rng     *rand.Rand
	lake    *store.Memory
	topic   *topic
	writer  *bronze.Writer
	merger  *bronze.Merger
	retired int64         // up to where records were let go
	held    chan struct{} // full while somebody is held up
}

// kept says whether a record is never retired.
func kept(offset int64) bool { return offset%5 == 0 }

// slow is the lake to one who may be held up before each call.
func (c *crowd) slow() smelt.Store {
	return store.NewFaulty(c.lake, func(store.Op) store.Fault {
		select {
		case c.held <- struct{}{}:
		default:
			return store.None
		}
		if c.rng.IntN(6) == 0 {
			for range 1 + c.rng.IntN(6) {
				c.goOn(c.writer, c.merger)
			}
		}
		<-c.held
		return store.None
	})
}

// goOn does something.
func (c *crowd) goOn(w *bronze.Writer, m *bronze.Merger) {
	var err error
	switch c.rng.IntN(6) {
	case 0, 1:
		c.topic.fill(1, 1+c.rng.IntN(8))
		_, err = w.Step(c.t.Context())
	case 2:
		err = c.retire(m)
	case 3:
		time.Sleep(time.Duration(c.rng.IntN(90)) * time.Minute)
	default:
		err = c.work(m)
	}
	if err != nil && !errors.Is(err, smelt.ErrNotFound) && !errors.Is(err, context.Canceled) { // a poll takes only so long
		c.t.Fatal(err)
	}
}

func (c *crowd) work(m *bronze.Merger) error {
	p, err := m.Plan(c.t.Context(), positions(c.t, c.lake), time.Now())
	for _, run := range p.Runs {
		if err == nil {
			_, err = m.Merge(c.t.Context(), run)
		}
	}
	for _, l := range p.Leftovers {
		if err == nil {
			err = m.Clean(c.t.Context(), l)
		}
	}
	return err
}

func (c *crowd) retire(m *bronze.Merger) error {
	runs, err := m.PlanRetire(c.t.Context(), positions(c.t, c.lake), time.Now().Add(-5*time.Hour))
	for _, run := range runs {
		var keep []int64
		for o := range run.End {
			if kept(o) {
				keep = append(keep, o)
			}
		}
		if err == nil {
			c.retired = max(c.retired, run.End)
			_, _, err = m.Retire(c.t.Context(), run, keep)
		}
	}
	return err
}

// check reads the chain from its beginning: each record that was not retired comes exactly once.
func (c *crowd) check() {
	c.t.Helper()
	got := offsets(c.t, c.lake)
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		c.t.Fatalf("not each once, in order: %v\nof %v", got, keys(c.t, c.lake, 0))
	}
	reader := bronze.NewReader(c.lake, "p")
	last, err := reader.Last(c.t.Context(), 0)
	if err != nil {
		c.t.Fatal(err)
	}
	written := int64(0)
	for _, r := range c.topic.records[0] {
		if r.Offset >= last.End {
			break
		}
		written++
		_, there := slices.BinarySearch(got, r.Offset)
		if !there && (r.Offset >= c.retired || kept(r.Offset)) {
			c.t.Fatalf("%d is missing, retired up to %d: %v\nof %v", r.Offset, c.retired, got, keys(c.t, c.lake, 0))
		}
	}
	if last.Chain.Count != written {
		c.t.Fatalf("the chain counts %d records of %d", last.Chain.Count, written)
	}
	for offset := range last.End {
		ref, m, err := reader.Find(c.t.Context(), 0, offset)
		if err != nil || ref.Start > offset || m.End <= offset {
			c.t.Fatalf("find %d: %+v %+v, %v\nof %v", offset, ref, m, err, keys(c.t, c.lake, 0))
		}
	}
}

// TestHeldUp has a writer and a merger held up for hours before any call of the store,
// while others write, merge, clean and retire.
func TestHeldUp(t *testing.T) {
	rng := seeded(t)
	for n := range 6 {
		seed := rng.Uint64()
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := &crowd{t: t, rng: rand.New(rand.NewPCG(seed, 0)), lake: store.NewMemory(), topic: newTopic(), held: make(chan struct{}, 1)}
				c.topic.fill(1, 1)
				small := func(cfg *bronze.Config) { cfg.ObjectBytes = 1 << c.rng.IntN(9) }
				c.writer, c.merger = newWriter(t, "a", c.lake, c.topic, small), newMerger(t, c.lake)
				writer, merger := newWriter(t, "b", c.slow(), c.topic, small), bronze.NewMerger(bronze.MergerConfig{
					Pipeline: "p", Store: c.slow(), Log: slog.New(slog.DiscardHandler), Dir: t.TempDir(), Codec: bronze.Gzip,
				})
				step(t, c.writer)
				for range 60 {
					c.goOn(writer, merger)
					if _, err := c.writer.Step(t.Context()); err != nil {
						t.Fatal(err)
					}
					c.check()
				}
				time.Sleep(bronze.DefaultGrace)
				for range 3 {
					if err := c.work(c.merger); err != nil {
						t.Fatal(err)
					}
					time.Sleep(bronze.DefaultGrace)
				}
				c.check()
			})
		})
	}
}
