package upkeep

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"smelt/internal/table"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// stream is a partition in which files arrive and are merged, with what was done
// to each row.
type stream struct {
	tiers
	files    []table.File
	rewrites map[string]map[fate]bool // by file: of its rows
	lo, hi   map[string]time.Time     // by file
	came     map[string]time.Time     // by file
	added    int64                    // rows that came in
	written  int64                    // rows that were written, first and again
	number   int
}

// fate is that rows came in a file of some rows, and were written again some times
// since.
type fate struct{ first, times int64 }

const (
	rowBytes    = 20
	footerBytes = 800
	targetRows  = 1 << 16
)

func newStream() *stream {
	s := &stream{rewrites: map[string]map[fate]bool{}, lo: map[string]time.Time{}, hi: map[string]time.Time{}, came: map[string]time.Time{}}
	s.tiers = tiers{
		target:   targetRows * rowBytes,
		appended: func(f table.File) time.Time { return s.came[f.Key] },
		within:   func(f table.File) (lo, hi time.Time, ok bool) { return s.lo[f.Key], s.hi[f.Key], true },
		now:      noon,
	}
	return s
}

func (s *stream) add(rows int64, lo, hi time.Time, fates map[fate]bool, came time.Time) {
	s.number++
	f := table.File{Key: fmt.Sprintf("%08d", s.number), Rows: rows, Bytes: footerBytes + rows*rowBytes}
	s.files, s.written = append(s.files, f), s.written+rows
	s.rewrites[f.Key], s.lo[f.Key], s.hi[f.Key], s.came[f.Key] = fates, lo, hi, came
}

func (s *stream) append(rows int64) {
	s.now = s.now.Add(2 * time.Second)
	s.added += rows
	s.add(rows, s.now, s.now.Add(2*time.Second), map[fate]bool{{rows, 0}: true}, s.now)
}

// merge does what is planned, and returns how many merges that were.
func (s *stream) merge(t interface{ Errorf(string, ...any) }) int {
	merges := s.plan(s.files)
	for _, m := range merges {
		var rows int64
		lo, hi := s.lo[m.files[0].Key], s.hi[m.files[0].Key]
		fates := map[fate]bool{}
		for _, f := range m.files {
			rows += f.Rows
			for was := range s.rewrites[f.Key] {
				fates[fate{was.first, was.times + 1}] = true
			}
			if s.lo[f.Key].Before(lo) {
				lo = s.lo[f.Key]
			}
			if s.hi[f.Key].After(hi) {
				hi = s.hi[f.Key]
			}
		}
		if size := m.size(); size.Files > mostInputs || size.Bytes > s.most() || len(m.files) < 2 {
			t.Errorf("a merge of %+v", size)
		}
		for _, f := range m.files {
			delete(s.rewrites, f.Key)
		}
		s.files = slices.DeleteFunc(s.files, func(f table.File) bool { return s.rewrites[f.Key] == nil })
		s.add(rows, lo, hi, fates, m.appended)
	}
	return len(merges)
}

// check holds every row's rewrites against what growth allows.
func (s *stream) check(t interface{ Errorf(string, ...any) }, growth float64) {
	for _, f := range s.files {
		for fate := range s.rewrites[f.Key] {
			if least := float64(fate.first) * math.Pow(growth, float64(fate.times)); float64(f.Rows) < least {
				t.Errorf("rows that came in a file of %d were written again %d times, and are in one of %d", fate.first, fate.times, f.Rows)
			}
		}
	}
}

