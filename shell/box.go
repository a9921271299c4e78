package shell

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/chzyer/readline"

	"smelt/internal/duck"
	"smelt/internal/human"
)

const (
	// shownRows bounds the rows that a table shows, and so the memory that it
	// takes: more than anybody reads.
	shownRows = 1000

	// maxCell is the width of the widest column where no terminal bounds it.
	maxCell = 200

	// uncut is the width up to which no column is cut to fit the terminal: a
	// time's. Half a time or number says nothing.
	uncut = 29
)

const (
	dim   = "\x1b[2m"
	reset = "\x1b[0m"
)

// remark says in a word what a statement has done, to a person only.
func (p *Printer) remark(r *duck.Result) error {
	var rows [][]duck.Cell
	err := each(r, func(row []duck.Cell) error {
		if len(rows) == 0 {
			rows = append(rows, append([]duck.Cell{}, row...))
		}
		return nil
	})
	if err != nil || p.Format != Table {
		return err
	}
	if len(rows) == 1 && len(r.Columns) == 1 && r.Columns[0].Name == "Count" {
		n, _ := strconv.ParseInt(rows[0][0].Text, 10, 64)
		_, err = fmt.Fprintln(p.Err, human.Count(n, "row"))
		return err
	}
	_, err = fmt.Fprintln(p.Err, "done")
	return err
}

// table prints a result with lines around it.
func (p *Printer) table(out *bufio.Writer, r *duck.Result) error {
	if len(r.Columns) == 2 && r.Columns[0].Name == "explain_key" {
		return each(r, func(row []duck.Cell) error {
			_, err := out.WriteString(strings.TrimRight(row[1].Text, "\n") + "\n")
			return err
		})
	}
	var rows [][]duck.Cell
	var total int64
	err := each(r, func(row []duck.Cell) error {
		if total++; total <= shownRows {
			shown := make([]duck.Cell, len(row))
			for i, c := range row {
				shown[i] = duck.Cell{Text: visible(c.Text), Valid: c.Valid}
			}
			rows = append(rows, shown)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b := box{out: out, colour: p.Colour, columns: r.Columns}
	b.fit(rows, p.Width())
	b.print(rows)
	_, err = fmt.Fprintln(out, b.footer(int64(len(rows)), total))
	return err
}

// box draws a table.
type box struct {
	out     *bufio.Writer
	colour  bool
	columns []duck.Column
	widths  []int // of the columns that are shown, the first ones
}

// fit chooses the columns' widths. Where the terminal is too narrow the widest
// ones are cut first, and then the last ones left out.
func (b *box) fit(rows [][]duck.Cell, terminal int) {
	for i, c := range b.columns {
		w := width(visible(c.Name))
		for _, row := range rows {
			w = max(w, width(shown(row[i])))
		}
		b.widths = append(b.widths, min(w, maxCell))
	}
	if terminal <= 0 {
		return
	}
	for b.total() > terminal {
		widest := 0
		for i, w := range b.widths {
			if w > b.widths[widest] {
				widest = i
			}
		}
		switch {
		case b.widths[widest] > uncut:
			b.widths[widest]--
		case len(b.widths) > 1:
			b.widths = b.widths[:len(b.widths)-1]
		default:
			return
		}
	}
}

// total is the width of a line: each column has a line and two spaces.
func (b *box) total() int {
	total := 1
	for _, w := range b.widths {
		total += w + 3
	}
	return total
}

func (b *box) print(rows [][]duck.Cell) {
	b.rule("┌", "┬", "┐")
	for i, w := range b.widths {
		b.cell(visible(b.columns[i].Name), w, false, "")
	}
	b.out.WriteString("│\n")
	b.rule("├", "┼", "┤")
	for _, row := range rows {
		for i, w := range b.widths {
			style := ""
			if !row[i].Valid {
				style = dim
			}
			b.cell(shown(row[i]), w, b.columns[i].Number, style)
		}
		b.out.WriteString("│\n")
	}
	b.rule("└", "┴", "┘")
}

func (b *box) rule(left, middle, right string) {
	for i, w := range b.widths {
		b.out.WriteString(map[bool]string{true: left, false: middle}[i == 0])
		b.out.WriteString(strings.Repeat("─", w+2))
	}
	b.out.WriteString(right + "\n")
}

func (b *box) cell(s string, w int, rightAligned bool, style string) {
	s = cut(s, w)
	pad := strings.Repeat(" ", w-width(s))
	if style != "" && b.colour {
		s = style + s + reset
	}
	if rightAligned {
		s, pad = pad, s
	}
	b.out.WriteString("│ " + s + pad + " ")
}

// footer counts the rows, and how many are not shown.
func (b *box) footer(shown, total int64) string {
	text := human.Count(total, "row")
	if shown < total {
		text += fmt.Sprintf(", the first %s shown; --csv and --json give all", human.Number(shown))
	}
	if hidden := len(b.columns) - len(b.widths); hidden > 0 {
		text += fmt.Sprintf(", %d of %s shown", len(b.widths), human.Count(int64(len(b.columns)), "column"))
	}
	if b.colour {
		return dim + text + reset
	}
	return text
}

// shown is the text of a cell in a table.
func shown(c duck.Cell) string {
	if !c.Valid {
		return "NULL"
	}
	return c.Text
}

// visible writes control characters so that they can be seen: what an event
// holds must not command the terminal.
func visible(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unprintable(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

func width(s string) int { return readline.Runes{}.WidthAll([]rune(s)) }

// cut shortens a text to a width.
func cut(s string, w int) string {
	if width(s) <= w {
		return s
	}
	runes := []rune(s)
	for len(runes) > 0 && (readline.Runes{}).WidthAll(runes) > w-1 {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
