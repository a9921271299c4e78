package store_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"smelt"
	"smelt/internal/store"
)

// counted is a store that counts its downloads, and may change them.
type counted struct {
	smelt.Store
	gets atomic.Int64
	body func(io.ReadCloser) io.ReadCloser // nil: as it is
}

func (c *counted) Get(ctx context.Context, key string) (io.ReadCloser, smelt.Object, error) {
	c.gets.Add(1)
	body, object, err := c.Store.Get(ctx, key)
	if err == nil && c.body != nil {
		body = c.body(body)
	}
	return body, object, err
}

// stocked returns a store that has an object of ten bytes at each key.
func stocked(t *testing.T, keys ...string) *counted {
	t.Helper()
	s := store.NewMemory()
	for _, key := range keys {
		if err := s.Put(t.Context(), key, strings.NewReader(content(key)), smelt.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return &counted{Store: s}
}

func content(key string) string { return (key + "..........")[:10] }

func newCache(t *testing.T, s smelt.Store, dir string, maxBytes int64) *store.Cache {
	t.Helper()
	c, err := store.NewCache(s, dir, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fetch fetches an object and checks its bytes.
func fetch(t *testing.T, c *store.Cache, key string) (path string, release func()) {
	t.Helper()
	path, release, err := c.Fetch(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != content(key) {
		t.Fatalf("%s holds %q, %v", key, data, err)
	}
	return path, release
}

func wantGets(t *testing.T, s *counted, want int64) {
	t.Helper()
	if got := s.gets.Load(); got != want {
		t.Errorf("%d downloads, want %d", got, want)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestCacheFetch(t *testing.T) {
	t.Parallel()
	keys := []string{"a/1.parquet", "../../etc/1", "x.ndjson.zst", "odd.p q/%r", "/", ".", "dot.", "UPPER.PARQUET"}
	dir := filepath.Join(t.TempDir(), "new", "cache")
	s := stocked(t, keys...)
	c := newCache(t, s, dir, 1<<20)
	for range 2 {
		for _, key := range keys {
			path, release := fetch(t, c, key)
			if filepath.Dir(path) != dir {
				t.Errorf("%q is kept at %s, outside of %s", key, path, dir)
			}
			if strings.HasSuffix(key, ".parquet") != strings.HasSuffix(path, ".parquet") && key != "UPPER.PARQUET" {
				t.Errorf("%q is kept at %s", key, path)
			}
			release()
			release() // a second time changes nothing
		}
	}
	wantGets(t, s, int64(len(keys)))

	if _, _, err := c.Fetch(t.Context(), "missing"); !errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if n := len(files(t, dir)); n != len(keys) {
		t.Errorf("%d files, want %d", n, len(keys))
	}
}

func TestCacheEviction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stocked(t, "1", "2", "3", "4")
	c := newCache(t, s, dir, 20)

	_, release1 := fetch(t, c, "1")
	for _, key := range []string{"2", "3", "2"} {
		_, release := fetch(t, c, key)
		release()
	}
	wantGets(t, s, 4) // 1 is pinned, so that 2 or 3 alone fit beside it; 3 put 2 out
	path1, again1 := fetch(t, c, "1")
	again1()
	wantGets(t, s, 4)

	path2, release2 := fetch(t, c, "2")
	_, release4 := fetch(t, c, "4") // all pinned: over the bound
	if n := len(files(t, dir)); n != 3 {
		t.Errorf("%d files, want the 3 that are pinned", n)
	}
	release1()
	if _, err := os.Stat(path1); !os.IsNotExist(err) {
		t.Errorf("the released file is still there: %v", err)
	}
	release2()
	release4()
	if _, err := os.Stat(path2); err != nil {
		t.Errorf("a file that fits is gone: %v", err)
	}
}

func TestCacheReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stocked(t, "1.parquet", "2.parquet", "3.parquet")
	c := newCache(t, s, dir, 1<<20)
	var paths []string
	for _, key := range []string{"1.parquet", "2.parquet", "3.parquet"} {
		path, release := fetch(t, c, key)
		release()
		paths = append(paths, path)
	}
	foreign := []string{"README", "0123.parquet", filepath.Base(paths[0]) + ".bak"}
	for _, name := range append(foreign, "incoming-123") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("foreign"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(paths[1], 3); err != nil {
		t.Fatal(err)
	}

	c = newCache(t, s, dir, 1<<20)
	want := append([]string{filepath.Base(paths[0]), filepath.Base(paths[2])}, foreign...)
	slices.Sort(want)
	if got := files(t, dir); !slices.Equal(got, want) {
		t.Errorf("after reopening:\n got %q\nwant %q", got, want)
	}
	for _, key := range []string{"1.parquet", "2.parquet", "3.parquet"} {
		_, release := fetch(t, c, key)
		release()
	}
	wantGets(t, s, 4)

	newCache(t, s, dir, 15)
	if got := len(files(t, dir)); got != 1+len(foreign) {
		t.Errorf("a smaller cache kept %d files, want 1 and the %d foreign ones", got, len(foreign))
	}
}

func TestCacheDamagedWhileOpen(t *testing.T) {
	t.Parallel()
	s := stocked(t, "1", "2")
	c := newCache(t, s, t.TempDir(), 1<<20)
	path1, release1 := fetch(t, c, "1")
	path2, release2 := fetch(t, c, "2")
	release2()
	if err := errors.Join(os.Remove(path1), os.Truncate(path2, 1)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"1", "2", "1", "2"} {
		_, release := fetch(t, c, key)
		release()
	}
	release1()
	wantGets(t, s, 4)
}

func TestCacheTruncatedDownload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stocked(t, "k")
	broken := errors.New("connection lost")
	c := newCache(t, s, dir, 1<<20)
	for _, tt := range []struct {
		reader io.Reader
		want   error
	}{
		{strings.NewReader("half"), smelt.ErrStore},
		{strings.NewReader("more than the whole"), smelt.ErrStore},
		{io.MultiReader(strings.NewReader("half"), &failing{broken}), broken},
	} {
		s.body = func(io.ReadCloser) io.ReadCloser { return io.NopCloser(tt.reader) }
		if _, _, err := c.Fetch(t.Context(), "k"); !errors.Is(err, tt.want) {
			t.Errorf("got %v, want %v", err, tt.want)
		}
	}
	if got := files(t, dir); len(got) > 0 {
		t.Errorf("failed downloads left %q", got)
	}
	s.body = nil
	_, release := fetch(t, c, "k")
	release()
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestCacheDownloadsOnce(t *testing.T) {
	t.Parallel()
	s := stocked(t, "k")
	started, proceed := make(chan struct{}), make(chan struct{})
	s.body = func(b io.ReadCloser) io.ReadCloser {
		close(started) // panics when there is a second download
		<-proceed
		return b
	}
	c := newCache(t, s, t.TempDir(), 1<<20)
	var group sync.WaitGroup
	load := func() {
		_, release := fetch(t, c, "k")
		release()
	}
	group.Go(load)
	<-started
	for range 10 {
		group.Go(load)
	}
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Fetch(waiting, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled waiter got %v", err)
	}
	close(proceed)
	group.Wait()
	wantGets(t, s, 1)
}

// TestCacheLeaderCancelled ends the ctx of the call that downloads: those who
// wait for it download themselves.
func TestCacheLeaderCancelled(t *testing.T) {
	t.Parallel()
	s := stocked(t, "k")
	started, proceed := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	s.body = func(b io.ReadCloser) io.ReadCloser {
		if first.Swap(true) {
			return b
		}
		close(started)
		<-proceed
		return io.NopCloser(&failing{ctx.Err()})
	}
	c := newCache(t, s, t.TempDir(), 1<<20)
	var group sync.WaitGroup
	group.Go(func() {
		if _, _, err := c.Fetch(ctx, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled call got %v", err)
		}
	})
	<-started
	group.Go(func() {
		_, release := fetch(t, c, "k")
		release()
	})
	cancel()
	close(proceed)
	group.Wait()
}

func TestCacheAdopt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stocked(t, "1.parquet", "2.parquet")
	c := newCache(t, s, dir, 15)
	local := filepath.Join(t.TempDir(), "part-0.parquet")
	for _, key := range []string{"1.parquet", "1.parquet", "2.parquet"} {
		if err := os.WriteFile(local, []byte(content(key)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Adopt(key, local); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(local); !os.IsNotExist(err) {
			t.Errorf("the local file is still there: %v", err)
		}
		_, release := fetch(t, c, key)
		release()
	}
	wantGets(t, s, 0)
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("%q is kept, want one file", got)
	}
	if err := c.Adopt("3.parquet", local); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("adopting nothing: %v", err)
	}
	if err := c.Adopt("3.parquet", t.TempDir()); err == nil {
		t.Error("a folder was adopted")
	}
}

func TestCacheConcurrently(t *testing.T) {
	t.Parallel()
	keys := []string{"1", "2", "3", "4", "5"}
	dir := t.TempDir()
	s := stocked(t, keys...)
	c := newCache(t, s, dir, 20)
	scratch := t.TempDir()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 100 {
				key := keys[(i*7+worker)%len(keys)]
				if i%10 == 0 {
					local := filepath.Join(scratch, string(rune('a'+worker)))
					if err := os.WriteFile(local, []byte(content(key)), 0o600); err != nil {
						t.Error(err)
					}
					if err := c.Adopt(key, local); err != nil {
						t.Error(err)
					}
				}
				path, release, err := c.Fetch(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				if data, err := os.ReadFile(path); err != nil || string(data) != content(key) {
					t.Errorf("%s holds %q, %v", key, data, err)
				}
				release()
			}
		})
	}
	group.Wait()
	if got := files(t, dir); len(got) > 2 {
		t.Errorf("%q is kept, more than the bound", got)
	}
}

// A folder that somebody has removed is made again.
func TestCacheFolderGone(t *testing.T) {
	t.Parallel()
	s, dir := stocked(t, "a", "b"), filepath.Join(t.TempDir(), "cache")
	c := newCache(t, s, dir, 100)
	for range 2 {
		for _, key := range []string{"a", "b"} {
			_, release := fetch(t, c, key)
			release()
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	local := filepath.Join(t.TempDir(), "c")
	if err := os.WriteFile(local, []byte(content("c")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Adopt("c", local); err != nil {
		t.Fatal(err)
	}
	_, release := fetch(t, c, "c")
	release()
	if got := s.gets.Load(); got != 4 {
		t.Errorf("%d downloads, want 4", got)
	}
}

// full is a body that does not fit on the disk.
type full struct {
	io.ReadCloser
	why syscall.Errno
}

func (f full) Read([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "x", Err: f.why}
}

// On a full disk the cache evicts unused files. If that is not enough, it says where space is needed.
func TestCacheDiskFull(t *testing.T) {
	t.Parallel()
	for _, why := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		t.Run(why.Error(), func(t *testing.T) {
			t.Parallel()
			testCacheFull(t, why)
		})
	}
}

func testCacheFull(t *testing.T, why syscall.Errno) {
	s, dir := stocked(t, "a", "b", "c"), t.TempDir()
	c := newCache(t, s, dir, 100)
	used, release := fetch(t, c, "a")
	defer release()
	unused, done := fetch(t, c, "b")
	done()
	s.body = func(body io.ReadCloser) io.ReadCloser {
		if _, err := os.Stat(unused); err == nil {
			return full{body, why}
		}
		return body
	}
	_, done = fetch(t, c, "c")
	done()
	if _, err := os.Stat(used); err != nil {
		t.Errorf("a file in use is gone: %v", err)
	}
	s.body = func(body io.ReadCloser) io.ReadCloser { return full{body, why} }
	if _, _, err := c.Fetch(t.Context(), "b"); !errors.Is(err, why) || !strings.Contains(err.Error(), "make room on the disk of "+dir) {
		t.Errorf("got %v", err)
	}
	s.body = nil
	_, done = fetch(t, c, "b")
	done()
	for _, name := range files(t, dir) {
		if strings.HasPrefix(name, "incoming-") {
			t.Errorf("%s is left", name)
		}
	}
}
