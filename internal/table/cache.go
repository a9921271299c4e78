package table

import (
	"container/list"
	"sync"
)

const (
	// Manifests and manifest lists are written once and read at each commit, so
	// their bytes are kept. A manifest of a thousand files takes some 100 KiB.
	cacheBytes = 64 << 20

	// cacheFiles is how many entries of manifests are kept decoded. An entry of a table
	// of ten columns takes some 6 KiB.
	cacheFiles = 10_000

	// cacheManifests is how many entries of manifest lists are kept decoded, some 1 KiB each.
	cacheManifests = 10_000
)

// cache keeps values made of immutable objects, the most recently used ones, up
// to a total size.
type cache[V any] struct {
	max int

	mu      sync.Mutex
	size    int
	entries map[string]*list.Element
	order   *list.List // of *cached, the most recently used first
}

type cached[V any] struct {
	key   string
	value V
	size  int
}

func newCache[V any](max int) *cache[V] {
	return &cache[V]{max: max, entries: map[string]*list.Element{}, order: list.New()}
}

func (c *cache[V]) get(key string) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached[V]).value, true
}

// put keeps a value in place of the key's last one. A value of more than a quarter
// of the total is left out: none may push out the rest.
func (c *cache[V]) put(key string, value V, size int) {
	if size > c.max/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		c.drop(e)
	}
	c.entries[key] = c.order.PushFront(&cached[V]{key, value, size})
	c.size += size
	for c.size > c.max {
		c.drop(c.order.Back())
	}
}

func (c *cache[V]) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		c.drop(e)
	}
}

func (c *cache[V]) drop(e *list.Element) {
	entry := c.order.Remove(e).(*cached[V])
	delete(c.entries, entry.key)
	c.size -= entry.size
}
