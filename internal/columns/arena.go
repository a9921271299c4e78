package columns

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// chunkBytes is how much memory is requested from the system at a time.
	chunkBytes = 1 << 20
	// spareBytes is how much an arena that was reset holds on to.
	spareBytes = 96 << 20
)

// arena is memory outside of Go's heap, given out in order and given back as a whole.
type arena struct {
	chunks [][]byte
	open   int // the chunk that is being filled
	at     int // how much of it is
	used   int
}

// keep copies bytes into the arena.
func (a *arena) keep(b []byte) []byte {
	kept := a.take(len(b))
	copy(kept, b)
	return kept
}

// take gives n bytes.
func (a *arena) take(n int) []byte {
	for a.open == len(a.chunks) || a.at+n > len(a.chunks[a.open]) {
		if a.open < len(a.chunks) && a.at > 0 {
			a.open, a.at = a.open+1, 0
			continue
		}
		a.insert(max(n, chunkBytes))
	}
	out := a.chunks[a.open][a.at : a.at+n : a.at+n]
	a.at += n
	a.used += n
	return out
}

// insert puts a new chunk before the open one, which is empty.
func (a *arena) insert(size int) {
	chunk, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(fmt.Sprintf("columns: no memory for %d bytes: %v", size, err)) // as when Go itself gets none
	}
	a.chunks = append(a.chunks, chunk)
	last := len(a.chunks) - 1
	a.chunks[a.open], a.chunks[last] = a.chunks[last], a.chunks[a.open]
}

// reset takes everything back, and frees what is more than an arena keeps.
func (a *arena) reset() {
	a.open, a.at, a.used = 0, 0, 0
	a.shrink(spareBytes)
}

func (a *arena) free() {
	a.open, a.at, a.used = 0, 0, 0
	a.shrink(0)
}

// shrink frees chunks until at most most bytes are left.
func (a *arena) shrink(most int) {
	total, kept := 0, a.chunks[:0]
	for _, c := range a.chunks {
		if total+len(c) <= most {
			total += len(c)
			kept = append(kept, c)
			continue
		}
		if err := unix.Munmap(c); err != nil {
			panic(fmt.Sprintf("columns: free memory: %v", err)) // only what was mapped here is unmapped
		}
	}
	clear(a.chunks[len(kept):])
	a.chunks = kept
}
