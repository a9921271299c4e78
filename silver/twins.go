package silver

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math"
	"slices"
)

// twins finds rows that repeat another row: their keys are equal, and their event times
// differ by the tolerance at most. It keeps the keys of new rows, and takes known rows one
// by one. So its memory depends on the new rows and on how many rows share their keys.
type twins struct {
	tolerance int64 // microseconds
	seed      maphash.Seed

	slots []slot
	keys  []byte   // of all new rows, one after the other
	ends  []int    // where each key ends
	sums  []uint64 // its hash
	first []int32  // the newest of the rows that have it, from which next leads on

	rows   []seen  // new ones
	next   []int32 // by row: another one of its key, or -1
	known  map[int32][]seen
	shared map[int32]bool // keys that several new rows have
}

// slot is a place of the hash table: the number of a key, and the rest of its hash, so that most unequal keys differ at once.
type slot struct {
	tag    uint32
	number int32 // and 1; 0: the slot is free
}

// seen is a row by its event time and lineage.
type seen struct {
	at        int64 // microseconds since 1970
	had       int64 // when the broker had the record, likewise; noTime when that is not known
	partition int32
	offset    int64
	row       int32 // in the caller's numbers
}

// noTime comes before every time.
const noTime = math.MinInt64

// twin is a duplicate and the row that it is one of.
type twin struct{ row, of seen }

func newTwins(tolerance int64) *twins {
	return &twins{
		tolerance: tolerance, seed: maphash.MakeSeed(), slots: make([]slot, 1024),
		known: map[int32][]seen{}, shared: map[int32]bool{},
	}
}

// reset forgets all rows. The memory stays for the next ones.
func (t *twins) reset() {
	clear(t.slots)
	clear(t.known)
	clear(t.shared)
	t.keys, t.ends, t.sums, t.first = t.keys[:0], t.ends[:0], t.sums[:0], t.first[:0]
	t.rows, t.next = t.rows[:0], t.next[:0]
}

// add takes in a new row.
func (t *twins) add(key []byte, row seen) {
	if 2*len(t.ends) >= len(t.slots) {
		t.grow()
	}
	sum := maphash.Bytes(t.seed, key)
	at, k := t.find(sum, key)
	before := int32(-1)
	if k < 0 {
		k = int32(len(t.ends))
		t.slots[at] = slot{uint32(sum >> 32), k + 1}
		t.keys = append(t.keys, key...)
		t.ends, t.sums, t.first = append(t.ends, len(t.keys)), append(t.sums, sum), append(t.first, 0)
	} else {
		before, t.shared[k] = t.first[k], true
	}
	t.first[k] = int32(len(t.rows))
	t.rows, t.next = append(t.rows, row), append(t.next, before)
}

// meet takes in a row that silver has, if it has the key of a new one.
func (t *twins) meet(key []byte, row seen) {
	if _, k := t.find(maphash.Bytes(t.seed, key), key); k >= 0 {
		t.known[k] = append(t.known[k], row)
	}
}

// find gives the number of a key, or -1 and the slot where it would be.
func (t *twins) find(sum uint64, key []byte) (at int, k int32) {
	mask := len(t.slots) - 1
	for at = int(sum) & mask; ; at = (at + 1) & mask {
		s := t.slots[at]
		if s.number == 0 || s.tag == uint32(sum>>32) && bytes.Equal(t.key(s.number-1), key) {
			return at, s.number - 1
		}
	}
}

func (t *twins) key(k int32) []byte {
	begin := 0
	if k > 0 {
		begin = t.ends[k-1]
	}
	return t.keys[begin:t.ends[k]]
}

func (t *twins) grow() {
	t.slots = make([]slot, 2*len(t.slots))
	mask := len(t.slots) - 1
	for k, sum := range t.sums {
		at := int(sum) & mask
		for t.slots[at].number != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = slot{uint32(sum >> 32), int32(k) + 1}
	}
}

// found returns the duplicates. It takes the rows of a key in broker order, those of silver first. A new row that is near a row
// that stays is its duplicate. Any other row stays.
func (t *twins) found() (found []twin) {
	shared := make([]int32, 0, len(t.known)+len(t.shared))
	for k := range t.known {
		shared = append(shared, k)
	}
	for k := range t.shared {
		if _, both := t.known[k]; !both {
			shared = append(shared, k)
		}
	}
	slices.Sort(shared)
	var fresh, kept []seen // kept in the order of their times
	for _, k := range shared {
		kept = append(kept[:0], t.known[k]...)
		slices.SortFunc(kept, func(a, b seen) int { return cmp.Compare(a.at, b.at) })
		fresh = fresh[:0]
		for i := t.first[k]; i >= 0; i = t.next[i] {
			fresh = append(fresh, t.rows[i])
		}
		slices.SortFunc(fresh, func(a, b seen) int {
			return cmp.Or(cmp.Compare(a.had, b.had), cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
		})
		for _, row := range fresh {
			i, _ := slices.BinarySearchFunc(kept, row.at, func(k seen, at int64) int { return cmp.Compare(k.at, at) })
			if of, ok := t.near(kept, i, row); ok {
				found = append(found, twin{row, of})
				continue
			}
			kept = slices.Insert(kept, i, row)
		}
	}
	return found
}

// near looks around place i of kept for rows within the tolerance, and gives
// the one with the lowest lineage.
func (t *twins) near(kept []seen, i int, row seen) (of seen, ok bool) {
	take := func(k seen) {
		if !ok || cmp.Or(cmp.Compare(k.partition, of.partition), cmp.Compare(k.offset, of.offset)) < 0 {
			of, ok = k, true
		}
	}
	for j := i; j < len(kept) && kept[j].at-row.at <= t.tolerance; j++ {
		take(kept[j])
	}
	for j := i - 1; j >= 0 && row.at-kept[j].at <= t.tolerance; j-- {
		take(kept[j])
	}
	return of, ok
}
