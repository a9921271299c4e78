package shell

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"smelt/internal/duck"
)

// Format is how results are printed.
type Format int

const (
	Table Format = iota // a table with lines around it
	CSV                 // a header and a line a row; NULL is empty, an empty text is ""
	JSON                // an array of objects a statement
)

// Printer prints results.
type Printer struct {
	Out    io.Writer
	Err    io.Writer // for remarks on what a statement has done
	Format Format
	Width  func() int // of the terminal, in columns; 0 without a terminal
	Colour bool
}

// Print prints a result and closes it.
func (p *Printer) Print(r *duck.Result) error {
	out := bufio.NewWriter(p.Out)
	var err error
	switch {
	case !r.Query:
		err = p.remark(r)
	case p.Format == CSV:
		err = printCSV(out, r)
	case p.Format == JSON:
		err = printJSON(out, r)
	default:
		err = p.table(out, r)
	}
	return errors.Join(err, out.Flush(), r.Close())
}

// each calls yield with every row.
func each(r *duck.Result, yield func(row []duck.Cell) error) error {
	row := make([]duck.Cell, len(r.Columns))
	for {
		err := r.Next(row)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = yield(row)
		}
		if err != nil {
			return err
		}
	}
}

func printCSV(out *bufio.Writer, r *duck.Result) error {
	header := make([]duck.Cell, len(r.Columns))
	for i, c := range r.Columns {
		header[i] = duck.Cell{Text: c.Name, Valid: true}
	}
	line := func(row []duck.Cell) error {
		for i, c := range row {
			if i > 0 {
				out.WriteByte(',')
			}
			out.WriteString(fieldCSV(c))
		}
		return out.WriteByte('\n')
	}
	return errors.Join(line(header), each(r, line))
}

// fieldCSV writes a field as DuckDB does, which tells NULL from an empty text.
func fieldCSV(c duck.Cell) string {
	if c.Valid && (c.Text == "" || strings.ContainsAny(c.Text, ",\"\r\n") || strings.TrimSpace(c.Text) != c.Text) {
		return `"` + strings.ReplaceAll(c.Text, `"`, `""`) + `"`
	}
	return c.Text
}

// printJSON prints a row a line. Numbers that JSON does not have are null.
func printJSON(out *bufio.Writer, r *duck.Result) error {
	names := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		names[i] = quoteJSON(c.Name)
	}
	separator := "[\n"
	err := each(r, func(row []duck.Cell) error {
		out.WriteString(separator)
		separator = ",\n"
		for i, c := range row {
			out.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
			out.WriteString(names[i])
			out.WriteByte(':')
			out.WriteString(valueJSON(c, r.JSON))
		}
		_, err := out.WriteString("}")
		return err
	})
	if separator == "[\n" {
		out.WriteString("[")
	}
	_, end := out.WriteString("\n]\n")
	return errors.Join(err, end)
}

func valueJSON(c duck.Cell, isJSON bool) string {
	switch {
	case !c.Valid:
		return "null"
	case !isJSON:
		return quoteJSON(c.Text)
	case !json.Valid([]byte(c.Text)): // NaN and infinity
		return "null"
	}
	return c.Text
}

// quoteJSON writes a string, without the escapes that are only for HTML.
func quoteJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
