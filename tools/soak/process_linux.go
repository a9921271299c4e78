package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dieWithParent has the kernel kill the process when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// peakMemory is the largest resident set that a process had, in bytes; 0 when it is
// gone.
func peakMemory(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	return statusBytes(string(text), "VmHWM:")
}

// ticksPerSecond is the unit of the kernel's times of a process: fixed for programs.
const ticksPerSecond = 100

// cpuTime is the CPU time that a process has used; 0 if it has ended.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before it may hold anything
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64) // the kernel writes nothing else
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// machineMemory is the memory of this machine, in bytes.
func machineMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return statusBytes(string(text), "MemTotal:")
}

// statusBytes reads a line such as "VmHWM:  1234 kB".
func statusBytes(text, name string) int64 {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == name {
			kib, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel writes nothing else
			return kib << 10
		}
	}
	return 0
}

// childOf says whether a process is another one's child.
func childOf(pid, parent int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "PPid:" {
			return fields[1] == strconv.Itoa(parent)
		}
	}
	return false
}
