package bronze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"smelt"
)

// downloads is how many objects are fetched at once.
const downloads = 8

// Fetch copies objects of chains to local files in parallel. It returns the metadata of the
// first ones, up to one that was deleted, and as far as they are [Joined]. If the very
// first one was deleted, it fails with smelt.ErrNotFound. Other files may exist or not.
func (r *Reader) Fetch(ctx context.Context, refs []Ref, path func(Ref) string) ([]Meta, error) {
	gone := make([]error, len(refs))
	metas, err := r.fetch(ctx, refs, path, func(i int, err error) error {
		gone[i] = err
		return nil
	})
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(gone, func(err error) bool { return err != nil })
	switch {
	case n == 0:
		return nil, gone[0]
	case n < 0:
		n = len(refs)
	}
	return metas[:Joined(refs[:n], metas)], nil
}

// FetchAll copies objects to local files in parallel and returns their metadata. If one was
// deleted, it fails with smelt.ErrNotFound.
func (r *Reader) FetchAll(ctx context.Context, refs []Ref, path func(Ref) string) ([]Meta, error) {
	return r.fetch(ctx, refs, path, func(_ int, err error) error { return err })
}

func (r *Reader) fetch(ctx context.Context, refs []Ref, path func(Ref) string, gone func(int, error) error) ([]Meta, error) {
	metas := make([]Meta, len(refs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(downloads)
	for i, ref := range refs {
		g.Go(func() (err error) {
			metas[i], err = r.Download(ctx, ref, path(ref))
			if errors.Is(err, smelt.ErrNotFound) {
				return gone(i, err)
			}
			return err
		})
	}
	return metas, g.Wait()
}

// Download copies an object, still compressed, to a local file. For a partial object the
// file and the metadata have only the records that count.
func (r *Reader) Download(ctx context.Context, ref Ref, path string) (m Meta, err error) {
	body, m, err := r.get(ctx, ref)
	if err != nil {
		return Meta{}, err
	}
	defer body.Close()
	file, err := os.Create(path)
	if err != nil {
		return Meta{}, fmt.Errorf("download %s: %w", ref.Key, err)
	}
	if ref.Partial() {
		m, err = copyPart(file, body, ref, m)
	} else {
		err = copyWhole(file, body, ref)
	}
	if local := new(fs.PathError); err != nil && !errors.As(err, &local) {
		err = smelt.Mark(smelt.ErrStore, err)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return Meta{}, fmt.Errorf("download %s: %w", ref.Key, err)
	}
	return m, nil
}

func copyWhole(file io.Writer, body io.Reader, ref Ref) error {
	n, err := io.Copy(file, body)
	if err == nil && n != ref.Size {
		err = fmt.Errorf("%d of %d bytes", n, ref.Size)
	}
	return err
}

// copyPart copies the lines of an object that count, and counts them.
func copyPart(file io.Writer, body io.Reader, ref Ref, m Meta) (Meta, error) {
	enc, err := newEncoder(ref.Codec)
	if err != nil {
		return Meta{}, err
	}
	enc.Reset(file)
	part := m.without()
	err = eachLineOf(body, ref, m.Count, func(line []byte) error {
		return part.write(enc, line)
	})
	return part, errors.Join(err, enc.Close())
}
