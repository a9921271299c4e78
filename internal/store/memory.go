package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"smelt"
)

// Memory is a [smelt.Store] in memory. It is safe for concurrent use.
type Memory struct {
	mu      sync.RWMutex
	objects map[string]stored
	keys    []string // sorted by bytes
}

type stored struct {
	smelt.Object
	body []byte // never written to once stored
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{objects: make(map[string]stored)}
}

// Clone returns an independent store with the same objects, with the same times.
func (m *Memory) Clone() *Memory {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return &Memory{objects: maps.Clone(m.objects), keys: slices.Clone(m.keys)}
}

// Get opens an object.
func (m *Memory) Get(ctx context.Context, key string) (io.ReadCloser, smelt.Object, error) {
	o, err := m.find(ctx, key)
	if err != nil {
		return nil, smelt.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	return io.NopCloser(bytes.NewReader(o.body)), o.Object, nil
}

// Stat describes an object.
func (m *Memory) Stat(ctx context.Context, key string) (smelt.Object, error) {
	o, err := m.find(ctx, key)
	if err != nil {
		return smelt.Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return o.Object, nil
}

func (m *Memory) find(ctx context.Context, key string) (stored, error) {
	if err := ctx.Err(); err != nil {
		return stored{}, err
	}
	if err := checkKey(key); err != nil {
		return stored{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[key]
	if !ok {
		return stored{}, smelt.ErrNotFound
	}
	o.Meta = maps.Clone(o.Meta)
	return o, nil
}

// Put writes a whole object.
func (m *Memory) Put(ctx context.Context, key string, body io.ReadSeeker, opts smelt.PutOptions) error {
	if err := m.put(ctx, key, body, opts); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

func (m *Memory) put(ctx context.Context, key string, body io.ReadSeeker, opts smelt.PutOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	if err := checkMeta(opts.Meta); err != nil {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	meta := maps.Clone(opts.Meta)
	if meta == nil {
		meta = make(map[string]string)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	_, taken := m.objects[key]
	if taken && opts.IfAbsent {
		return smelt.ErrExists
	}
	if !taken {
		at, _ := slices.BinarySearch(m.keys, key)
		m.keys = slices.Insert(m.keys, at, key)
	}
	m.objects[key] = stored{
		Object: smelt.Object{Key: key, Size: int64(len(data)), Modified: time.Now(), Meta: meta},
		body:   data,
	}
	return nil
}

// List returns the first objects after a key, in the order of their bytes.
func (m *Memory) List(ctx context.Context, prefix, after string, limit int) ([]smelt.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	start := sort.Search(len(m.keys), func(i int) bool {
		return m.keys[i] > after && m.keys[i] >= prefix
	})
	var found []smelt.Object
	for _, key := range m.keys[start:] {
		if len(found) >= limit || !strings.HasPrefix(key, prefix) {
			break
		}
		o := m.objects[key].Object
		o.Meta = nil
		found = append(found, o)
	}
	return found, nil
}

// Delete removes objects, those that exist.
func (m *Memory) Delete(ctx context.Context, keys ...string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if _, ok := m.objects[key]; !ok {
			continue
		}
		delete(m.objects, key)
		at, _ := slices.BinarySearch(m.keys, key)
		m.keys = slices.Delete(m.keys, at, at+1)
	}
	return nil
}
