//go:build !linux

package main

import (
	"syscall"
	"time"
)

// dieWithParent does nothing: only Linux ties a process's life to its parent's.
func dieWithParent(*syscall.SysProcAttr) {}

// peakMemory is not known here.
func peakMemory(int) int64 { return 0 }

// cpuTime is not known here.
func cpuTime(int) time.Duration { return 0 }

// machineMemory is not known here.
func machineMemory() int64 { return 0 }

// childOf is not known here, so nothing is taken for another's child.
func childOf(int, int) bool { return false }
