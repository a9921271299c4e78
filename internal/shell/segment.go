package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"smelt"
	"smelt/bronze"
)

// A quiet topic makes many small objects, and to open one costs DuckDB more
// than to read it: 5,000 of them took 12 s, and 2 s each time after. So small
// objects are copied, one after another, into larger local files; both codecs
// may be joined like that. Objects that are worth opening are read where they are.
const (
	smallObject  = 256 << 10 // bytes; a larger one is read in about the time that it takes to open
	segmentBytes = 4 << 20   // bytes of a local file: DuckDB reads several side by side
	segmentsMax  = 2 << 30   // bytes of all of them; what is more stays where it is
	copies       = 16        // objects fetched at once
)

// segments are the local copies of small objects.
type segments struct {
	store smelt.Store
	dir   string
	bytes int64
	files int
}

// paths gives the files that hold what objects hold: local ones for small
// objects, and what remote says for the others.
func (s *segments) paths(ctx context.Context, objects []smelt.Object, remote func(key string) string) (paths []string, err error) {
	var batch []smelt.Object
	var size int64
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		path, err := s.join(ctx, batch)
		paths, batch, size = append(paths, path), nil, 0
		return err
	}
	for _, o := range objects {
		if o.Size > smallObject || s.bytes+o.Size > segmentsMax {
			paths = append(paths, remote(o.Key))
			continue
		}
		if size+o.Size > segmentBytes || len(batch) > 0 && ending(batch[0].Key) != ending(o.Key) {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		batch = append(batch, o)
		size += o.Size
		s.bytes += o.Size
	}
	return paths, flush()
}

// ending is the part of a key that tells DuckDB the codec.
func ending(key string) string { return filepath.Ext(key) }

// join copies objects into one new file.
func (s *segments) join(ctx context.Context, objects []smelt.Object) (string, error) {
	bodies := make([][]byte, len(objects))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(copies)
	for i, o := range objects {
		g.Go(func() (err error) {
			bodies[i], err = s.read(ctx, o.Key)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	s.files++
	path := filepath.Join(s.dir, fmt.Sprintf("%d.ndjson%s", s.files, ending(objects[0].Key)))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	for _, body := range bodies {
		if _, err := f.Write(body); err != nil {
			return "", errors.Join(err, f.Close())
		}
	}
	return path, f.Close()
}

func (s *segments) read(ctx context.Context, key string) ([]byte, error) {
	body, _, err := s.store.Get(ctx, key)
	if err != nil {
		return nil, smelt.Mark(smelt.ErrStore, fmt.Errorf("get %s: %w", key, err))
	}
	defer body.Close()
	bytes, err := io.ReadAll(body)
	if err != nil {
		return nil, smelt.Mark(smelt.ErrStore, fmt.Errorf("read %s: %w", key, err))
	}
	return bytes, nil
}

// checkNames refuses what is no object of bronze.
func checkNames(objects []smelt.Object) error {
	for _, o := range objects {
		if _, err := bronze.ParseName(o.Key); err != nil {
			return smelt.Mark(smelt.ErrStore, err)
		}
	}
	return nil
}
