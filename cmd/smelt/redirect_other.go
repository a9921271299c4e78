//go:build !linux

package main

import (
	"os"
	"syscall"
)

// redirect makes a file descriptor of this process one of a file.
func redirect(stream int, to *os.File) error { return syscall.Dup2(int(to.Fd()), stream) }
