package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// quietBytes are never touched, so they take no memory, but they count for the garbage collector's pace. A
	// stream of a few events has a very small heap. Without them Go would collect every few steps, which took an
	// eighth of all CPU.
	quietBytes = 32 << 20

	// lineBytes is what the stages of a pipeline hold at most, and commonBytes what
	// all share: about where Go begins to collect garbage sooner than when the heap
	// has doubled.
	lineBytes   = 400 << 20
	commonBytes = 200 << 20
)

// tuneHeap suits Go's collection of garbage to so many running pipelines. Call done
// when they have ended. GOMEMLIMIT, when set, holds in place of the limit here.
func tuneHeap(pipelines int) (done func()) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(commonBytes + pipelines*lineBytes))
	}
	quiet := make([]byte, quietBytes)
	return func() { runtime.KeepAlive(quiet) }
}
