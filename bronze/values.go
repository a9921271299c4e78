package bronze

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Values reads a downloaded object and calls yield with the raw event of each
// record whose offset is wanted and whose line embeds one. The bytes are valid
// until yield returns.
func Values(path string, wanted map[int64]bool, yield func(offset int64, raw []byte) error) error {
	left := len(wanted)
	if left == 0 {
		return nil
	}
	err := eachLine(path, func(line []byte) error {
		offset, err := lineOffset(line)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if !wanted[offset] {
			return nil
		}
		left--
		if raw, ok := RawValue(line); ok {
			if err := yield(offset, raw); err != nil {
				return err
			}
		}
		if left == 0 {
			return io.EOF
		}
		return nil
	})
	if err == io.EOF {
		return nil
	}
	return err
}

// eachLine calls yield with the lines of a downloaded object, until it gives an
// error, which is returned. The bytes are valid until yield returns.
func eachLine(path string, yield func(line []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	codec := Zstd
	if strings.HasSuffix(path, suffixGzip) {
		codec = Gzip
	}
	plain, err := newDecoder(file, codec)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer plain.Close()
	buffer := bufio.NewReaderSize(plain, lineBuffer)
	for {
		line, err := readLine(buffer)
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
