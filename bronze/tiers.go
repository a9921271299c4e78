package bronze

import (
	"slices"
	"time"
)

const (
	// runBytes is how large the objects of a run are together, compressed: a merged
	// object is read in one go, too.
	runBytes = 64 << 20

	// runObjects is how many objects a run has: about ten seconds of merging, which is lost if the
	// process dies.
	runObjects = 4096

	// largeBytes of an object, compressed, are enough: to write it again would gain
	// a reader nothing.
	largeBytes = 16 << 20
)

// runs chooses what to merge of a chain, which is given as far as it was listed. First come the
// writers' objects of an hour that is over. If a day is over and has none of them left, all its
// objects follow. Objects that silver has not read to the end wait. Seams are not merged, nor
// objects on both sides of one, nor the chain's last object.
func runs(partition int32, chain []Ref, written map[string]writing, below int64, now time.Time) (out []Run) {
	settled := func(ref Ref) bool { return ref.next <= below }
	over := func(ref Ref, unit time.Duration) (time.Time, bool) {
		known, ok := written[ref.Key]
		start := known.at.UTC().Truncate(unit)
		return start, ok && !known.seam && ref.next >= 0 && !ref.Retired && ref.Size <= largeBytes && !start.Add(unit).After(now)
	}
	hourly := stretches(chain, settled, func(ref Ref) (time.Time, bool) {
		hour, ok := over(ref, time.Hour)
		return hour, ok && !ref.Merged()
	})
	pending := map[time.Time]bool{} // days
	for _, s := range hourly {
		for _, members := range cut(s.members) {
			run := newRun(partition, members)
			run.When = s.unit
			out = append(out, run)
			pending[s.unit.Truncate(day)] = true
		}
	}
	for _, s := range stretches(chain, settled, func(ref Ref) (time.Time, bool) { return over(ref, day) }) {
		if pending[s.unit] {
			continue
		}
		for _, members := range cut(s.members) {
			run := newRun(partition, members)
			run.When, run.Day = s.unit, true
			out = append(out, run)
		}
	}
	return out
}

const day = 24 * time.Hour

// stretch is a number of objects side by side, of one unit of time.
type stretch struct {
	unit    time.Time
	members []Ref
}

// stretches finds the longest stretches of objects of one unit. unit returns the unit of an object,
// if it has one. A unit with an object that is not settled is left out.
func stretches(chain []Ref, settled func(Ref) bool, unit func(Ref) (time.Time, bool)) (out []stretch) {
	for i := 0; i < len(chain); {
		of, ok := unit(chain[i])
		n := i + 1
		for n < len(chain) && ok {
			if next, also := unit(chain[n]); !also || !next.Equal(of) {
				break
			}
			n++
		}
		members := chain[i:n]
		if ok && !slices.ContainsFunc(members, func(ref Ref) bool { return !settled(ref) }) {
			out = append(out, stretch{of, members})
		}
		i = n
	}
	return out
}

// cut divides a stretch into runs. A run of one object is dropped.
func cut(members []Ref) (out [][]Ref) {
	for len(members) > 0 {
		n, size := 0, int64(0)
		for n < len(members) && n < runObjects && (n == 0 || size+members[n].Size <= runBytes) {
			size += members[n].Size
			n++
		}
		if n > 1 {
			out = append(out, members[:n])
		}
		members = members[n:]
	}
	return out
}
