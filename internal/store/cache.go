package store

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"smelt"
	"smelt/internal/disk"
)

// Cache keeps copies of a store's immutable objects in a local folder, which
// belongs to one Cache at a time. It holds about maxBytes: beyond that, files go
// in the order of their last use, but none while it is pinned. It is safe for
// concurrent use.
type Cache struct {
	store smelt.Store
	dir   string
	max   int64 // bytes

	mu      sync.Mutex
	files   map[string]*cached // by cacheID; only those that are wholly there
	recent  *list.List         // of *cached, the last used in front
	size    int64              // bytes of all files
	flights map[string]*flight // by cacheID; downloads under way
}

type cached struct {
	id    string
	path  string
	size  int64
	pins  int
	place *list.Element // nil once it is out of the cache
}

// flight is a download that others wait for.
type flight struct {
	done chan struct{} // closed at the end
	err  error         // valid then
}

// NewCache opens the cache in a folder, which it creates if necessary. It serves complete files of an earlier
// Cache, removes incomplete ones, and leaves other files alone.
func NewCache(s smelt.Store, dir string, maxBytes int64) (*Cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cache %s: %w", dir, err)
	}
	c := &Cache{
		store:   s,
		dir:     dir,
		max:     maxBytes,
		files:   make(map[string]*cached),
		recent:  list.New(),
		flights: make(map[string]*flight),
	}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("cache %s: %w", dir, disk.Explain(err, dir))
	}
	return c, nil
}

// Fetch returns the path of a local copy of an object, which stays there until
// release is called, once or more. Calls that overlap download once.
func (c *Cache) Fetch(ctx context.Context, key string) (path string, release func(), err error) {
	if err := checkKey(key); err != nil {
		return "", nil, fmt.Errorf("fetch %q: %w", key, err)
	}
	id := cacheID(key)
	for {
		c.mu.Lock()
		if f := c.valid(id); f != nil {
			release := c.pin(f)
			c.mu.Unlock()
			return f.path, release, nil
		}
		other := c.flights[id]
		if other == nil {
			mine := &flight{done: make(chan struct{})}
			c.flights[id] = mine
			c.mu.Unlock()
			return c.fly(ctx, key, mine)
		}
		c.mu.Unlock()

		select {
		case <-ctx.Done():
			return "", nil, fmt.Errorf("fetch %s: %w", key, ctx.Err())
		case <-other.done:
		}
		// The end of the other's ctx says nothing about the object.
		if err := other.err; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			return "", nil, err
		}
	}
}

// fly downloads an object for everyone who waits for it.
func (c *Cache) fly(ctx context.Context, key string, mine *flight) (string, func(), error) {
	id := cacheID(key)
	temp, size, err := c.download(ctx, key)
	if disk.Full(err) && c.clear() {
		temp, size, err = c.download(ctx, key)
	}
	if err != nil {
		err = fmt.Errorf("fetch %s: %w", key, disk.Explain(err, c.dir))
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	var f *cached
	if err == nil {
		f, err = c.add(id, key, temp, size)
	}
	mine.err = err
	delete(c.flights, id)
	close(mine.done)
	if err != nil {
		return "", nil, err
	}
	release := c.pin(f)
	c.evict()
	return f.path, release, nil
}

// clear removes all unused files, because the disk is full and others need it, too. It says whether there were
// any.
func (c *Cache) clear() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.size
	c.shrink(0)
	return c.size < before
}

// download writes an object to a temporary file of the folder.
func (c *Cache) download(ctx context.Context, key string) (temp string, size int64, err error) {
	body, object, err := c.store.Get(ctx, key)
	if err != nil {
		return "", 0, err
	}
	defer body.Close()
	temp, size, err = c.writeTemp(body)
	if err != nil {
		return "", 0, err
	}
	if size != object.Size {
		os.Remove(temp)
		return "", 0, smelt.Mark(smelt.ErrStore, fmt.Errorf("truncated: %d of %d bytes came", size, object.Size))
	}
	return temp, size, nil
}

// createTemp makes a temporary file in the folder, and the folder when somebody who
// tidied up has removed it.
func (c *Cache) createTemp() (*os.File, error) {
	f, err := os.CreateTemp(c.dir, tempPrefix+"*")
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	return os.CreateTemp(c.dir, tempPrefix+"*")
}

func (c *Cache) writeTemp(body io.Reader) (temp string, size int64, err error) {
	f, err := c.createTemp()
	if err != nil {
		return "", 0, err
	}
	size, err = io.Copy(f, body)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(f.Name())
		return "", 0, err
	}
	return f.Name(), size, nil
}

// Adopt moves a local file that the caller has put to the store as key into the cache. The caller's path no
// longer exists afterwards.
func (c *Cache) Adopt(key, localPath string) error {
	if err := c.adopt(key, localPath); err != nil {
		return fmt.Errorf("adopt %s: %w", key, disk.Explain(err, c.dir))
	}
	return nil
}

func (c *Cache) adopt(key, localPath string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	temp, size, err := c.takeIn(localPath)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.add(cacheID(key), key, temp, size); err != nil {
		return err
	}
	c.evict()
	return nil
}

// takeIn moves a file to a temporary name of the folder; from another file
// system, where it cannot be renamed, by copying it.
func (c *Cache) takeIn(localPath string) (temp string, size int64, err error) {
	info, err := os.Stat(localPath)
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() {
		return "", 0, fmt.Errorf("%s is not a file", localPath)
	}
	f, err := c.createTemp()
	if err != nil {
		return "", 0, err
	}
	f.Close()
	if err := os.Rename(localPath, f.Name()); err == nil {
		return f.Name(), info.Size(), nil
	}
	os.Remove(f.Name())

	source, err := os.Open(localPath)
	if err != nil {
		return "", 0, err
	}
	defer source.Close()
	if temp, size, err = c.writeTemp(source); err != nil {
		return "", 0, err
	}
	if err := os.Remove(localPath); err != nil {
		os.Remove(temp)
		return "", 0, err
	}
	return temp, size, nil
}
