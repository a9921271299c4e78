package stack

import (
	"os"
	"strconv"
	"syscall"
)

// dieWithParent has the kernel stop the process, with PostgreSQL's signal for a
// fast shutdown, when the thread that started it ends, even by a kill.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// servesFolder says whether a process is a PostgreSQL server over the folder,
// which such a server makes its working directory.
func servesFolder(pid int, data string) bool {
	cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	return err == nil && cwd == data
}
