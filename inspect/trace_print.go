package inspect

import (
	"encoding/base64"
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"smelt/internal/human"
)

// A record's value is shown up to so many lines of so many characters.
const (
	valueLines = 8
	valueWidth = 100
)

// traceText is the text of a trace in the making.
type traceText struct {
	b       strings.Builder
	colours bool
}

func (w *traceText) head(name, text string) {
	if w.b.Len() > 0 {
		w.b.WriteString("\n")
	}
	if w.colours {
		name = "\x1b[1m" + name + "\x1b[0m"
	}
	fmt.Fprintf(&w.b, "%s  %s\n", name, text)
}

// pairs writes names and what they name, in two columns. A text of several lines
// stays in its column.
func (w *traceText) pairs(pairs ...[2]string) {
	width := 0
	for _, p := range pairs {
		width = max(width, utf8.RuneCountInString(p[0]))
	}
	for _, p := range pairs {
		name := p[0] + strings.Repeat(" ", width-utf8.RuneCountInString(p[0]))
		for line := range strings.Lines(p[1]) {
			fmt.Fprintf(&w.b, "  %s  %s\n", name, strings.TrimRight(line, "\n"))
			name = strings.Repeat(" ", width)
		}
	}
}

// rows writes the rows of a window as a table.
func (w *traceText) rows(g TracedWindow) {
	if len(g.Rows) == 0 {
		w.pairs([2]string{"rows", "none"})
		return
	}
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(text func(Cell) string, row Row) {
		for _, c := range row {
			fmt.Fprint(out, printable(text(c))+"\t")
		}
		fmt.Fprintln(out)
	}
	line(func(c Cell) string { return c.Column }, g.Rows[0])
	for _, row := range g.Rows {
		line(Cell.shown, row)
	}
	out.Flush()
	for text := range strings.Lines(b.String()) { // cells pad the last column too
		w.b.WriteString("  " + strings.TrimRight(text, " \n") + "\n")
	}
	if more := g.Count - int64(len(g.Rows)); more > 0 {
		fmt.Fprintf(&w.b, "  and %s more\n", human.Count(more, "row"))
	}
}

// shown is the cell's text, or NULL.
func (c Cell) shown() string {
	if c.Null {
		return "NULL"
	}
	return c.Text
}

// readable returns bytes as text, or in base64 if they are not text.
func readable(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "base64 " + base64.StdEncoding.EncodeToString(b)
}

// printable writes a replacement character for each one that would command the
// terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// shortened cuts a text into lines of valueWidth, and shows the first valueLines.
func shortened(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		runes := []rune(printable(strings.TrimRight(line, "\n")))
		for first := true; first || len(runes) > 0; first = false {
			n := min(valueWidth, len(runes))
			lines, runes = append(lines, string(runes[:n])), runes[n:]
			if len(lines) > valueLines {
				return strings.Join(lines[:valueLines], "\n") + fmt.Sprintf("\n… (%d bytes in all; --json has them)", len(s))
			}
		}
	}
	if len(lines) == 0 {
		return "(empty)"
	}
	return strings.Join(lines, "\n")
}
