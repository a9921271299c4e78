package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

const (
	logMax  = 32 << 20 // bytes of a log; a day or two of a line in trouble
	logKeep = 3        // older logs, run.log.1 the newest of them
)

// logFile is the log of a background command, as its standard output and error. When it is full, it is renamed
// and a new file takes its place under the same file descriptors. So messages of the Go runtime and of
// libraries are in the log, too, and a panic is at its end.
type logFile struct {
	path string
	max  int64
	keep int

	mu sync.Mutex
}

// keepLog gives the writer of a command's log: one that keeps it small where w is
// the file at path, and else w. One process at a time may have it.
func keepLog(path string, w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && f == os.Stderr && isOpenAs(syscall.Stderr, path) {
		return &logFile{path: path, max: logMax, keep: logKeep}
	}
	return w
}

// isOpenAs says whether a file descriptor is of the file at path.
func isOpenAs(fd int, path string) bool {
	var open, there syscall.Stat_t
	return syscall.Fstat(fd, &open) == nil && syscall.Stat(path, &there) == nil && open.Dev == there.Dev && open.Ino == there.Ino
}

// Write writes whole lines, into a new file when they would make this one too
// large. A log that cannot be put aside goes on, and says why.
func (l *logFile) Write(lines []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stderr.Stat()
	if err == nil && info.Size() > 0 && info.Size()+int64(len(lines)) > l.max {
		if err := l.rotate(); err != nil {
			l.max += info.Size() // not again at each line
			fmt.Fprintf(os.Stderr, "the log cannot be put aside, and grows: %v\n", err)
		}
	}
	return os.Stderr.Write(lines)
}

// rotate puts the log aside. A process that dies in between leaves a number
// without a log, or no newest one, which the next start makes.
func (l *logFile) rotate() error {
	for n := l.keep; n > 1; n-- {
		if err := os.Rename(l.old(n-1), l.old(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(l.path, l.old(1)); err != nil {
		return err
	}
	next, err := openLog(l.path)
	if err != nil {
		return err
	}
	defer next.Close()
	for _, stream := range []int{syscall.Stdout, syscall.Stderr} {
		if isOpenAs(stream, l.old(1)) {
			if err := redirect(stream, next); err != nil {
				return fmt.Errorf("redirect file descriptor %d: %w", stream, err)
			}
		}
	}
	return nil
}

func (l *logFile) old(n int) string { return fmt.Sprintf("%s.%d", l.path, n) }

// openLog opens a log for appending.
func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
