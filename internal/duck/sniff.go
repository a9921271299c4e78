package duck

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"smelt"
)

// Sniff gives the columns and rows of a CSV table the types that DuckDB's own reader would find. That is the first
// of bigint, double, boolean, date, timestamptz and varchar that fits all cells of a column. An empty cell is
// NULL. Columns listed in texts stay varchar, and so do numbers that would change when written again, such as
// 007.
func Sniff(names []string, rows [][]string, texts ...string) ([]smelt.Column, [][]any) {
	columns := make([]smelt.Column, len(names))
	values := make([][]any, len(rows))
	for i := range rows {
		values[i] = make([]any, len(names))
	}
	for j, name := range names {
		columns[j] = smelt.Column{Name: name, Type: smelt.Type{Name: "varchar"}}
		read := cellText
		if !slices.Contains(texts, name) {
			for _, k := range cellKinds {
				if fits(rows, j, k.read) {
					columns[j].Type.Name, read = k.name, k.read
					break
				}
			}
		}
		for i, row := range rows {
			if row[j] != "" {
				values[i][j], _ = read(row[j])
			}
		}
	}
	return columns, values
}

// fits says whether a column has cells, and all of them are of a kind.
func fits(rows [][]string, column int, read func(string) (any, bool)) bool {
	some := false
	for _, row := range rows {
		if row[column] == "" {
			continue
		}
		if _, ok := read(row[column]); !ok {
			return false
		}
		some = true
	}
	return some
}

var cellKinds = []struct {
	name string
	read func(string) (any, bool)
}{
	{"bigint", func(s string) (any, bool) {
		n, err := strconv.ParseInt(s, 10, 64)
		return n, err == nil && strconv.FormatInt(n, 10) == s
	}},
	{"double", func(s string) (any, bool) {
		n, err := strconv.ParseFloat(s, 64)
		return n, err == nil && cellNumber.MatchString(s)
	}},
	{"boolean", func(s string) (any, bool) { return s == "true", s == "true" || s == "false" }},
	{"date", func(s string) (any, bool) { return cellTime("2006-01-02", s) }},
	{"timestamptz", func(s string) (any, bool) {
		for _, layout := range []string{"2006-01-02 15:04:05Z07", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z07:00"} {
			if t, ok := cellTime(layout, s); ok {
				return t, true
			}
		}
		return nil, false
	}},
}

var cellNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func cellText(s string) (any, bool) { return s, true }

func cellTime(layout, s string) (any, bool) {
	t, err := time.Parse(layout, s)
	return t, err == nil
}
