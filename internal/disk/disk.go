// Package disk says what a person has to do about a local disk that does not take what
// is written to it. What reads and writes files in the state folder stands on it.
package disk

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// faults are those that a person must fix, with what to do about a folder.
var faults = []struct {
	errno  syscall.Errno
	advice string
}{
	{syscall.ENOSPC, "make room on the disk of %s"},
	{syscall.EDQUOT, "make room on the disk of %s, or have the quota there raised"},
	{syscall.EROFS, "make the disk of %s writable, or choose another state folder with SMELT_HOME"},
}

// Full says whether a disk, or what a user may have of it, is used up.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Explain adds to a file's error what to do about its disk, named by a folder. It returns other errors unchanged.
func Explain(err error, folder string) error {
	for _, f := range faults {
		if errors.Is(err, f.errno) {
			return fmt.Errorf("%w: "+f.advice, err, folder)
		}
	}
	return err
}

// ExplainText is Explain for a library whose errors have the system's words alone: it
// gives them their number as well.
func ExplainText(err error, folder string) error {
	for _, f := range faults {
		if err != nil && strings.Contains(strings.ToLower(err.Error()), f.errno.Error()) {
			return Explain(&numbered{err, f.errno}, folder)
		}
	}
	return err
}

// numbered is an error with the number that its text tells.
type numbered struct {
	error
	errno syscall.Errno
}

func (n *numbered) Unwrap() []error { return []error{n.error, n.errno} }
