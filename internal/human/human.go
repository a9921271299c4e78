// Package human writes numbers for people.
package human

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// Number writes a number with commas: 1,234,567.
func Number(n int64) string { return humanize.Comma(n) }

// Count writes a number and its noun: "1 row", "1,234 rows".
func Count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Number(n) + " " + noun
}

// Bytes writes a size in the unit that fits: "512 B", "14.1 KiB".
func Bytes(n int64) string {
	f, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for f >= 1024 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[0])
}
