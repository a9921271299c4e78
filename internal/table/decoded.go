package table

import (
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// decodedEntries of manifests are kept, those used last, in some tens of MiB. To
// decode them is most of what a look at a table's files costs.
const decodedEntries = 10_000

// listed is an entry of a manifest. Its bounds are copied out of it once: they are
// looked at again and again.
type listed struct {
	iceberg.ManifestEntry
	once         sync.Once
	lower, upper map[int][]byte // by field id
}

func (l *listed) bounds() (lower, upper map[int][]byte) {
	l.once.Do(func() { l.lower, l.upper = l.DataFile().LowerBoundValues(), l.DataFile().UpperBoundValues() })
	return l.lower, l.upper
}

// decoded keeps the entries of manifests, which are immutable. It is safe for
// concurrent use.
type decoded struct {
	mu      sync.Mutex
	lru     *simplelru.LRU[string, []*listed]
	entries int
}

func newDecoded() *decoded {
	d := &decoded{}
	d.lru, _ = simplelru.NewLRU(decodedEntries, func(_ string, gone []*listed) { d.entries -= len(gone) }) // fails for no size only
	return d
}

// of gives the entries of a manifest, which read reads unless they are there.
func (d *decoded) of(path string, read func() ([]*listed, error)) ([]*listed, error) {
	d.mu.Lock()
	entries, ok := d.lru.Get(path)
	d.mu.Unlock()
	if ok {
		return entries, nil
	}
	entries, err := read()
	if err != nil || len(entries) > decodedEntries {
		return entries, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.lru.Contains(path) { // else another was faster
		d.lru.Add(path, entries)
		d.entries += len(entries)
	}
	for d.entries > decodedEntries {
		d.lru.RemoveOldest()
	}
	return entries, nil
}
