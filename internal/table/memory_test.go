package table_test

import (
	"fmt"
	"runtime"
	"testing"

	"smelt/internal/table"
)

// A table to which one process alone commits does not keep in memory all that it
// was. The test is not parallel: it looks at the memory of the whole process.
func TestCommitsForgetWhatWas(t *testing.T) {
	const (
		commits = 150
		keys    = 100      // of a snapshot's summary: a state has up to commits × keys of them
		most    = 16 << 20 // bytes that memory may grow by: what the store has takes half of them, all the states ten times as much
	)
	l := newLake(t)
	tbl := create(t, l, "silver.a", readings())
	summary := map[string]string{}
	for i := range keys {
		summary[fmt.Sprint("key-", i)] = "value"
	}
	before := liveBytes()
	for range commits {
		tbl = commit(t, tbl, table.Change{Add: []table.File{put(t, l, tbl, "f", 1)}, Summary: summary})
	}
	if grown := liveBytes() - before; grown > most {
		t.Errorf("%d commits have left %d MiB in memory, want at most %d", commits, grown>>20, most>>20)
	}
	runtime.KeepAlive(l)
}

func liveBytes() int64 {
	runtime.GC()
	runtime.GC() // once more for what finalizers and pools have let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
