package bronze_test

import (
	"errors"
	"math"
	"testing"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

// Find is tested with the first and the last offset of some objects.
func TestReaderFind(t *testing.T) {
	t.Parallel()
	const most = 9 // listings; one or two are usual
	random := seeded(t)
	for _, objects := range []int{1, 3, 999, 1000, 1001, 5000} {
		for _, step := range []int64{1, 7, 3000, 1 << 40} {
			lake := &counted{Store: store.NewMemory()}
			starts := []int64{0}
			for range objects {
				start := starts[len(starts)-1]
				end := start + 1 + random.Int64N(step)
				putObject(t, lake, start, end)
				starts = append(starts, end)
			}
			r := bronze.NewReader(lake, "p")
			for range 20 {
				i := random.IntN(objects)
				for _, offset := range []int64{starts[i], starts[i+1] - 1} {
					lake.lists.Store(0)
					ref, m, err := r.Find(t.Context(), 0, offset)
					if err != nil || ref.Start != starts[i] || m.End != starts[i+1] || m.Start != starts[i] {
						t.Fatalf("%d objects of up to %d: offset %d: %+v %+v, %v, want %d to %d", objects, step, offset, ref, m, err, starts[i], starts[i+1])
					}
					if n := lake.lists.Load(); n > most {
						t.Errorf("%d objects of up to %d: offset %d: %d listings, want at most %d", objects, step, offset, n, most)
					}
				}
			}
			for _, offset := range []int64{-1, starts[objects], starts[objects] + 5, math.MaxInt64} {
				if _, _, err := r.Find(t.Context(), 0, offset); !errors.Is(err, smelt.ErrNotFound) {
					t.Errorf("%d objects of up to %d: offset %d: %v", objects, step, offset, err)
				}
			}
		}
	}
}

func TestReaderFindTrouble(t *testing.T) {
	t.Parallel()
	lake := store.NewMemory()
	r := bronze.NewReader(lake, "p")
	if _, _, err := r.Find(t.Context(), 0, 0); !errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("an empty lake: %v", err)
	}
	putObject(t, lake, 10, 20)
	putObject(t, lake, 30, 40)
	for offset, want := range map[int64]error{5: bronze.ErrBreak, 15: nil, 25: bronze.ErrBreak, 35: nil, 45: smelt.ErrNotFound} {
		if _, _, err := r.Find(t.Context(), 0, offset); !errors.Is(err, want) {
			t.Errorf("offset %d of a chain without an object: %v, want %v", offset, err, want)
		}
	}
}
