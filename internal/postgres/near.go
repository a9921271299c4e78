package postgres

import (
	"cmp"
	"slices"
	"strings"
)

const maxSuggestions = 3 // as many as one reads

// didYouMean ends a message with the names that are nearest to a mistaken one,
// or with nothing when none is near.
func didYouMean(name string, known []string) string {
	type suggestion struct {
		name     string
		distance int
	}
	var near []suggestion
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d <= max(2, len(name)/3) {
			near = append(near, suggestion{k, d})
		}
	}
	if len(near) == 0 {
		return ""
	}
	slices.SortFunc(near, func(a, b suggestion) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, s := range near[:min(len(near), maxSuggestions)] {
		names = append(names, s.name)
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}

// distance is the Levenshtein distance of two names in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(substituted, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
