package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// tempPrefix begins the name of a file that is not wholly there yet.
const tempPrefix = "incoming-"

// cacheName is the name of a complete file: the hash of its key, its size, which reveals a file truncated by a power
// failure, and the key's suffix.
var cacheName = regexp.MustCompile(`^([0-9a-f]{64})-([0-9]{1,18})(\.[a-z0-9]{1,16})?$`)

func cacheID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func fileName(key string, size int64) string {
	name := cacheID(key) + "-" + strconv.FormatInt(size, 10)
	if suffix := strings.ToLower(path.Ext(key)); cacheName.MatchString(name + suffix) {
		return name + suffix
	}
	return name
}

// load takes in what an earlier Cache left, the oldest as the least recent.
func (c *Cache) load() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var infos []fs.FileInfo
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tempPrefix) {
			if err := os.Remove(filepath.Join(c.dir, entry.Name())); err != nil {
				return err
			}
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range infos {
		if err := c.loadFile(info); err != nil {
			return err
		}
	}
	c.evict()
	return nil
}

func (c *Cache) loadFile(info fs.FileInfo) error {
	parts := cacheName.FindStringSubmatch(info.Name())
	if parts == nil || !info.Mode().IsRegular() {
		return nil // not a cache's
	}
	file := filepath.Join(c.dir, info.Name())
	id := parts[1]
	if size, err := strconv.ParseInt(parts[2], 10, 64); err != nil || size != info.Size() || c.files[id] != nil {
		return os.Remove(file)
	}
	c.insert(&cached{id: id, path: file, size: info.Size()})
	return nil
}

// The functions below need c.mu.

// valid returns a file that is in the cache and still whole on the disk.
func (c *Cache) valid(id string) *cached {
	f := c.files[id]
	if f == nil {
		return nil
	}
	if info, err := os.Stat(f.path); err != nil || info.Size() != f.size {
		c.drop(f) // somebody cleared the folder
		return nil
	}
	return f
}

// add gives a whole temporary file its name and its place. A file that is there
// already stays, for it may be in use.
func (c *Cache) add(id, key, temp string, size int64) (*cached, error) {
	if f := c.valid(id); f != nil {
		os.Remove(temp)
		return f, nil
	}
	f := &cached{id: id, path: filepath.Join(c.dir, fileName(key, size)), size: size}
	if err := os.Rename(temp, f.path); err != nil {
		os.Remove(temp)
		return nil, fmt.Errorf("take in %s: %w", key, err)
	}
	c.insert(f)
	return f, nil
}

func (c *Cache) insert(f *cached) {
	f.place = c.recent.PushFront(f)
	c.files[f.id] = f
	c.size += f.size
}

func (c *Cache) drop(f *cached) {
	c.recent.Remove(f.place)
	f.place = nil
	delete(c.files, f.id)
	c.size -= f.size
}

// pin marks a file as used, and in use until it is released.
func (c *Cache) pin(f *cached) (release func()) {
	f.pins++
	c.recent.MoveToFront(f.place)
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f.pins--
		c.evict()
	})
}

// evict removes the least recently used files that are not pinned, until the rest fits. It forgets a file that
// cannot be removed; the next Cache finds it.
func (c *Cache) evict() { c.shrink(c.max) }

// shrink is evict for so many bytes.
func (c *Cache) shrink(most int64) {
	for place := c.recent.Back(); place != nil && c.size > most; {
		f := place.Value.(*cached)
		place = place.Prev()
		if f.pins == 0 {
			c.drop(f)
			os.Remove(f.path)
		}
	}
}
