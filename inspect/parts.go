package inspect

import (
	"slices"
	"time"

	"smelt/gold"
	"smelt/internal/table"
)

// part is a stretch of time and the files that may have rows in it.
type part struct {
	from, to time.Time // zero: without a bound
	files    []table.File
}

// cut divides time at window boundaries, so that each part's files have about maxBytes. A smaller lake is one
// part, and its models run over all of it. If the width does not divide the day, it is whole days.
// So days or the width, whichever is longer, start where windows start.
func cut(list []table.File, column string, width time.Duration, maxBytes int64) []part {
	unit := max(24*time.Hour, width)
	type start struct {
		unit  time.Time
		bytes int64
	}
	var starts []start
	for _, f := range list {
		lo, _, known := f.Range(column)
		if known {
			starts = append(starts, start{gold.Start(unit, lo), f.Bytes})
		}
	}
	slices.SortFunc(starts, func(a, b start) int { return a.unit.Compare(b.unit) })
	parts, size := []part{{}}, int64(0)
	for i, s := range starts {
		if i > 0 && s.unit.After(starts[i-1].unit) && size+s.bytes > maxBytes {
			parts[len(parts)-1].to = s.unit
			parts, size = append(parts, part{from: s.unit}), 0
		}
		size += s.bytes
	}
	for i := range parts {
		parts[i].files = slices.DeleteFunc(slices.Clone(list), func(f table.File) bool { return !parts[i].mayHave(f, column) })
	}
	return parts
}

// since cuts off what is before a time; some says whether anything is left.
func (p part) since(t time.Time) (rest part, some bool) {
	if t.After(p.from) {
		p.from = t
	}
	return p, p.to.IsZero() || p.from.Before(p.to)
}

// mayHave says whether a file may have rows of the part.
func (p part) mayHave(f table.File, column string) bool {
	lo, hi, known := f.Range(column)
	return !known || (p.to.IsZero() || lo.Before(p.to)) && (p.from.IsZero() || !hi.Before(p.from))
}

// where is the condition that a row's time belongs to the part. Without bounds it is true for every row.
func (p part) where(time string) string {
	condition := "true"
	if !p.from.IsZero() {
		condition += " AND " + time + " >= " + literal(p.from)
	}
	if !p.to.IsZero() {
		condition += " AND " + time + " < " + literal(p.to)
	}
	return condition
}

// literal writes a time as SQL, to the microsecond.
func literal(t time.Time) string {
	return "TIMESTAMPTZ '" + t.UTC().Format("2006-01-02 15:04:05.000000") + "+00'"
}
