package silver

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"smelt/internal/duck"
)

// Lineages is a set of records: their offsets, by partition.
type Lineages map[int32]*roaring64.Bitmap

// ReadLineages reads the records that a relation names.
func ReadLineages(ctx context.Context, session *duck.Session, relation string) (Lineages, error) {
	l := Lineages{}
	err := session.Chunks(ctx, fmt.Sprintf("SELECT %s, %s FROM %s", colPartition, colOffset, relation), func(c duck.Chunk) error {
		for i := range c.Len {
			l.Add(c.Columns[0].Int32(i), c.Columns[1].Int64(i))
		}
		return nil
	})
	return l, err
}

// Add adds a record.
func (l Lineages) Add(partition int32, offset int64) {
	offsets := l[partition]
	if offsets == nil {
		offsets = roaring64.New()
		l[partition] = offsets
	}
	offsets.Add(uint64(offset))
}

// Take removes a record, and says whether it was there.
func (l Lineages) Take(partition int32, offset int64) bool {
	offsets := l[partition]
	return offsets != nil && offsets.CheckedRemove(uint64(offset))
}

// TakeBelow removes the records of a partition below an offset, and says how many
// they were.
func (l Lineages) TakeBelow(partition int32, end int64) (n int64) {
	offsets := l[partition]
	if offsets == nil || end <= 0 {
		return 0
	}
	n = int64(offsets.Rank(uint64(end) - 1))
	offsets.RemoveRange(0, uint64(end))
	return n
}

// Len is how many records there are.
func (l Lineages) Len() (n int64) {
	for _, offsets := range l {
		n += int64(offsets.GetCardinality())
	}
	return n
}

// First gives at most n records, in order.
func (l Lineages) First(n int) (out []string) {
	for _, partition := range l.Partitions() {
		for it := l[partition].Iterator(); it.HasNext() && len(out) < n; {
			out = append(out, fmt.Sprintf("%d:%d", partition, it.Next()))
		}
	}
	return out
}

// Partitions are those that have records, in order.
func (l Lineages) Partitions() []int32 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(l)), func(p int32) bool { return l[p].IsEmpty() })
}
