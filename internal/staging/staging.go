// Package staging moves files between the lake and the local disk: data files
// that DuckDB is to read are fetched through the cache, and those that it wrote
// are uploaded. Silver, gold and backfill stand on it.
package staging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/table"
)

// transfers is how many files move at once: enough to hide the store's
// latency, few enough to leave it room for others.
const transfers = 8

// Area is where a stage's files come and go.
type Area struct {
	Store smelt.Store
	Lake  *table.Lake
	Cache *store.Cache
}

// Staged is a file that was written locally and uploaded, and is in no table yet.
type Staged struct {
	File  table.File
	local string
}

// Upload puts local Parquet files into a table's folder, under names that are never used again. After an error none of them is
// staged, and those that had arrived are deleted, so that an unreliable store does not fill up with unused files.
func (a Area) Upload(ctx context.Context, t *table.Table, files []smelt.DataFile) ([]Staged, error) {
	return a.upload(ctx, t, files, t.NewFile)
}

// UploadRewritten is like Upload, of a file with rows of files of one partition, of
// which like is one.
func (a Area) UploadRewritten(ctx context.Context, t *table.Table, like table.File, file smelt.DataFile) ([]Staged, error) {
	return a.upload(ctx, t, []smelt.DataFile{file}, func(f smelt.DataFile) (table.File, error) { return t.Rewritten(like, f) })
}

func (a Area) upload(ctx context.Context, t *table.Table, files []smelt.DataFile, describe func(smelt.DataFile) (table.File, error)) ([]Staged, error) {
	staged, keys := make([]Staged, len(files)), make([]string, len(files))
	g, uploading := errgroup.WithContext(ctx)
	g.SetLimit(transfers)
	for i, f := range files {
		local := f.Path
		f.Path = a.Lake.Key(t.Location()) + "/data/" + uuid.NewString() + ".parquet"
		keys[i] = f.Path
		g.Go(func() error {
			if err := a.put(uploading, f.Path, local); err != nil {
				return err
			}
			file, err := describe(f)
			staged[i] = Staged{file, local}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		_ = a.Store.Delete(ctx, keys...) // what is left is garbage, nothing worse
		return nil, err
	}
	return staged, nil
}

// checkBytes is how much Check puts: as much as a small file has, so that a store that
// is full does not take it.
const checkBytes = 1 << 20

// Check tests whether the store accepts files for a table: it puts a small one and deletes it. A stage that could not upload its
// result calls it before it computes again.
func (a Area) Check(ctx context.Context, t *table.Table) error {
	key := a.Lake.Key(t.Location()) + "/data/" + uuid.NewString() + ".check"
	err := a.Store.Put(ctx, key, bytes.NewReader(make([]byte, checkBytes)), smelt.PutOptions{})
	_ = a.Store.Delete(ctx, key) // what is left is garbage, nothing worse
	if err != nil {
		return fmt.Errorf("see whether the store takes files: %w", err)
	}
	return nil
}

func (a Area) put(ctx context.Context, key, local string) error {
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	return a.Store.Put(ctx, key, f, smelt.PutOptions{})
}

// Keep moves files whose commit has succeeded into the cache.
func (a Area) Keep(staged []Staged) error {
	var errs []error
	for _, s := range staged {
		errs = append(errs, a.Cache.Adopt(s.File.Key, s.local))
	}
	return errors.Join(errs...)
}

// Discard deletes files whose commit has been refused for certain. One whose
// outcome is unknown must never be discarded: it may be live.
func (a Area) Discard(ctx context.Context, staged []Staged) error {
	if len(staged) == 0 {
		return nil
	}
	keys := make([]string, len(staged))
	for i, s := range staged {
		keys[i] = s.File.Key
	}
	return a.Store.Delete(ctx, keys...)
}

// Files are the files of some staged ones.
func Files(staged []Staged) []table.File {
	files := make([]table.File, len(staged))
	for i, s := range staged {
		files[i] = s.File
	}
	return files
}

// Fetch gives local copies of data files, which stay until release is called.
func (a Area) Fetch(ctx context.Context, files []table.File) (paths []string, release func(), err error) {
	paths = make([]string, len(files))
	releases := make([]func(), len(files))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(transfers)
	for i, f := range files {
		g.Go(func() error {
			path, done, err := a.Cache.Fetch(ctx, f.Key)
			if err != nil {
				return fmt.Errorf("fetch %s: %w", f.Key, err)
			}
			paths[i], releases[i] = path, done
			return nil
		})
	}
	err = g.Wait()
	release = func() {
		for _, done := range releases {
			if done != nil {
				done()
			}
		}
	}
	if err != nil {
		release()
		return nil, func() {}, err
	}
	return paths, release, nil
}

// Batches divides items, in their order, into parts of at most so many items and about so
// many bytes, with one item at least.
func Batches[T any](items []T, size func(T) int64, most int, mostBytes int64) (out [][]T) {
	var bytes int64
	for _, item := range items {
		n, last := size(item), len(out)-1
		if last < 0 || len(out[last]) == most || bytes+n > mostBytes {
			out, bytes, last = append(out, nil), 0, last+1
		}
		out[last], bytes = append(out[last], item), bytes+n
	}
	return out
}

// FileSize is the size of a file, for [Batches].
func FileSize(f table.File) int64 { return f.Bytes }
