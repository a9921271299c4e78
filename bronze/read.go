package bronze

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// EachLine calls yield with the lines of a downloaded object, until it gives an
// error, which is returned. The bytes are valid until yield returns.
func EachLine(path string, yield func(line []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	lines, err := NewLines(file, CodecOf(path))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer lines.Close()
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if err := yield(line); err != nil {
			return err
		}
	}
}

// CodecOf is the codec of an object, or a copy of one, by its name's ending.
func CodecOf(name string) Codec {
	if strings.HasSuffix(name, suffixGzip) {
		return Gzip
	}
	return Zstd
}

// Lines are the lines of an object, one after the other.
type Lines struct {
	body   io.Closer
	plain  io.ReadCloser
	buffer *bufio.Reader
}

// NewLines reads lines from an object's bytes, or those of several, and closes body
// in the end.
func NewLines(body io.ReadCloser, codec Codec) (*Lines, error) {
	plain, err := newDecoder(body, codec)
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return &Lines{body, plain, bufio.NewReaderSize(plain, lineBuffer)}, nil
}

// Next gives the next line without its line feed, which is valid until the call
// after, or io.EOF.
func (l *Lines) Next() ([]byte, error) { return readLine(l.buffer) }

// Close ends the reading.
func (l *Lines) Close() error { return errors.Join(l.plain.Close(), l.body.Close()) }

// lineBuffer in bytes is what is read ahead of lines: thousands of usual ones.
const lineBuffer = 256 << 10

// readLine returns the next line without its line feed. The line is valid until
// the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil {
		return line[:len(line)-1], nil
	}
	long := append([]byte(nil), line...)
	for err == bufio.ErrBufferFull {
		line, err = r.ReadSlice('\n')
		long = append(long, line...)
	}
	if err == io.EOF && len(long) > 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return long[:len(long)-1], nil
}

// offsetMember precedes the offset, which is a line's second member.
const offsetMember = `,"offset":`

// lineOffset reads the offset of a line without parsing the rest.
func lineOffset(line []byte) (int64, error) {
	i := bytes.Index(line, []byte(offsetMember))
	if i < 0 {
		return 0, fmt.Errorf("a line without an offset: %.80q", line)
	}
	digits := line[i+len(offsetMember):]
	end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	return strconv.ParseInt(string(digits[:end]), 10, 64)
}
