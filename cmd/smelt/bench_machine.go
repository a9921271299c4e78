//go:build bench

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// benchMachine is the machine on which a bench ran.
type benchMachine struct {
	CPU     string  `json:"cpu"`
	Threads int     `json:"threads"`
	Memory  float64 `json:"memory_gib"`
	Kernel  string  `json:"kernel"`
}

// thisMachine describes the machine, as Linux tells it.
func thisMachine() (m benchMachine, err error) {
	m.Threads = runtime.NumCPU()
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, fmt.Errorf("benches run on Linux: %w", err)
	}
	for line := range strings.Lines(string(cpu)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, err
	}
	var kib float64
	if _, err := fmt.Sscanf(string(memory), "MemTotal: %f kB", &kib); err != nil {
		return m, fmt.Errorf("/proc/meminfo: %w", err)
	}
	m.Memory = rounded(kib / (1 << 20))
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Kernel = "Linux " + strings.TrimSpace(string(kernel))
	return m, err
}

// String writes the machine as one line.
func (m benchMachine) String() string {
	return fmt.Sprintf("%s, %d threads, %.0f GiB of memory, %s", m.CPU, m.Threads, m.Memory, m.Kernel)
}
