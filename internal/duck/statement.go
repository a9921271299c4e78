package duck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Statement is what smelt needs to know about a SELECT before it runs it.
type Statement struct {
	Tables    []Name // base tables, without those that are CTEs
	Functions []Name // functions called, lower case
	Columns   []Name // columns referenced, by their last name, in order of appearance
	Features  []Name // SELECT features that make a query other than row by row: "GROUP BY", "DISTINCT", …
	Sources   []Name // what stands in FROM that is no table, join or subquery: table functions, files, VALUES
}

// Name is a name and where it stands.
type Name struct {
	Text     string // "schema.name" for a table that has a schema
	Position int    // byte offset in the statement; -1 when unknown
}

// SyntaxError is a statement that is not one SELECT.
type SyntaxError struct {
	Message  string
	Position int // byte offset, or -1
}

func (e *SyntaxError) Error() string { return e.Message }

// Parse parses a statement without binding it. It fails with a *SyntaxError
// when the text is not exactly one SELECT.
func (s *Session) Parse(ctx context.Context, text string) (*Statement, error) {
	var answer string
	if err := s.Row(ctx, "SELECT json_serialize_sql("+Literal(text)+")::VARCHAR", &answer); err != nil {
		return nil, err
	}
	var tree struct {
		Error      bool             `json:"error"`
		Type       string           `json:"error_type"`
		Message    string           `json:"error_message"`
		Position   string           `json:"position"`
		Statements []map[string]any `json:"statements"`
	}
	decoder := json.NewDecoder(strings.NewReader(answer))
	decoder.UseNumber() // an unknown location is 2^64-1
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	switch {
	case tree.Error && tree.Type == "not implemented":
		return nil, &SyntaxError{"only a SELECT may stand here", -1}
	case tree.Error:
		pos, err := strconv.Atoi(tree.Position)
		if err != nil {
			pos = -1
		}
		return nil, &SyntaxError{tree.Message, pos}
	case len(tree.Statements) != 1:
		return nil, &SyntaxError{fmt.Sprintf("one SELECT must stand here, not %d statements", len(tree.Statements)), -1}
	}
	w := walker{ctes: map[string]bool{}}
	w.collectCTEs(tree.Statements[0])
	w.walk(tree.Statements[0])
	return &w.Statement, nil
}

// Position gives the line and column (from 1) of a byte offset.
func Position(text string, offset int) (line, col int) {
	if offset < 0 || offset > len(text) {
		return 1, 1
	}
	head := text[:offset]
	return strings.Count(head, "\n") + 1, offset - strings.LastIndex(head, "\n")
}

type walker struct {
	Statement
	ctes map[string]bool
}

func (w *walker) collectCTEs(node any) {
	switch n := node.(type) {
	case map[string]any:
		if cte, ok := n["cte_map"].(map[string]any); ok {
			entries, _ := cte["map"].([]any)
			for _, e := range entries {
				if entry, ok := e.(map[string]any); ok {
					w.ctes[strings.ToLower(str(entry["key"]))] = true
				}
			}
		}
		for _, v := range n {
			w.collectCTEs(v)
		}
	case []any:
		for _, v := range n {
			w.collectCTEs(v)
		}
	}
}

// walk visits the tree in an order that is the same at every run.
func (w *walker) walk(node any) {
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			w.walk(v)
		}
	case map[string]any:
		w.visit(n)
		keys := make([]string, 0, len(n))
		for k := range n {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			w.walk(n[k])
		}
	}
}

func (w *walker) visit(n map[string]any) {
	pos := position(n)
	feature := func(text string) { w.Features = append(w.Features, Name{text, pos}) }
	switch str(n["type"]) {
	case "SELECT_NODE":
		if !empty(n["group_sets"]) || !empty(n["group_expressions"]) || str(n["aggregate_handling"]) == "FORCE_AGGREGATES" {
			feature("GROUP BY")
		}
		if n["having"] != nil {
			feature("HAVING")
		}
		if n["qualify"] != nil {
			feature("QUALIFY")
		}
		if n["sample"] != nil {
			feature("SAMPLE")
		}
	case "DISTINCT_MODIFIER":
		feature("DISTINCT")
	case "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER":
		feature("LIMIT")
	case "ORDER_MODIFIER":
		if !empty(n["orders"]) && n["expression_class"] == nil {
			feature("ORDER BY")
		}
	case "SET_OPERATION_NODE":
		feature(strings.ReplaceAll(str(n["setop_type"]), "_", " "))
	case "RECURSIVE_CTE_NODE":
		feature("RECURSIVE")
	case "BASE_TABLE":
		w.table(n, pos)
	case "TABLE_FUNCTION":
		w.Sources = append(w.Sources, Name{"a table function", pos})
	case "EXPRESSION_LIST":
		w.Sources = append(w.Sources, Name{"VALUES", pos})
	case "PIVOT", "SHOW_REF", "COLUMN_DATA", "DELIM_GET":
		w.Sources = append(w.Sources, Name{str(n["type"]), pos})
	case "FUNCTION":
		if op, _ := n["is_operator"].(bool); !op {
			w.Functions = append(w.Functions, Name{strings.ToLower(str(n["function_name"])), pos})
		}
	case "COLUMN_REF":
		if names, ok := n["column_names"].([]any); ok && len(names) > 0 {
			w.Columns = append(w.Columns, Name{str(names[len(names)-1]), pos})
		}
	}
	if str(n["class"]) == "WINDOW" {
		feature("window function")
	}
}

func (w *walker) table(n map[string]any, pos int) {
	name, schema := str(n["table_name"]), str(n["schema_name"])
	if schema == "" && w.ctes[strings.ToLower(name)] {
		return
	}
	if schema != "" {
		name = schema + "." + name
	}
	if catalog := str(n["catalog_name"]); catalog != "" {
		name = catalog + "." + name
	}
	w.Tables = append(w.Tables, Name{name, pos})
}

func position(n map[string]any) int {
	number, ok := n["query_location"].(json.Number)
	if !ok {
		return -1
	}
	pos, err := strconv.Atoi(string(number))
	if err != nil {
		return -1
	}
	return pos
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

func empty(v any) bool {
	list, ok := v.([]any)
	return !ok || len(list) == 0
}

// IsSyntax says whether err is a *SyntaxError, and gives it.
func IsSyntax(err error) (*SyntaxError, bool) {
	var se *SyntaxError
	ok := errors.As(err, &se)
	return se, ok
}
