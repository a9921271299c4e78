package table

import (
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// decodedEntries of manifests are kept, those used last, in some tens of MiB. To
// decode them is most of what a look at a table's files costs.
const decodedEntries = 20_000

// decoded keeps the entries of manifests, which are immutable. It is safe for
// concurrent use.
type decoded struct {
	mu      sync.Mutex
	lru     *simplelru.LRU[string, []iceberg.ManifestEntry]
	entries int
}

func newDecoded() *decoded {
	d := &decoded{}
	d.lru, _ = simplelru.NewLRU(decodedEntries, func(_ string, gone []iceberg.ManifestEntry) { d.entries -= len(gone) }) // fails for no size only
	return d
}

// of gives the entries of a manifest, which read reads unless they are there.
func (d *decoded) of(path string, read func() ([]iceberg.ManifestEntry, error)) ([]iceberg.ManifestEntry, error) {
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
