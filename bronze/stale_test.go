package bronze_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"smelt/bronze"
	"smelt/internal/store"
)

// TestWriterOutlivesItsName holds a writer up right before it puts an object, until
// the name is free again: another writer has put the same records under it and more,
// which were merged, and what they were merged from has been deleted.
func TestWriterOutlivesItsName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		var armed atomic.Bool
		slow := store.NewFaulty(lake, func(op store.Op) store.Fault {
			if op.Name == "put" && armed.CompareAndSwap(true, false) {
				other, m := newWriter(t, "b", lake, tp, func(c *bronze.Config) { c.ObjectBytes = 1 }), newMerger(t, lake)
				for range 12 {
					tp.fill(1, 1)
					step(t, other)
				}
				for range 3 { // merge, clean, and as much again
					time.Sleep(bronze.DefaultGrace)
					work(t, m, plan(t, m, lake))
				}
				tp.fill(1, 1) // and the chain goes on
				step(t, other)
			}
			return store.None
		})
		w := newWriter(t, "a", slow, tp)
		tp.fill(1, 6)
		step(t, w)
		tp.fill(1, 3)
		armed.Store(true)
		step(t, w)
		left := keys(t, lake, 0)
		if !strings.Contains(strings.Join(left, " "), "0-") {
			t.Fatalf("nothing was merged: %v", left)
		}
		for range 5 {
			tp.fill(1, 5)
			step(t, w)
		}
		checkLake(t, lake, tp)
		last, err := bronze.NewReader(lake, "p").Last(t.Context(), 0)
		if err != nil || last.Chain.Count != int64(len(tp.records[0])) {
			t.Errorf("the end: %+v, %v; there are %d records", last, err, len(tp.records[0]))
		}
		m := newMerger(t, lake)
		for range 3 { // what the writer left under the free name goes, too
			time.Sleep(bronze.DefaultGrace)
			work(t, m, plan(t, m, lake))
		}
		checkLake(t, lake, tp)
	})
}
