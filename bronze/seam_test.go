package bronze_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

var seamSeeds = flag.Int("seams", 40, "how many seeds TestSeams goes through")

// TestSeams: a topic loses its beginning before it was read, loses its end, and is re-created, at random.
// Two writers read it, one without rebalances, and objects are merged and cleaned. An operator accepts
// what has happened. No record is in the lake twice. Records that are still in the log, or were read before
// they were deleted, are in the lake. An offset of the lake identifies one record of one log.
func TestSeams(t *testing.T) {
	for seed := range uint64(*seamSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { newSewing(t, seed).run() })
		})
	}
}

// sewing is a topic with a history, its lake, and those who work on it.
type sewing struct {
	*testing.T
	random  *rand.Rand
	lake    *store.Memory
	topic   *topic
	writers []*bronze.Writer
	logs    int             // how often the log was another one
	lost    map[string]bool // values that were in no log when the lake came to them
	made    []string        // values, in the order of the logs
}

func newSewing(t *testing.T, seed uint64) *sewing {
	s := &sewing{T: t, random: rand.New(rand.NewPCG(seed, 1)), lake: store.NewMemory(), topic: newTopic(), lost: map[string]bool{}}
	for i := range 2 {
		s.writers = append(s.writers, newWriter(t, fmt.Sprint("w", i), s.lake, s.topic))
	}
	return s
}

func (s *sewing) run() {
	for range 60 {
		switch s.random.IntN(12) {
		case 0:
			s.truncate()
		case 1:
			s.goBack()
		case 2:
			s.recreate()
		case 3, 4:
			s.accept()
		case 5:
			time.Sleep(bronze.DefaultGrace)
			s.merge()
		case 6:
			i := s.random.IntN(len(s.writers))
			s.writers[i] = newWriter(s.T, fmt.Sprint("w", s.random.Uint64()), s.lake, s.topic) // the one before was killed
		case 7, 8, 9:
			s.produce()
		default:
			s.step(s.random.IntN(len(s.writers)))
		}
	}
	s.drain()
	s.check()
}

// produce adds records that tell which log they are of, and their offset there.
func (s *sewing) produce() {
	for range 1 + s.random.IntN(5) {
		log := s.topic.records[0]
		hole := int64(s.random.IntN(3))
		offset := max(s.topic.start, s.end()) + hole
		if len(log) == 0 {
			hole = offset
		}
		value := fmt.Sprintf(`{"log":%d,"offset":%d}`, s.logs, offset)
		s.topic.produce(smelt.Record{Value: []byte(value), Timestamp: time.Now().UnixMilli()}, hole)
		s.made = append(s.made, value)
	}
}

// end is where the log ends.
func (s *sewing) end() int64 {
	held, _ := (&source{topic: s.topic}).held(0)(s.Context(), smelt.NoEpoch)
	return held.End
}

// step has a writer do what it can, which may be nothing.
func (s *sewing) step(i int) {
	s.Helper()
	for range 3 { // it finds out that a topic was re-created, opens it anew, and asks the lake
		_, err := s.writers[i].Step(s.Context())
		if err != nil && !errors.Is(err, smelt.ErrStopped) && !errors.Is(err, bronze.ErrTurn) && !strings.Contains(err.Error(), "re-created") {
			s.Fatal(err)
		}
	}
}

// lose notes that records are in no log any more.
func (s *sewing) lose(records []smelt.Record) {
	for _, r := range records {
		s.lost[string(r.Value)] = true
	}
}

func (s *sewing) truncate() {
	log := s.topic.records[0]
	if len(log) == 0 {
		return
	}
	n := s.random.IntN(len(log))
	s.lose(log[:n])
	s.topic.start = log[n].Offset
	s.topic.records[0] = slices.Clone(log[n:])
}

// goBack takes the end of the log away, as when a broker takes over that lacks it.
func (s *sewing) goBack() {
	log := s.topic.records[0]
	if len(log) < 2 {
		return
	}
	n := 1 + s.random.IntN(len(log)-1)
	s.lose(log[n:])
	s.topic.records[0] = slices.Clone(log[:n])
	s.logs++ // the offsets are given anew
	s.topic.epoch++
}

func (s *sewing) recreate() {
	s.lose(s.topic.records[0])
	s.logs++
	s.topic.id += "+"
	s.topic.start, s.topic.epoch, s.topic.records = 0, 0, map[int32][]smelt.Record{0: nil}
}

// stop looks whether the log continues the chain.
func (s *sewing) stop() *bronze.Stop {
	s.Helper()
	last, err := bronze.NewReader(s.lake, "p").Last(s.Context(), 0)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	held, _ := (&source{topic: s.topic}).held(0)(s.Context(), last.Epoch)
	_, err = bronze.Continue("p", 0, last, smelt.Description{Cluster: "cluster-1", Topic: s.topic.id}, held)
	var stop *bronze.Stop
	errors.As(err, &stop)
	return stop
}

