package gold

import (
	"time"

	"smelt/internal/ledger"
)

// Floor is the start of the first window that is computed from silver, for a window width.
// Zero: every window is computed. Windows before it are frozen, because retention has
// removed some of their rows from silver, or the windows from gold. A refresh neither
// computes, restates nor removes them. A late event of such a window is in silver only,
// until it is retired there.
func Floor(width time.Duration, silver ledger.Silver, gold ledger.Gold) time.Time {
	from := silver.Retained
	if gold.Retained.After(from) {
		from = gold.Retained
	}
	if from.IsZero() {
		return from
	}
	first := Start(width, from)
	if first.Before(from) {
		first = first.Add(width)
	}
	return first
}

// Frozen says whether the window that a time lies in is before a floor.
func Frozen(width time.Duration, t, floor time.Time) bool {
	return !floor.IsZero() && Start(width, t).Before(floor)
}
