package main

import (
	"os"
	"syscall"
)

// redirect makes a file descriptor of this process one of a file.
func redirect(stream int, to *os.File) error { return syscall.Dup3(int(to.Fd()), stream, 0) }