func (s *sewing) accept() {
	s.Helper()
	stop := s.stop()
	if stop == nil {
		return
	}
	seam, err := bronze.Sew(s.Context(), s.lake, stop, stop.From(), "the test", bronze.Zstd)
	if err != nil || seam.Why != "the test" {
		s.Fatalf("sew %v: %+v, %v", stop, seam, err)
	}
	if stop := s.stop(); stop != nil {
		s.Fatalf("after it was accepted: %v", stop)
	}
}

func (s *sewing) merge() {
	m := newMerger(s.T, s.lake)
	work(s.T, m, plan(s.T, m, s.lake))
}

// drain accepts all stops and reads everything.
func (s *sewing) drain() {
	s.accept()
	s.produce()
	for i := range s.writers {
		s.step(i)
	}
	for range 4 {
		time.Sleep(bronze.DefaultGrace)
		s.merge()
	}
}

func (s *sewing) check() {
	s.Helper()
	lines, metas := readAll(s.T, s.lake, 0)
	seen := map[string]bool{}
	at := 0
	base := map[int64]int64{} // by the lake's offset: of the object that has it
	for _, m := range metas {
		for o := m.Start; o < m.End; o++ {
			base[o] = m.Base
		}
	}
	for _, l := range lines {
		var log int
		var offset int64
		value := string(l.Record.Value)
		if _, err := fmt.Sscanf(value, `{"log":%d,"offset":%d}`, &log, &offset); err != nil {
			s.Fatal(err)
		}
		if seen[value] {
			s.Errorf("%s is in the lake twice", value)
		}
		seen[value] = true
		if i := slices.Index(s.made[at:], value); i < 0 {
			s.Errorf("%s is not in order", value)
		} else {
			at += i + 1
		}
		if got := l.Record.Offset - base[l.Record.Offset]; got != offset {
			s.Errorf("%s has offset %d in the lake, which is %d in its log", value, l.Record.Offset, got)
		}
	}
	for _, value := range s.made {
		if !seen[value] && !s.lost[value] {
			s.Errorf("%s is not in the lake", value)
		}
	}
}

// TestSeamsStayApart has a merger leave seams alone, and what is on their two sides.
func TestSeamsStayApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSewing(t, 0)
		for range 3 {
			for range 3 {
				s.produce()
				s.step(0)
			}
			s.recreate()
			s.produce()
			s.accept()
			s.step(0)
		}
		before, err := bronze.NewReader(s.lake, "p").Seams(t.Context(), 0)
		if err != nil || len(before) != 3 {
			t.Fatalf("seams: %+v, %v", before, err)
		}
		s.drain()
		after, err := bronze.NewReader(s.lake, "p").Seams(t.Context(), 0)
		if err != nil || !slices.Equal(before, after) {
			t.Errorf("seams: %+v, %v; before they were %+v", after, err, before)
		}
		if got := len(keys(t, s.lake, 0)); got > 2*3+2 {
			t.Errorf("%d objects are left: %v", got, keys(t, s.lake, 0))
		}
		s.check()
	})
}

// TestSewTwice has a second operator decide while the first one's seam is on its way.
func TestSewTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSewing(t, 0)
		s.produce()
		s.step(0)
		s.recreate()
		stop := s.stop()
		lake := store.NewFaulty(s.lake, func(op store.Op) store.Fault {
			if op.Name == "put" {
				s.accept()
			}
			return store.None
		})
		if seam, err := bronze.Sew(t.Context(), lake, stop, stop.From(), "too late", bronze.Zstd); !errors.Is(err, bronze.ErrMoved) {
			t.Errorf("got %+v, %v", seam, err)
		}
		if seams, err := bronze.NewReader(s.lake, "p").Seams(t.Context(), 0); err != nil || len(seams) != 1 || seams[0].Why != "the test" {
			t.Errorf("seams: %+v, %v", seams, err)
		}
	})
}

// TestSewFurtherOn goes on in the middle of another log, whose records are of a later
// epoch than those of the log before.
func TestSewFurtherOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSewing(t, 0)
		s.produce()
		s.step(0)
		s.recreate()
		s.topic.epoch = 7
		s.topic.fill(1, 6)
		from := s.topic.records[0][3].Offset
		if _, err := bronze.Sew(t.Context(), s.lake, s.stop(), from, "", bronze.Zstd); err != nil {
			t.Fatal(err)
		}
		if stop := s.stop(); stop != nil {
			t.Errorf("after it was accepted: %v", stop)
		}
		before, _ := readAll(t, s.lake, 0)
		s.step(1)
		if after, _ := readAll(t, s.lake, 0); len(after)-len(before) != 3 {
			t.Errorf("%d records were read on, want 3", len(after)-len(before))
		}
	})
}

