package bronze_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

// TestDeletedWhileBuffered lets retention overtake a reader that has records which
// are not in the lake yet: they go there before the lake is asked again.
func TestDeletedWhileBuffered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		w := newWriter(t, "a", lake, tp)
		tp.fill(1, 2)
		step(t, w)
		tp.fill(1, 3)
		want := len(tp.records[0])
		tp.polled = func() { // once, with records that are on their way
			tp.polled = nil
			tp.fill(1, 4)
			tp.records[0] = tp.records[0][want+1:]
			tp.start = tp.records[0][0].Offset
		}
		progress, err := w.Step(t.Context())
		var stop *bronze.Stop
		if !errors.As(err, &stop) || stop.Misfit != bronze.MisfitGap {
			t.Fatalf("step: %v, want a gap", err)
		}
		if got, _ := readAll(t, lake, 0); len(got) != want || progress.Records != 3 {
			t.Errorf("%d records are in the lake, of %d that were read; the step says %d", len(got), want, progress.Records)
		}
	})
}

// TestTurn holds a writer up with records that it has read, while another one goes on
// with a log that has lost its end since, or its beginning.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		name      string
		meanwhile func(s *sewing, step func())
		turns     bool
		want      string
	}{
		// What was read of the end that is lost does not go after what is there now.
		{"lost its end", func(s *sewing, step func()) {
			s.topic.records[0] = s.topic.records[0][:6]
			s.topic.epoch++
			s.topic.produce(smelt.Record{Value: []byte("new 6")}, 0)
			step()
		}, true, "0 1 2 3 4 5 new 6"},
		// It is unknown whether it did.
		{"lost its end, and is away", func(s *sewing, step func()) {
			s.topic.records[0] = s.topic.records[0][:6]
			s.topic.epoch++
			s.topic.produce(smelt.Record{Value: []byte("new 6")}, 0)
			step()
			s.topic.away = errors.New("no broker answers")
		}, true, "0 1 2 3 4 5 new 6"},
		// An operator was first, and the log, which has no epochs, has grown since.
		{"lost its end, which was accepted", func(s *sewing, _ func()) {
			s.topic.records[0] = s.topic.records[0][:3]
			s.accept()
			for i := range 9 {
				s.topic.produce(smelt.Record{Value: fmt.Append(nil, "new ", 3+i)}, 0)
			}
		}, true, "0 1 2 3"},
		// The other writer has half of it, and the log has deleted all of it.
		{"lost its beginning", func(s *sewing, step func()) {
			all := s.topic.records[0]
			s.topic.records[0] = all[:6]
			step()
			s.topic.records[0], s.topic.start = all[8:], 8
		}, false, "0 1 2 3 4 5 6 7 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				lake, tp := store.NewMemory(), newTopic()
				other := newWriter(t, "b", lake, tp)
				var armed atomic.Bool
				w := newWriter(t, "a", store.NewFaulty(lake, func(op store.Op) store.Fault {
					if op.Name == "put" && armed.CompareAndSwap(true, false) {
						c.meanwhile(&sewing{T: t, lake: lake, topic: tp}, func() { step(t, other) })
					}
					return store.None
				}), tp)
				for i := range 9 {
					tp.produce(smelt.Record{Value: fmt.Append(nil, i)}, 0)
					if i == 3 {
						step(t, w)
						armed.Store(true)
					}
				}
				if _, err := w.Step(t.Context()); errors.Is(err, bronze.ErrTurn) != c.turns || err != nil && !c.turns {
					t.Errorf("step: %v", err)
				}
				var got []string
				lines, _ := readAll(t, lake, 0)
				for _, l := range lines {
					got = append(got, string(l.Record.Value))
				}
				if all := strings.Join(got, " "); all != c.want {
					t.Errorf("in the lake: %s; want %s", all, c.want)
				}
			})
		})
	}
}

// TestStopIsLoggedOnce has a partition that stays stopped while its log moves on.
func TestStopIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		tp := newTopic()
		w := newWriter(t, "a", store.NewMemory(), tp, func(c *bronze.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		tp.fill(1, 2)
		step(t, w)
		tp.id, tp.records[0] = "topic-2", nil
		if _, err := w.Step(t.Context()); err == nil {
			t.Fatal("the topic was re-created, and nobody says so")
		}
		for range 3 {
			tp.fill(1, 1)
			if _, err := w.Step(t.Context()); !errors.Is(err, smelt.ErrStopped) {
				t.Fatalf("step: %v", err)
			}
		}
		if n := strings.Count(log.String(), "partition stopped"); n != 1 {
			t.Errorf("it was logged %d times:\n%s", n, &log)
		}
	})
}

// TestMarkDeleted has retention delete all of a log: the last record and the mark of its
// transaction, which had no record to be read.
func TestMarkDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		tp.produce(smelt.Record{Value: []byte("committed"), Skip: 1}, 0)
		step(t, newWriter(t, "a", lake, tp))
		tp.start, tp.records[0] = 2, nil
		step(t, newWriter(t, "b", lake, tp)) // it was stopped for a gap
	})
}
