//go:build !linux

package stack

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing where the kernel has no such service: the server
// of a stack that was killed is ended by the next start.
func dieWithParent(*syscall.SysProcAttr) {}

// servesFolder says whether a process is a PostgreSQL server over the folder,
// which is on its command line.
func servesFolder(pid int, data string) bool {
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "postgres") && strings.Contains(string(out), data)
}
