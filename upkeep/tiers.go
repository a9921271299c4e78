package upkeep

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"smelt/internal/table"
)

const (
	// openGrowth is how much a file must grow when its rows are rewritten while its partition still receives data. The stage writes
	// a row once. Each compaction then writes it into a file of at least 8 times the rows. So if files start with f rows and end
	// with T, a row is written at most 1 + log8(T/f) times: 6 times from 2 rows to 65,536. Each remaining file has more than a
	// seventh of the rows of all smaller ones. So fewer than 2 + log(T/f)/log(8/7) files are below the target.
	openGrowth = 8.0

	// settledGrowth is the same for a partition at rest. Its files are merged as soon as that saves one, but a few late rows do not
	// rewrite a large file.
	settledGrowth = 1.25

	// openFor is how long after the last rows came a partition counts as open.
	openFor = time.Hour

	// mostInputs bounds the files of one merge: what it reads at once, and what is
	// done in vain when it loses its race.
	mostInputs = 500

	// mostMerges bounds the merges of one plan; the next one finds the others.
	mostMerges = 64
)

// tiers says how a table's files are merged.
type tiers struct {
	target   int64                                        // bytes of a file
	appended func(table.File) time.Time                   // when rows last came into it; zero: unknown, so long ago
	within   func(table.File) (lo, hi time.Time, ok bool) // event times
	span     time.Duration                                // files whose newest rows are of different spans stay apart; 0: none do
	now      time.Time
}

// retainParts is how many time spans the retained time is divided into. A merged file is removed when all of it is old enough, so
// its oldest rows wait for that.
const retainParts = 8

// spanOf is the time span of one file of a table that keeps its rows for a time; 0: without limit. It is whole
// days or hours, so that partitions by these are not split.
func spanOf(kept time.Duration) time.Duration {
	const day = 24 * time.Hour
	switch span := kept / retainParts; {
	case kept == 0:
		return 0
	case span >= day:
		return span.Truncate(day)
	default:
		return max(span.Truncate(time.Hour), time.Hour)
	}
}

// merge is files of one partition that are to become one.
type merge struct {
	files    []table.File
	appended time.Time // when rows last came into the partition
}

// gain is how many files it saves.
func (m merge) gain() int { return len(m.files) - 1 }

// size counts what it reads.
func (m merge) size() Size {
	s := Size{Files: len(m.files)}
	for _, f := range m.files {
		s.Bytes += f.Bytes
	}
	return s
}

// partitionKey tells the partitions of a table, of whichever partitioning.
func partitionKey(f table.File) string {
	return fmt.Sprintf("%d %#v", f.Spec, f.Partition) // fmt sorts a map's keys
}

// plan chooses what to merge, what saves most first.
func (p tiers) plan(files []table.File) []merge {
	groups := map[string][]table.File{}
	for _, f := range files {
		key := fmt.Sprint(partitionKey(f), p.part(f))
		groups[key] = append(groups[key], f)
	}
	var merges []merge
	for _, group := range groups {
		merges = append(merges, p.group(group)...)
	}
	slices.SortFunc(merges, func(a, b merge) int {
		return cmp.Or(cmp.Compare(b.gain(), a.gain()), cmp.Compare(a.files[0].Key, b.files[0].Key))
	})
	return merges
}

// part is the number of the span that a file's newest rows are of.
func (p tiers) part(f table.File) int64 {
	if p.span == 0 {
		return 0
	}
	_, newest, _ := p.within(f)
	return newest.Truncate(p.span).Unix()
}

// most is how large a merge may get: one that is cut in two leaves no small file.
func (p tiers) most() int64 { return p.target + p.target/2 }

// group chooses among the files of one partition.
func (p tiers) group(files []table.File) (merges []merge) {
	var appended time.Time
	var small []table.File
	var bytes int64
	for _, f := range files {
		if at := p.appended(f); at.After(appended) {
			appended = at
		}
		if f.Bytes < p.target-p.target/4 && f.Rows > 0 { // other engines may have files without rows
			small, bytes = append(small, f), bytes+f.Bytes
		}
	}
	growth, chosen := openGrowth, [][]table.File(nil)
	if p.now.Sub(appended) >= openFor {
		growth = settledGrowth
		if bytes > p.most() { // more files than one come of it: they should not overlap in time
			chosen, small = p.neighbours(small)
		}
	}
	for _, files := range append(chosen, p.prefixes(small, growth)...) {
		merges = append(merges, merge{files, appended})
	}
	return merges
}

// prefixes takes the smallest files, as many as the growth allows, then the next.
func (p tiers) prefixes(files []table.File, growth float64) (chosen [][]table.File) {
	rest := slices.SortedFunc(slices.Values(files), func(a, b table.File) int {
		return cmp.Or(cmp.Compare(a.Rows, b.Rows), cmp.Compare(a.Key, b.Key))
	})
	for len(rest) > 1 {
		n := p.prefix(rest, growth)
		if n > 1 {
			chosen = append(chosen, rest[:n])
		}
		rest = rest[max(n, 1):]
	}
	return chosen
}

// prefix is how many of the files, the smallest first, may become one; 0: none.
func (p tiers) prefix(files []table.File, growth float64) (best int) {
	var rows, bytes int64
	for i, f := range files[:min(len(files), mostInputs)] {
		rows, bytes = rows+f.Rows, bytes+f.Bytes
		if bytes > p.most() {
			break
		}
		if i > 0 && float64(rows) >= growth*float64(f.Rows) {
			best = i + 1
		}
	}
	return best
}

// neighbours takes files that follow each other in time. It leaves those that
// would hardly grow.
func (p tiers) neighbours(files []table.File) (chosen [][]table.File, rest []table.File) {
	begins := make(map[string]time.Time, len(files))
	for _, f := range files {
		lo, _, ok := p.within(f)
		if !ok {
			return nil, files
		}
		begins[f.Key] = lo
	}
	files = slices.SortedFunc(slices.Values(files), func(a, b table.File) int {
		return cmp.Or(begins[a.Key].Compare(begins[b.Key]), cmp.Compare(a.Key, b.Key))
	})
	for len(files) > 0 {
		n, grown := p.run(files)
		if grown {
			chosen = append(chosen, files[:n])
		} else {
			rest = append(rest, files[:n]...)
		}
		files = files[n:]
	}
	return chosen, rest
}

// run is how many files from the first on fill one, and whether each of them grows
// enough by that.
func (p tiers) run(files []table.File) (n int, grown bool) {
	var rows, bytes, largest int64
	for n < min(len(files), mostInputs) && bytes < p.target && (n == 0 || bytes+files[n].Bytes <= p.most()) {
		rows, bytes, largest = rows+files[n].Rows, bytes+files[n].Bytes, max(largest, files[n].Rows)
		n++
	}
	return n, n > 1 && float64(rows) >= settledGrowth*float64(largest)
}
