package bronze

import (
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Codec is how an object's lines are compressed. All processes that write a
// pipeline must use the same: the ending is part of a name, so at one position
// only names of one codec exclude each other. Change it with all of them stopped.
type Codec string

const (
	Zstd Codec = "zstd" // the default: DuckDB reads it 1.6 times as fast as gzip
	Gzip Codec = "gzip" // for engines that cannot read zstd text, such as Spark from PyPI
)

const (
	suffixZstd = ".ndjson.zst"
	suffixGzip = ".ndjson.gz"

	// zstdWindow in bytes is how far back a match may lie. Small events gain nothing
	// from more than 64 KiB; events of kilobytes that repeat each other do.
	zstdWindow = 1 << 20
)

func (c Codec) suffix() string {
	if c == Gzip {
		return suffixGzip
	}
	return suffixZstd
}

func codecOf(suffix string) (Codec, bool) {
	switch suffix {
	case suffixZstd:
		return Zstd, true
	case suffixGzip:
		return Gzip, true
	}
	return "", false
}

// encoder compresses to a writer. Reset starts over with another writer.
type encoder interface {
	io.WriteCloser
	Reset(io.Writer)
}

// newEncoder returns an encoder without a writer. Zstd's lower-memory option would save 1.1
// of 2.8 MiB per encoder. It copies the whole window for each block of 128 KiB, which
// takes a third of all time.
func newEncoder(c Codec) (encoder, error) {
	if c == Gzip {
		return gzip.NewWriterLevel(nil, gzip.BestSpeed)
	}
	return zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(zstdWindow),
		zstd.WithZeroFrames(true), // an object without lines, which retirement may leave, is a frame too
	)
}

// newDecoder decompresses r, bytes of an object whose codec is c.
func newDecoder(r io.Reader, c Codec) (io.ReadCloser, error) {
	if c == Gzip {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return z, nil
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return z.IOReadCloser(), nil
}
