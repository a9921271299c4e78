package backfill

import (
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
)

// byKey says whether silver.sql joins a reference only by its key and the declared events' column. Only then
// does a row depend on no other row of the reference.
func byKey(silver *duck.Statement, pipeline string, r smelt.Reference) bool {
	name, events := "reference."+r.Name, pipeline
	reads := 0
	for _, t := range silver.Tables {
		switch {
		case strings.EqualFold(t.Text, name):
			reads++
		case strings.EqualFold(t.Text, "bronze."+pipeline):
			events = t.Alias
		}
	}
	for _, join := range silver.Joins {
		if !strings.EqualFold(join.Table.Text, name) {
			continue
		}
		key := []string{join.Table.Alias, r.Key}
		on := slices.ContainsFunc(join.Equal, func(pair [2][]string) bool {
			for i, side := range pair {
				other := pair[1-i]
				if is(side, key...) && (is(other, r.On) || is(other, events, r.On)) {
					return true
				}
			}
			return false
		})
		if on {
			reads--
		}
	}
	return reads == 0
}

// is compares a column's parts with those of a name, as SQL does.
func is(path []string, name ...string) bool { return slices.EqualFunc(path, name, strings.EqualFold) }