// Rows of an open partition are written at most 1 + log8 times, for any input, and few small files are left.
func TestOpenPartition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStream()
		least := rapid.Int64Range(1, 100).Draw(t, "least rows")
		most := least * rapid.Int64Range(1, 50).Draw(t, "times as many at most")
		every := rapid.IntRange(10, 300).Draw(t, "appends between plans")
		size := rapid.Int64Range(least, most)
		steps := rapid.IntRange(1, 800).Draw(t, "appends")
		seed := size.Draw(t, "first")
		for i := range steps {
			rows := least + (seed+int64(i)*7919)%(most-least+1)
			s.append(rows)
			if i%every == 0 {
				s.merge(t)
				s.check(t, openGrowth)
			}
		}
		for s.merge(t) > 0 { // at rest, while the partition counts as open
			s.check(t, openGrowth)
		}
		bound := 1 + math.Log(1.5*targetRows/float64(least))/math.Log(openGrowth)
		if got := float64(s.written) / float64(s.added); got > bound {
			t.Errorf("every row was written %.2f times, more than %.2f", got, bound)
		}
		small := 0
		for _, f := range s.files {
			if f.Bytes < s.most()/10 {
				small++
			}
		}
		if left := 2 + math.Log(1.5*targetRows/float64(least))/math.Log(8.0/7); float64(small) > left {
			t.Errorf("%d small files are left, more than %.0f", small, left)
		}
	})
}

// A partition that has come to rest ends with whole files and few small ones, and
// stays like that.
func TestSettledPartition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStream()
		sizes := rapid.SliceOfN(rapid.Int64Range(1, targetRows/3), 2, 150).Draw(t, "rows of files")
		var bytes int64
		for _, rows := range sizes {
			s.append(rows)
			bytes += footerBytes + rows*rowBytes
		}
		s.now = s.now.Add(openFor)
		for rounds := 0; s.merge(t) > 0; rounds++ {
			s.check(t, settledGrowth)
			if rounds > 20 {
				t.Fatalf("it does not come to an end")
			}
		}
		whole := float64(bytes) / float64(s.target-s.target/4)
		if most := whole + 2 + math.Log(targetRows)/math.Log(5); float64(len(s.files)) > most {
			t.Errorf("%d files are left, more than %.0f", len(s.files), most)
		}
	})
}

// A settled partition of more than one file is cut in the order of time.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	s := newStream()
	for range 1200 {
		s.append(targetRows / 100)
	}
	slices.Reverse(s.files)
	s.now = s.now.Add(openFor)
	if n := s.merge(t); n < 8 {
		t.Fatalf("%d merges of 12 files' worth", n)
	}
	for s.merge(t) > 0 {
	}
	slices.SortFunc(s.files, func(a, b table.File) int { return s.lo[a.Key].Compare(s.lo[b.Key]) })
	if len(s.files) < 8 || len(s.files) > 16 {
		t.Errorf("%d files are left of 12 files' worth", len(s.files))
	}
	for i, f := range s.files[1:] {
		if before := s.files[i]; s.hi[before.Key].After(s.lo[f.Key]) {
			t.Errorf("file %d ends at %s, after the next begins", i, s.hi[before.Key])
		}
	}
}

