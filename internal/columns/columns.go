// Package columns holds rows in memory, column by column, in the layout of DuckDB's vectors. A reader fills them
// once, and any number of queries copy from them.
//
// One goroutine fills a [Batch], and others read it when it is complete. Its texts lie outside Go's heap, because
// DuckDB keeps pointers to them while a query runs.
package columns

import (
	"fmt"
	"strconv"
	"strings"

	"smelt"
)

// Batch is some rows of the same columns.
type Batch struct {
	Columns []*Column
	rows    int
	space   int // rows that the columns have room for
	texts   arena

	rowBytes int       // of a row's values, but for texts and elements
	lists    []*Column // the elements of all lists
}

// minRows is how many rows a batch has room for at first: one of DuckDB's vectors.
const minRows = 2048

// New makes an empty batch of columns.
func New(columns []smelt.Column) *Batch {
	b := &Batch{Columns: make([]*Column, len(columns))}
	for i, c := range columns {
		b.Columns[i] = newColumn(c)
	}
	b.measure(b.Columns)
	return b
}

// Len is how many rows the batch has.
func (b *Batch) Len() int { return b.rows }

// Add appends a row whose columns are all NULL and returns its number.
func (b *Batch) Add() int {
	if b.rows == b.space {
		b.space = max(minRows, 2*b.space)
		for _, c := range b.Columns {
			c.grow(b.space)
		}
	}
	b.rows++
	return b.rows - 1
}

// Keep copies bytes to where DuckDB may read them, until Reset or Free.
func (b *Batch) Keep(text []byte) []byte { return b.texts.keep(text) }

// Take gives n bytes, to be written at once, where DuckDB may read them, until
// Reset or Free.
func (b *Batch) Take(n int) []byte { return b.texts.take(n) }

// Size is how many bytes the batch holds. Its memory may be twice that, since it
// grows by doubling.
func (b *Batch) Size() int {
	size := b.texts.used + b.rows*b.rowBytes
	for _, elem := range b.lists {
		size += elem.used * elem.rowBytes()
	}
	return size
}

// measure adds columns to what a row takes, and finds the lists.
func (b *Batch) measure(columns []*Column) {
	for _, c := range columns {
		b.rowBytes += c.rowBytes()
		c.eachList(func(elem *Column) { b.lists = append(b.lists, elem) })
	}
}

// rowBytes is how many bytes a row takes, but for texts and elements.
func (c *Column) rowBytes() int {
	n := c.Width
	for _, f := range c.Fields {
		n += f.rowBytes()
	}
	return n
}

// eachList gives the elements of each list in a column to yield.
func (c *Column) eachList(yield func(elem *Column)) {
	if c.Elem != nil {
		yield(c.Elem)
		c.Elem.eachList(yield)
	}
	for _, f := range c.Fields {
		f.eachList(yield)
	}
}

// Reset empties the batch. It keeps some memory for the next rows.
func (b *Batch) Reset() {
	for _, c := range b.Columns {
		c.reset()
	}
	b.rows = 0
	b.texts.reset()
}

// Free gives the batch's memory back. The batch is empty then.
func (b *Batch) Free() {
	given := make([]smelt.Column, len(b.Columns))
	for i, c := range b.Columns {
		given[i] = smelt.Column{Name: c.Name, Type: c.Type}
	}
	b.texts.free()
	*b = *New(given)
}

// Column is the values of one column. Values are set by their row's number; a
// row that is not set is NULL.
type Column struct {
	Name   string
	Type   smelt.Type
	Width  int       // bytes of a value; 0 for a struct
	Elem   *Column   // of a list: the elements of all rows, one after the other
	Fields []*Column // of a struct: as many rows as the struct

	data  []byte   // Width bytes a row, little endian
	valid []uint64 // a bit a row
	used  int      // of a list's elements: how many there are
}

func newColumn(c smelt.Column) *Column {
	out := &Column{Name: c.Name, Type: c.Type, Width: width(c.Type)}
	switch c.Type.Name {
	case "list":
		out.Elem = newColumn(smelt.Column{Type: *c.Type.Elem})
	case "struct":
		for _, f := range c.Type.Fields {
			out.Fields = append(out.Fields, newColumn(f))
		}
	}
	return out
}

// width is how many bytes DuckDB has for a value of a type.
func width(t smelt.Type) int {
	switch t.Name {
	case "boolean", "tinyint":
		return 1
	case "smallint":
		return 2
	case "integer", "float", "date":
		return 4
	case "bigint", "double", "timestamptz":
		return 8
	case "varchar", "json", "uuid", "list":
		return 16
	case "struct":
		return 0
	}
	if precision, _, ok := Decimal(t); ok {
		switch {
		case precision <= 4:
			return 2
		case precision <= 9:
			return 4
		case precision <= 18:
			return 8
		}
		return 16
	}
	panic(fmt.Sprintf("columns: no layout for the type %s", t)) // only types that pipeline.yml can declare come here
}

// Decimal gives the precision and the scale of a decimal type. ok is false for any other.
func Decimal(t smelt.Type) (precision, scale int, ok bool) {
	inner, found := strings.CutPrefix(t.Name, "decimal(")
	p, s, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ",")
	precision, errP := strconv.Atoi(strings.TrimSpace(p))
	scale, errS := strconv.Atoi(strings.TrimSpace(s))
	return precision, scale, found && errP == nil && errS == nil
}

// Append adds an element to a list's elements, NULL at first, and returns its number.
func (c *Column) Append() int {
	if c.used == len(c.valid)*64 {
		c.grow(max(minRows, 2*c.used))
	}
	c.used++
	return c.used - 1
}

// Appended is how many elements there are.
func (c *Column) Appended() int { return c.used }

// grow makes room for a number of rows, a multiple of 64.
func (c *Column) grow(rows int) {
	c.data = append(c.data, make([]byte, rows*c.Width-len(c.data))...)
	c.valid = append(c.valid, make([]uint64, rows/64-len(c.valid))...)
	for _, f := range c.Fields {
		f.grow(rows)
	}
}

func (c *Column) reset() {
	clear(c.valid)
	c.used = 0
	if c.Elem != nil {
		c.Elem.reset()
	}
	for _, f := range c.Fields {
		f.reset()
	}
}
