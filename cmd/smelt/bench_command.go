//go:build bench

package main

// measurements are the commands that measure smelt.
type measurements struct {
	Bench benchCmd `cmd:"" hidden:"" help:"Measure; see scripts/bench.sh."`
}
