//go:build !bench

package main

// measurements are the commands that measure smelt. scripts/bench.sh builds a program
// that has them, with the tag bench. The one that users get has none.
type measurements struct{}
