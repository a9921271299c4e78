package disk_test

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"smelt/internal/disk"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		errno  syscall.Errno
		text   string // as the C library has it
		full   bool
		advice string
	}{
		{syscall.ENOSPC, "No space left on device", true, ": make room on the disk of /state"},
		{syscall.EDQUOT, "Disk quota exceeded", true, ": make room on the disk of /state, or have the quota there raised"},
		{syscall.EROFS, "Read-only file system", false, ": make the disk of /state writable, or choose another state folder with SMELT_HOME"},
		{syscall.EACCES, "Permission denied", false, ""},
	} {
		byNumber := &fs.PathError{Op: "write", Path: "/state/x", Err: test.errno}
		byText := errors.New(`IO Error: Could not write file "/state/x": ` + test.text)
		for _, c := range []struct{ was, is error }{
			{byNumber, disk.Explain(byNumber, "/state")},
			{byText, disk.ExplainText(byText, "/state")},
		} {
			if want := c.was.Error() + test.advice; c.is.Error() != want || !errors.Is(c.is, c.was) {
				t.Errorf("got %q, want %q", c.is, want)
			}
			if disk.Full(c.is) != test.full {
				t.Errorf("%q: full is %t", c.is, !test.full)
			}
			if known := errors.Is(c.is, test.errno); !known && test.advice != "" {
				t.Errorf("%q is no %s", c.is, strings.ToLower(test.text))
			}
		}
	}
	if err := errors.Join(disk.Explain(nil, "/state"), disk.ExplainText(nil, "/state")); err != nil {
		t.Errorf("got %v of no error", err)
	}
}
