package main

import (
	"fmt"
	"maps"
	"slices"
)

// detailed is how many differences of a kind are reported one by one.
const detailed = 5

// rows are what was read of a table: keys and the other cells, and the keys that came
// more than once.
type rows struct {
	table
	twice []string
}

// add takes a row whose first cells are its key.
func (r *rows) add(cells []string, keys int) {
	key := join(cells[:keys]...)
	if _, ok := r.table[key]; ok {
		r.twice = append(r.twice, key)
	}
	r.table[key] = join(cells[keys:]...)
}

// compare reports how a table differs from its expected content.
func compare(name string, want table, got rows) (differences []string, n int) {
	kinds := map[string][]string{}
	note := func(kind, text string) { kinds[kind] = append(kinds[kind], text) }
	for _, key := range got.twice {
		note("twice", key)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		is, ok := got.table[key]
		switch {
		case !ok:
			note("missing", fmt.Sprintf("%s (%s)", key, want[key]))
		case is != want[key]:
			note("otherwise", fmt.Sprintf("%s is %s, not %s", key, is, want[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got.table)) {
		if _, ok := want[key]; !ok {
			note("too many", fmt.Sprintf("%s (%s)", key, got.table[key]))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		all := kinds[kind]
		n += len(all)
		for _, text := range all[:min(detailed, len(all))] {
			differences = append(differences, fmt.Sprintf("%s: %s: %s", name, kind, text))
		}
		if more := len(all) - detailed; more > 0 {
			differences = append(differences, fmt.Sprintf("%s: %s: and %d more", name, kind, more))
		}
	}
	return differences, n
}
