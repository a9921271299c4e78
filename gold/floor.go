package gold

import (
	"time"

	"smelt/internal/ledger"
)

// Floor is the start of the first window of a width that is computed from silver;
// zero: every window is. Those before it are frozen: silver may have rows of them
// no more, or retention has taken them out of gold. They are neither computed nor
// restated nor removed by a refresh, be it one of everything, so that a late event
// of such a window is in silver alone, until it is retired there too.
func Floor(width time.Duration, silver ledger.Silver, gold ledger.Gold) time.Time {
	from := silver.Retained
	if gold.Retained.After(from) {
		from = gold.Retained
	}
	if from.IsZero() {
		return from
	}
	first := start(width, from)
	if first.Before(from) {
		first = first.Add(width)
	}
	return first
}

// Frozen says whether the window that a time lies in is before a floor.
func Frozen(width time.Duration, t, floor time.Time) bool {
	return !floor.IsZero() && start(width, t).Before(floor)
}
