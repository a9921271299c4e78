package duck

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"smelt"
)

// BindError is a SELECT that does not fit the tables that it reads.
type BindError struct {
	Message  string
	Position int    // byte offset in the statement, or -1
	Column   string // the column that is not there, when that is the trouble
}

// maxBindErrors bounds how many unknown columns are reported at once.
const maxBindErrors = 50

// OutputColumn is a column of a statement's result, with its type as DuckDB
// writes it, which may be one that [ParseType] does not read.
type OutputColumn struct{ Name, Type string }

// Bind binds a SELECT without running it. It returns the columns of its result, or its faults. It reports all
// unknown columns at once, each where it occurs first. statement is the parsed text. The session must be
// idle, because errors have another form in the meantime.
func (s *Session) Bind(ctx context.Context, text string, statement *Statement) (columns []OutputColumn, faults []BindError, err error) {
	if err := s.Exec(ctx, "SET errors_as_json = true"); err != nil {
		return nil, nil, err
	}
	defer func() {
		err = errors.Join(err, s.Exec(context.WithoutCancel(ctx), "SET errors_as_json = false"))
	}()
	for len(faults) < maxBindErrors {
		columns, fault, err := s.bind(ctx, text)
		if err != nil {
			return nil, nil, err
		}
		if fault == nil {
			return columns, faults, nil
		}
		if len(faults) > 0 && fault.Column == "" {
			return nil, faults, nil // what stands in for missing columns may be to blame
		}
		faults = append(faults, *fault)
		if fault.Column == "" {
			return nil, faults, nil
		}
		text = statement.without(text, fault.Position)
	}
	return nil, faults, nil
}

// without puts something else in the place of a column, wherever the statement
// names it.
func (st *Statement) without(text string, start int) string {
	path := func(n Name) string { return strings.ToLower(strings.Join(n.Path, ".")) }
	var missing string
	for _, c := range st.Columns {
		if c.Position == start {
			missing = path(c)
		}
	}
	text = standIn(text, start)
	for _, c := range st.Columns {
		if c.Position > start && path(c) == missing {
			text = standIn(text, c.Position)
		}
	}
	return text
}

// standIn puts a NULL, or a 1 where that is too long, in the place of a column.
func standIn(text string, start int) string {
	end := reference(text, start)
	value := "NULL"
	if end-start < len(value) {
		value = "1"
	}
	return text[:start] + value + strings.Repeat(" ", max(0, end-start-len(value))) + text[max(end, start+len(value)):]
}

func (s *Session) bind(ctx context.Context, text string) ([]OutputColumn, *BindError, error) {
	const describe = "DESCRIBE "
	rows, err := s.conn.QueryContext(ctx, describe+text)
	if err != nil {
		return bindError(ctx, err, len(describe))
	}
	defer rows.Close()
	var columns []OutputColumn
	for rows.Next() {
		var c OutputColumn
		var rest [4]any
		if err := rows.Scan(&c.Name, &c.Type, &rest[0], &rest[1], &rest[2], &rest[3]); err != nil {
			return nil, nil, wrap(text, err)
		}
		columns = append(columns, c)
	}
	return columns, nil, wrap(text, rows.Err())
}

// bindError reads an error in the form of errors_as_json.
func bindError(ctx context.Context, err error, prefix int) ([]OutputColumn, *BindError, error) {
	_, object, ok := strings.Cut(err.Error(), "{")
	var told struct {
		Message  string `json:"exception_message"`
		Position string `json:"position"`
	}
	if !ok || ctx.Err() != nil || json.Unmarshal([]byte("{"+object), &told) != nil {
		return nil, nil, err
	}
	e := &BindError{Position: -1}
	e.Message = message(told.Message)
	if pos, err := strconv.Atoi(told.Position); err == nil && pos >= prefix {
		e.Position = pos - prefix
	}
	if m := noColumn.FindStringSubmatch(told.Message); m != nil && e.Position >= 0 {
		e.Column = m[1] + m[2]
	}
	return nil, e, nil
}

var noColumn = regexp.MustCompile(`^(?:Referenced column "(.*?)" (?:not found|was not found)|(?:Table|Values list) ".*?" does not have a column named "(.*?)")`)

// message keeps the first line of a message, and a second one that is short and
// helps.
func message(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	second, _, _ := strings.Cut(rest, "\n")
	if strings.HasPrefix(second, "Did you mean") || strings.HasPrefix(second, "Candidate tables") {
		return first + " " + second
	}
	return first
}

// ResultColumn reads the type of an output column as a table would keep it. If no table can keep it, the error
// says why. A column that is always NULL, as are those of a table that is not known yet, has the type null.
func (c OutputColumn) ResultColumn() (column smelt.Column, fault string) {
	typ, err := ParseType(c.Type)
	if err == nil {
		if stored, ok := Storable(typ); ok {
			return smelt.Column{Name: c.Name, Type: stored}, ""
		}
	}
	return smelt.Column{}, "column " + strconv.Quote(c.Name) + " is of type " + strings.ToLower(c.Type) + ", which a table cannot keep: cast it"
}
