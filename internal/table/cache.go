package table

import (
	"container/list"
	"sync"
)

// Manifests and manifest lists are written once and read at each commit, so
// their bytes are kept. A manifest of a thousand files takes some 100 KiB.
const cacheBytes = 64 << 20

// cacheObject is the largest object that is kept: none may push out the rest.
const cacheObject = cacheBytes / 4

// cache keeps the bytes of immutable objects, the most recently used ones, up
// to cacheBytes.
type cache struct {
	mu      sync.Mutex
	size    int
	entries map[string]*list.Element
	order   *list.List // of *cached, the most recently used first
}

type cached struct {
	key  string
	data []byte
}

func newCache() *cache {
	return &cache{entries: map[string]*list.Element{}, order: list.New()}
}

func (c *cache) get(key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).data, true
}

func (c *cache) put(key string, data []byte) {
	if len(data) > cacheObject {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[key]; ok {
		return
	}
	c.entries[key] = c.order.PushFront(&cached{key, data})
	c.size += len(data)
	for c.size > cacheBytes {
		c.drop(c.order.Back())
	}
}

func (c *cache) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		c.drop(e)
	}
}

func (c *cache) drop(e *list.Element) {
	entry := c.order.Remove(e).(*cached)
	delete(c.entries, entry.key)
	c.size -= len(entry.data)
}
