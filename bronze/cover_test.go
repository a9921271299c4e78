package bronze_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

// river is a chain in which objects are merged and deleted at random.
type river struct {
	t       *testing.T
	rng     *rand.Rand
	lake    *store.Memory
	topic   *topic
	reader  *bronze.Reader
	merger  *bronze.Merger
	bounds  []int64 // where objects begin, and the end
	deleted []string
}

// newRiver writes a chain of some objects of one to four records each.
func newRiver(t *testing.T, rng *rand.Rand, objects int) *river {
	v := &river{t: t, rng: rng, lake: store.NewMemory(), topic: newTopic()}
	w := newWriter(t, "a", v.lake, v.topic)
	for range objects {
		v.topic.fill(1, 1+rng.IntN(4))
		step(t, w)
		last, err := bronze.NewReader(v.lake, "p").Last(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		v.bounds = append(v.bounds, last.End)
	}
	v.bounds = append([]int64{0}, v.bounds...)
	v.reader = bronze.NewReader(v.lake, "p")
	v.merger = newMerger(t, v.lake)
	return v
}

func newMerger(t *testing.T, lake smelt.Store) *bronze.Merger {
	return bronze.NewMerger(bronze.MergerConfig{Pipeline: "p", Store: lake, Log: slog.New(slog.DiscardHandler), Dir: t.TempDir()})
}

// names are the objects that there are, in order.
func (v *river) names() (out []bronze.Name) {
	objects, err := v.lake.List(v.t.Context(), bronze.PartitionPrefix("p", 0), "", math.MaxInt)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, o := range objects {
		name, err := bronze.ParseName(o.Key)
		if err != nil {
			v.t.Fatal(err)
		}
		out = append(out, name)
	}
	return out
}

// merge merges a stretch of the objects that a reader would read from some position.
func (v *river) merge() {
	v.reader.SetPage(1000)
	refs, err := v.reader.After(v.t.Context(), 0, v.bounds[v.rng.IntN(len(v.bounds)-1)], math.MaxInt64)
	if err != nil {
		v.t.Fatal(err)
	}
	n := 1 + v.rng.IntN(8)
	if len(refs) <= n {
		return // the last one is not merged
	}
	_, err = v.merger.Merge(v.t.Context(), bronze.NewRun(0, refs[:n]))
	if err != nil && !errors.Is(err, bronze.ErrBreak) { // the listing had a hole of leftovers
		v.t.Fatal(err)
	}
}

// clean deletes some of the objects that others cover.
func (v *river) clean() {
	names := v.names()
	for _, o := range names {
		end := o.End
		if !o.Merged() {
			end = v.bounds[slices.Index(v.bounds, o.Start)+1]
		}
		covered := slices.ContainsFunc(names, func(n bronze.Name) bool {
			return n.Merged() && n != o && n.Start <= o.Start && n.End >= end && (n.Start < o.Start || n.End > end || !o.Merged())
		})
		if covered && v.rng.IntN(2) == 0 {
			v.delete(o)
		}
	}
}

func (v *river) delete(o bronze.Name) {
	v.deleted = append(v.deleted, o.Key())
	if err := v.lake.Delete(v.t.Context(), o.Key()); err != nil {
		v.t.Fatal(err)
	}
}

// read reads the offsets from a position on, as far as the chain goes.
func (v *river) read(position int64) (offsets []int64, err error) {
	v.reader.SetPage(1 + v.rng.IntN(30))
	for {
		refs, err := v.reader.After(v.t.Context(), 0, position, 1+v.rng.Int64N(2000))
		if err != nil || len(refs) == 0 {
			return offsets, err
		}
		var metas []bronze.Meta
		var lines [][]int64
		for _, ref := range refs {
			var of []int64
			m, err := v.reader.Lines(v.t.Context(), ref, func(line []byte) error {
				decoded, err := bronze.Decode(line)
				of = append(of, decoded.Record.Offset)
				return err
			})
			if err != nil {
				return offsets, err
			}
			metas, lines = append(metas, m), append(lines, of)
		}
		n := bronze.Joined(refs, metas)
		offsets = append(offsets, slices.Concat(lines[:n]...)...)
		position = metas[n-1].End
	}
}

// want are the offsets of the topic from a position on.
func (v *river) want(position int64) (offsets []int64) {
	for _, r := range v.topic.records[0] {
		if r.Offset >= position {
			offsets = append(offsets, r.Offset)
		}
	}
	return offsets
}

// check reads from every position, and finds every offset.
func (v *river) check() {
	v.t.Helper()
	for _, position := range append(v.bounds, -1) {
		if got, err := v.read(position); err != nil || !slices.Equal(got, v.want(position)) {
			v.t.Fatalf("from %d: got %v, %v\nwant %v\nof %v\ndeleted %v", position, got, err, v.want(position), v.names(), v.deleted)
		}
	}
	end := v.bounds[len(v.bounds)-1]
	if last, err := v.reader.Last(v.t.Context(), 0); err != nil || last.End != end || last.Chain.Count != int64(len(v.topic.records[0])) {
		v.t.Fatalf("last: %+v, %v; want the end %d and %d records", last, err, end, len(v.topic.records[0]))
	}
	for offset := range end {
		ref, m, err := v.reader.Find(v.t.Context(), 0, offset)
		if err != nil || ref.Start > offset || m.End <= offset {
			v.t.Fatalf("find %d: %+v %+v, %v\nof %v\ndeleted %v", offset, ref, m, err, v.names(), v.deleted)
		}
	}
	if _, _, err := v.reader.Find(v.t.Context(), 0, end); !errors.Is(err, smelt.ErrNotFound) {
		v.t.Fatalf("find the end: %v", err)
	}
}

// TestCover merges stretches of a chain at random, so that merged objects are side
// by side, one in the other and across each other, and deletes at random what they
// cover. From every position on each record is read once.
func TestCover(t *testing.T) {
	rng := seeded(t)
	for n := range 6 {
		seed := rng.Uint64()
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				v := newRiver(t, rand.New(rand.NewPCG(seed, 0)), 30)
				for range 4 {
					for range 4 {
						v.merge()
					}
					v.clean()
					v.check()
				}
			})
		})
	}
}

// TestCoverMissing deletes an object that no other covers. A reader stops there.
func TestCoverMissing(t *testing.T) {
	rng := seeded(t)
	for n := range 6 {
		seed := rng.Uint64()
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				v := newRiver(t, rand.New(rand.NewPCG(seed, 0)), 30)
				for range 6 {
					v.merge()
				}
				v.clean()
				gone := v.bounds[v.rng.IntN(len(v.bounds)-2)]
				for _, name := range v.names() {
					if name.Start <= gone && (name.End > gone || name.Start == gone) {
						v.delete(name)
					}
				}
				for _, position := range v.bounds[:slices.Index(v.bounds, gone)+1] {
					got, err := v.read(position)
					if !errors.Is(err, bronze.ErrBreak) || len(got) > 0 && got[len(got)-1] >= gone {
						t.Fatalf("from %d, without what covers %d: got %v, %v\nof %v", position, gone, got, err, v.names())
					}
				}
				if _, _, err := v.reader.Find(t.Context(), 0, gone); !errors.Is(err, bronze.ErrBreak) {
					t.Errorf("find %d: %v", gone, err)
				}
			})
		})
	}
}