// TestContinue tests the edges of what a log holds.
func TestContinue(t *testing.T) {
	t.Parallel()
	source := smelt.Description{Cluster: "c", Topic: "t"}
	last := bronze.Meta{End: 25, Base: 5, Cluster: "c", Topic: "t"}
	for _, c := range []struct {
		held smelt.Extent
		want bronze.Misfit // "": it goes on at 20
	}{
		{smelt.Extent{Start: 0, End: 100}, ""},
		{smelt.Extent{Start: 20, End: 20}, ""},
		{smelt.Extent{Start: 21, End: 100}, bronze.MisfitGap},
		{smelt.Extent{Start: 0, End: 19}, bronze.MisfitBack},
	} {
		next, err := bronze.Continue("p", 0, last, source, c.held)
		var stop *bronze.Stop
		if errors.As(err, &stop); c.want == "" && (next != 20 || err != nil) || c.want != "" && (stop == nil || stop.Misfit != c.want) {
			t.Errorf("%+v: %d, %v; want %q", c.held, next, err, c.want)
		}
	}
}

// TestGrownAgain has a log lose its end and grow past it before it is looked at.
func TestGrownAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, tp := store.NewMemory(), newTopic()
		tp.fill(1, 6)
		step(t, newWriter(t, "a", lake, tp))
		tp.records[0] = tp.records[0][:3]
		tp.epoch++
		tp.fill(1, 9)
		var stop *bronze.Stop
		if _, err := newWriter(t, "b", lake, tp).Step(t.Context()); !errors.As(err, &stop) || stop.Misfit != bronze.MisfitBack {
			t.Errorf("got %v", err)
		}
	})
}

// TestSewAtAnOldEnd refuses a decision that was made on another state of the chain.
func TestSewAtAnOldEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSewing(t, 0)
		s.produce()
		s.step(0)
		s.recreate()
		stop := s.stop()
		if stop == nil || stop.Misfit != bronze.MisfitOther {
			t.Fatalf("got %v", stop)
		}
		s.accept()
		s.produce()
		s.step(0)
		n := len(keys(t, s.lake, 0))
		if _, err := bronze.Sew(context.Background(), s.lake, stop, 0, "", bronze.Zstd); err == nil || len(keys(t, s.lake, 0)) != n {
			t.Errorf("sewn again: %v, %v", err, keys(t, s.lake, 0))
		}
	})
}

// TestStops uses the log's end, not the end that an open transaction allows to read, and the end of the last
// record's epoch if the log still has it.
func TestStops(t *testing.T) {
	t.Parallel()
	ends := map[int32]bronze.Meta{0: {End: 100, Base: 20, Topic: "a", Epoch: 3}}
	for _, c := range []struct {
		name     string
		topic    string
		readable int64 // the end of what can be read
		shared   int64
		misfit   bronze.Misfit // "": it continues
		end      int64         // of the log, as the stop has it
	}{
		{"behind an open transaction", "a", 70, 80, "", 0},
		{"lost its end, behind an open transaction", "a", 70, 75, bronze.MisfitBack, 75},
		{"lost its end, and has grown", "a", 90, 75, bronze.MisfitBack, 75},
		{"went back to before the epoch", "a", 90, 0, bronze.MisfitBack, 10},
		{"another log, without that epoch", "b", 90, 0, bronze.MisfitOther, 90},
	} {
		source := smelt.Description{Topic: c.topic, Partitions: map[int32]smelt.Extent{0: {Start: 10, End: c.readable}}, Shared: map[int32]int64{0: c.shared}}
		var got bronze.Stop
		for _, stop := range bronze.Stops("p", ends, source) {
			got = *stop
		}
		if got.Misfit != c.misfit || got.Held.End != c.end {
			t.Errorf("%s: got misfit %q and the log's end %d, want %q and %d", c.name, got.Misfit, got.Held.End, c.misfit, c.end)
		}
	}
}

// TestStopWrong says how another log came to be there, as far as the clusters' ids tell.
func TestStopWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ was, is, want string }{
		{"one", "one", ": it was deleted and re-created"},
		{"one", "two", ": cluster two took the place of cluster one"},
		{"", "two", ": it was deleted and re-created, or another cluster took its place"},
	} {
		stop := bronze.Stop{Misfit: bronze.MisfitOther, Last: bronze.Meta{Cluster: c.was, Topic: "a"}, Source: smelt.Description{Cluster: c.is, Topic: "b"}}
		if got := stop.Wrong(); !strings.HasSuffix(got, c.want) {
			t.Errorf("from cluster %q to %q: got %q, want it to end with %q", c.was, c.is, got, c.want)
		}
	}
}
