package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	iceio "github.com/apache/iceberg-go/io"

	"smelt"
)

// storeIO gives iceberg-go the lake's store, for the time of one call. Its
// methods take no context, hence it holds the call's. It reads and writes
// metadata only, whole objects in memory.
type storeIO struct {
	ctx   context.Context
	lake  *Lake
	texts map[int][]bool // fields of the table's partitionings that are texts, by their ids; nil: nothing is written

	mu      sync.Mutex
	written []string // keys, in the order written
}

var (
	_ iceio.ReadFileIO  = (*storeIO)(nil)
	_ iceio.WriteFileIO = (*storeIO)(nil)
)

// Open implements iceberg-go's IO.
func (s *storeIO) Open(name string) (iceio.File, error) {
	data, err := s.read(name)
	if err != nil {
		return nil, err
	}
	return &readFile{bytes.NewReader(data), path.Base(name)}, nil
}

// ReadFile implements iceberg-go's ReadFileIO: the caller may change the bytes.
func (s *storeIO) ReadFile(name string) ([]byte, error) {
	data, err := s.read(name)
	return bytes.Clone(data), err
}

// Create implements iceberg-go's WriteFileIO: the object is there once the
// writer was closed without an error.
func (s *storeIO) Create(name string) (iceio.FileWriter, error) {
	return &writeFile{io: s, name: name}, nil
}

// WriteFile implements iceberg-go's WriteFileIO.
func (s *storeIO) WriteFile(name string, data []byte) error {
	key, err := s.lake.key(name)
	if err != nil {
		return err
	}
	if isManifestList(key) {
		if data, err = withEmptyBounds(data, s.texts); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.written = append(s.written, key)
	s.mu.Unlock()
	if err := s.lake.store.Put(s.ctx, key, bytes.NewReader(data), smelt.PutOptions{}); err != nil {
		return smelt.Mark(smelt.ErrStore, err)
	}
	if immutable(key) {
		s.lake.cache.put(key, bytes.Clone(data), len(data))
	}
	return nil
}

// Remove implements iceberg-go's IO.
func (s *storeIO) Remove(name string) error {
	key, err := s.lake.key(name)
	if err != nil {
		return err
	}
	return s.lake.remove(s.ctx, []string{key})
}

func (s *storeIO) read(name string) ([]byte, error) {
	key, err := s.lake.key(name)
	if err != nil {
		return nil, err
	}
	if data, ok := s.lake.cache.get(key); ok {
		return data, nil
	}
	data, err := s.get(key)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, smelt.Mark(smelt.ErrStore, err)
	}
	if immutable(key) {
		s.lake.cache.put(key, data, len(data))
	}
	return data, nil
}

func (s *storeIO) get(key string) ([]byte, error) {
	body, object, err := s.lake.store.Get(s.ctx, key)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err == nil && int64(len(data)) != object.Size {
		err = fmt.Errorf("got %d bytes of %d: %w", len(data), object.Size, io.ErrUnexpectedEOF)
	}
	return data, err
}

// immutable tells manifests and manifest lists, whose names are never used
// again, from the rest.
func immutable(key string) bool { return strings.HasSuffix(key, ".avro") }

type readFile struct {
	*bytes.Reader
	name string
}

func (f *readFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *readFile) Close() error               { return nil }
func (f *readFile) Name() string               { return f.name }
func (f *readFile) Mode() fs.FileMode          { return 0o444 }
func (f *readFile) ModTime() time.Time         { return time.Time{} }
func (f *readFile) IsDir() bool                { return false }
func (f *readFile) Sys() any                   { return nil }

type writeFile struct {
	bytes.Buffer
	io     *storeIO
	name   string
	closed bool
}

func (f *writeFile) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	return f.io.WriteFile(f.name, f.Bytes())
}

// iceFS is iceberg-go's name for what a storeIO is.
type iceFS = iceio.IO

// fs gives iceberg-go the store for one of its own reads.
func (l *Lake) fs(ctx context.Context) (iceFS, error) { return &storeIO{ctx: ctx, lake: l}, nil }
