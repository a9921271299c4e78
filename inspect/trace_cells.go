package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
)

// Row is a row of a table, its cells in the table's order; in JSON it is an
// object.
type Row []Cell

// Cell is a value of a row.
type Cell struct {
	Column string
	Text   string          // as DuckDB prints it
	JSON   json.RawMessage // null for NULL, NaN and infinity
	Null   bool
}

// MarshalJSON writes an object with the columns in their order.
func (r Row) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, c := range r {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(c.Column)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Column, err)
		}
		out = append(append(append(out, name...), ':'), c.JSON...)
	}
	return append(out, '}'), nil
}

// cell returns the cell of a column.
func (r Row) cell(column string) Cell {
	i := slices.IndexFunc(r, func(c Cell) bool { return c.Column == column })
	if i < 0 {
		return Cell{Column: column, JSON: json.RawMessage("null"), Null: true}
	}
	return r[i]
}

// equal says whether two rows have the same cells.
func (r Row) equal(s Row) bool {
	return slices.EqualFunc(r, s, func(a, b Cell) bool { return a.Column == b.Column && a.Null == b.Null && a.Text == b.Text })
}

// selectRows reads rows of a relation; rest is what follows FROM.
func selectRows(ctx context.Context, session *duck.Session, columns []smelt.Column, relation, rest string) ([]Row, error) {
	var texts []string
	for _, c := range columns {
		name := duck.Quote(c.Name)
		texts = append(texts, name+"::VARCHAR", "to_json("+name+")::VARCHAR")
	}
	result, err := session.Query(ctx, "SELECT ["+strings.Join(texts, ", ")+"] FROM "+relation+" "+rest)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	var out []Row
	for result.Next() {
		var cells []any
		if err := result.Scan(&cells); err != nil {
			return nil, fmt.Errorf("read rows: %w", err)
		}
		row := make(Row, len(columns))
		for i, c := range columns {
			row[i] = newCell(c.Name, cells[2*i], cells[2*i+1])
		}
		out = append(out, row)
	}
	return out, result.Err()
}

func newCell(column string, text, asJSON any) Cell {
	c := Cell{Column: column, JSON: json.RawMessage("null"), Null: text == nil}
	if s, ok := text.(string); ok {
		c.Text = s
	}
	if s, ok := asJSON.(string); ok && json.Valid([]byte(s)) { // NaN and infinity are not
		c.JSON = json.RawMessage(s)
	}
	return c
}
