package upkeep

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// partitionText writes the values of a partition for people, with a colon and a
// space: "event_time_day=2026-11-29: ". It is empty for a table without partitions.
func partitionText(values map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+"="+valueText(name, values[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + ": "
}

// valueText writes a value by the transform that the name of its field ends in:
// Iceberg counts years, months, days and hours since 1970.
func valueText(name string, value any) string {
	epoch := time.Unix(0, 0).UTC()
	n, whole := value.(int64)
	switch {
	case value == nil:
		return "NULL"
	case !whole:
	case strings.HasSuffix(name, "_day"):
		return epoch.AddDate(0, 0, int(n)).Format(time.DateOnly)
	case strings.HasSuffix(name, "_hour"):
		return epoch.Add(time.Duration(n) * time.Hour).Format("2006-01-02T15")
	case strings.HasSuffix(name, "_month"):
		return epoch.AddDate(0, int(n), 0).Format("2006-01")
	case strings.HasSuffix(name, "_year"):
		return epoch.AddDate(int(n), 0, 0).Format("2006")
	}
	switch v := value.(type) {
	case time.Time:
		return v.Format(time.RFC3339)
	case string:
		return shown(v)
	}
	return fmt.Sprint(value)
}

// mostShown is how many characters of a text people see.
const mostShown = 60

// shown writes a text of the events for a log or a terminal, in quotes where it is not
// just words: it may hold anything.
func shown(text string) string {
	if runes := []rune(text); len(runes) > mostShown {
		return strconv.Quote(string(runes[:mostShown])) + "…"
	}
	if quoted := strconv.Quote(text); text == "" || text == "NULL" || strings.TrimSpace(text) != text || strings.ContainsAny(text, ",=:") || quoted != `"`+text+`"` {
		return quoted
	}
	return text
}
