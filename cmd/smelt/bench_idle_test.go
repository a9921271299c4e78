//go:build bench

package main

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// What the kernel says of a process is what the process knows of itself.
func TestCPUOf(t *testing.T) {
	t.Parallel()
	const inexact = 20 * time.Millisecond // a tick each of user and system time
	least := cpuTime() - inexact
	got, err := cpuOf(strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if most := cpuTime() + inexact; got < least || got > most {
		t.Errorf("got %s, want %s to %s", got, least, most)
	}
	if _, err := cpuOf("0"); err == nil {
		t.Error("no error for a process that is none")
	}
}
