package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"smelt/internal/human"
)

// historyWidth is how wide a line of a history may get; names that do not fit go
// on the next one.
const historyWidth = 120

// historyText writes entries as a table.
func historyText(entries []entry) string {
	rows := [][]string{{"snapshot", "time (UTC)", "by", "changed", "rows"}}
	for _, e := range entries {
		if e.ReferenceVersion != nil {
			rows[0][2] = "by, references"
		}
		rows = append(rows, []string{strconv.FormatInt(e.Snapshot, 10), e.Time.Format(time.DateTime), e.by(), e.changed(), number(e.Rows)})
	}
	lines := align(rows, 3, 4)
	var b strings.Builder
	fmt.Fprintln(&b, strings.TrimRight(lines[0], " "))
	for i, e := range entries {
		line, names := lines[i+1], e.names()
		inline := line
		if len(names) > 0 {
			inline += "  " + strings.Join(names, ", ")
		}
		if utf8.RuneCountInString(inline) <= historyWidth {
			fmt.Fprintln(&b, strings.TrimRight(inline, " "))
		} else {
			fmt.Fprintf(&b, "%s\n    %s\n", strings.TrimRight(line, " "), strings.Join(names, "\n    "))
		}
		if e.Scope != "" {
			fmt.Fprintf(&b, "    %s\n", e.Scope)
		}
	}
	return b.String()
}

// by says who made it; of silver, with which version of the reference tables.
func (e entry) by() string {
	if e.ReferenceVersion == nil {
		return e.By
	}
	return fmt.Sprintf("%s, v%d", e.By, *e.ReferenceVersion)
}

// changed says how many rows came and went.
func (e entry) changed() string {
	var out []string
	if e.Added != nil && *e.Added != 0 {
		out = append(out, "+"+human.Number(*e.Added))
	}
	if e.Removed != nil && *e.Removed != 0 {
		out = append(out, "-"+human.Number(*e.Removed))
	}
	return strings.Join(out, " ")
}

// names lists the refs and marks of a snapshot.
func (e entry) names() []string {
	var out []string
	if e.RolledBack {
		out = append(out, "rolled back")
	}
	for _, n := range e.Names {
		text := n.Name
		if n.Kind == "branch" && n.Name != "main" {
			text += " (branch)"
		}
		out = append(out, text)
	}
	return out
}

func number(n *int64) string {
	if n == nil {
		return "?"
	}
	return human.Number(*n)
}

// align pads the cells of each column to one width, two spaces apart; those of
// the columns right stand at its right.
func align(rows [][]string, right ...int) []string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	flush := map[int]bool{}
	for _, i := range right {
		flush[i] = true
	}
	out := make([]string, len(rows))
	for r, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if cells[i] = cell + pad; flush[i] {
				cells[i] = pad + cell
			}
		}
		out[r] = strings.Join(cells, "  ")
	}
	return out
}
