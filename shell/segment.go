package shell

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"smelt"
	"smelt/bronze"
)

// A quiet topic makes many small objects, and to ask the store for one costs more
// than to read it. So small objects are copied, one after another, into larger local
// files; both codecs may be joined like that. Larger objects are read from the store.
const (
	smallObject  = 256 << 10 // bytes; a larger one is read in about the time that it takes to ask for it
	segmentBytes = 4 << 20   // bytes of a local file: several are read side by side
	segmentsMax  = 2 << 30   // bytes of all of them; what is more stays where it is
	copies       = 16        // objects fetched at once
)

// segments are the local copies of small objects, and of parts of objects.
type segments struct {
	store smelt.Store
	dir   string
	bytes int64
	files int
}

// part is an object of bronze, or of one that was merged the records that there
// were at a time.
type part struct {
	bronze.Ref
	upto  int64     // exclusive upper offset; 0: no bound
	until time.Time // or the broker's time of the last ones
}

// partKey tells parts from each other.
type partKey struct {
	key        string
	from, upto int64
	until      time.Time
}

func (p part) key() partKey { return partKey{p.Key, p.From, p.upto, p.until} }

// whole says whether all lines of the object are shown.
func (p part) whole() bool { return !p.Partial() && p.upto == 0 && p.until.IsZero() }

// held is a file, or an object, that the view reads.
type held struct {
	path   string // of a local file; "": the one object is read from the store
	parts  []part
	bytes  int64 // of a local file
	beyond int64 // lines of a part that come after those shown
}

// fetch returns the files with parts of objects: local files for small objects and for partial ones, and the
// other objects themselves. After an error it returns those that it has made.
func (s *segments) fetch(ctx context.Context, reader *bronze.Reader, parts []part) (files []held, err error) {
	var batch []part
	var size int64
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		file, err := s.join(ctx, batch)
		if err != nil {
			return err
		}
		files, batch, size = append(files, file), nil, 0
		return nil
	}
	for _, o := range parts {
		switch {
		case !o.whole():
			file, err := s.cut(ctx, reader, o)
			if err != nil {
				return files, err
			}
			files = append(files, file)
			continue
		case o.Size > smallObject || s.bytes+size+o.Size > segmentsMax:
			files = append(files, held{parts: []part{o}})
			continue
		case size+o.Size > segmentBytes || len(batch) > 0 && ending(batch[0].Key) != ending(o.Key):
			if err := flush(); err != nil {
				return files, err
			}
		}
		batch = append(batch, o)
		size += o.Size
	}
	err = flush()
	return files, err
}

// drop gives up a file.
func (s *segments) drop(h held) {
	if h.bytes > 0 {
		s.bytes -= h.bytes
		os.Remove(h.path) // and else it goes with the folder
	}
}

// ending is the part of a key that tells the codec.
func ending(key string) string { return filepath.Ext(key) }

// create makes the next local file.
func (s *segments) create(ending string) (*os.File, error) {
	s.files++
	return os.OpenFile(filepath.Join(s.dir, fmt.Sprintf("%d.ndjson%s", s.files, ending)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// join copies objects into one new file.
func (s *segments) join(ctx context.Context, parts []part) (held, error) {
	bodies := make([][]byte, len(parts))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(copies)
	for i, o := range parts {
		g.Go(func() (err error) {
			bodies[i], err = s.read(ctx, o.Key)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return held{}, err
	}
	f, err := s.create(ending(parts[0].Key))
	if err != nil {
		return held{}, err
	}
	file := held{path: f.Name(), parts: parts}
	for _, body := range bodies {
		file.bytes += int64(len(body))
		if _, err := f.Write(body); err != nil {
			return held{}, errors.Join(err, f.Close())
		}
	}
	s.bytes += file.bytes
	return file, f.Close()
}

// cut copies the lines of a part into a new file.
func (s *segments) cut(ctx context.Context, reader *bronze.Reader, o part) (held, error) {
	f, err := s.create(".gz")
	if err != nil {
		return held{}, err
	}
	file := held{path: f.Name(), parts: []part{o}}
	zip, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return held{}, errors.Join(err, f.Close())
	}
	_, err = reader.Lines(ctx, o.Ref, func(line []byte) error {
		decoded, err := bronze.Decode(line)
		if err != nil {
			return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s: %w", o.Key, err))
		}
		if o.upto > 0 && decoded.Record.Offset >= o.upto || !o.until.IsZero() && decoded.Record.Timestamp > o.until.UnixMilli() {
			file.beyond++
			return nil
		}
		if _, err := zip.Write(line); err != nil {
			return err
		}
		_, err = zip.Write([]byte("\n"))
		return err
	})
	if err = errors.Join(err, zip.Close()); err != nil {
		return held{}, errors.Join(err, f.Close())
	}
	if at, err := f.Seek(0, io.SeekCurrent); err == nil {
		file.bytes = at
		s.bytes += at
	}
	return file, f.Close()
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
