package maintain

import (
	"fmt"
	"maps"
	"slices"
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
	if at, ok := value.(time.Time); ok {
		return at.Format(time.RFC3339)
	}
	return fmt.Sprint(value)
}