// What is merged, and what is left alone.
func TestPlan(t *testing.T) {
	t.Parallel()
	file := func(key string, day any, spec int, rows int64) table.File {
		return table.File{Key: key, Rows: rows, Bytes: rows * rowBytes, Spec: spec, Partition: map[string]any{"ts_day": day}}
	}
	var crowd []table.File
	for i := range 3 * mostInputs {
		crowd = append(crowd, file(fmt.Sprintf("%04d", i), int64(1), 0, 2))
	}
	for _, c := range []struct {
		name  string
		files []table.File
		open  bool
		want  []int // files of each merge
	}{
		{"nothing", nil, false, nil},
		{"a single file", []table.File{file("a", int64(1), 0, 10)}, false, nil},
		{"two of a settled partition", []table.File{file("a", int64(1), 0, 10), file("b", int64(1), 0, 40)}, false, []int{2}},
		{"a few late rows beside a large file", []table.File{file("a", int64(1), 0, 10), file("b", int64(1), 0, 41)}, false, nil},
		{"two of an open partition", []table.File{file("a", int64(1), 0, 10), file("b", int64(1), 0, 10)}, true, nil},
		{"of two partitions", []table.File{file("a", int64(1), 0, 10), file("b", int64(2), 0, 10)}, false, nil},
		{"of NULL and a partition", []table.File{file("a", int64(1), 0, 10), file("b", nil, 0, 10)}, false, nil},
		{"of two partitionings", []table.File{file("a", int64(1), 0, 10), file("b", int64(1), 1, 10)}, false, nil},
		{"of NULL alone", []table.File{file("a", nil, 0, 10), file("b", nil, 0, 10)}, false, []int{2}},
		{"whole files", []table.File{file("a", int64(1), 0, targetRows), file("b", int64(1), 0, targetRows)}, false, nil},
		{"a crowd", crowd, true, []int{mostInputs, mostInputs, mostInputs}},
	} {
		s := newStream()
		if c.open {
			s.appended = func(table.File) time.Time { return noon.Add(-openFor + 1) }
		}
		var got []int
		for _, m := range s.plan(c.files) {
			got = append(got, len(m.files))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got merges of %v files, want %v", c.name, got, c.want)
		}
	}
}

func TestPartitionText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values map[string]any
		want   string
	}{
		{nil, ""},
		{map[string]any{"event_time_day": int64(20786)}, "event_time_day=2026-11-29: "},
		{map[string]any{"ts_hour": int64(20786*24 + 7), "city": "New York"}, "city=New York, ts_hour=2026-11-29T07: "},
		{map[string]any{"ts_month": int64(682)}, "ts_month=2026-11: "},
		{map[string]any{"ts_year": int64(56), "n": int64(7)}, "n=7, ts_year=2026: "},
		{map[string]any{"day": time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), "x": nil}, "day=2026-11-29T00:00:00Z, x=NULL: "},
		{map[string]any{"a": "NULL", "b": "", "c": " x", "d": "a=b, c: "}, `a="NULL", b="", c=" x", d="a=b, c: ": `},
		{map[string]any{"a": "\x1b[2J\x00", "b": "\u202eabc", "c": `it's "x"`, "d": "Jyväskylä"}, `a="\x1b[2J\x00", b="\u202eabc", c="it's \"x\"", d=Jyväskylä: `},
		{map[string]any{"a": strings.Repeat("é", 900)}, `a="` + strings.Repeat("é", 60) + `"…: `},
	} {
		if got := partitionText(c.values); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// What retention is to take out a file at a time is not merged over more than a part of
// the time for which it is kept.
func TestTiersOfRetention(t *testing.T) {
	t.Parallel()
	const hours = 30 * 24
	for kept, want := range map[time.Duration]struct {
		span  time.Duration
		files int
	}{
		0:                   {0, 1},
		80 * 24 * time.Hour: {10 * 24 * time.Hour, 3},
		20 * 24 * time.Hour: {2 * 24 * time.Hour, 15},
		36 * time.Hour:      {4 * time.Hour, hours / 4},
		time.Hour:           {time.Hour, hours},
	} {
		s := newStream()
		s.target, s.span = 1<<40, spanOf(kept)
		begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		for i := range hours {
			at := begin.Add(time.Duration(i) * time.Hour)
			s.add(10, at, at.Add(time.Hour-time.Second), map[fate]bool{}, at)
		}
		s.now = begin.AddDate(1, 0, 0)
		for s.merge(t) > 0 {
		}
		if s.span != want.span || len(s.files) != want.files {
			t.Errorf("kept for %s: %d files by spans of %s, want %d, %s", kept, len(s.files), s.span, want.files, want.span)
		}
		for _, f := range s.files {
			if took := s.hi[f.Key].Sub(s.lo[f.Key]); s.span > 0 && took > s.span {
				t.Errorf("kept for %s: a file of %s", kept, took)
			}
		}
	}
}
