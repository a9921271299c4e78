package duck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Statement is what smelt needs to know about a SELECT before it runs it. Each
// list is in the order of the text.
type Statement struct {
	Outputs   []Name // of the outermost SELECT; nil when that is a UNION or the like
	Tables    []Name // base tables, without those that are CTEs
	Functions []Name // functions called, lower case, without operators
	Columns   []Name // columns referred to, without the parameters of lambdas
	Using     []Name // columns of USING
	Joins     []Join // tables that are joined to what stands before them
	Features  []Name // what a reader may have to refuse: see the constants
	Sources   []Name // items of FROM that are not a table, join or subquery
}

// Features of a SELECT.
const (
	FeatureGroupBy    = "GROUP BY"
	FeatureHaving     = "HAVING"
	FeatureQualify    = "QUALIFY"
	FeatureSample     = "SAMPLE"
	FeatureDistinct   = "DISTINCT"
	FeatureLimit      = "LIMIT"
	FeatureUnion      = "UNION"
	FeatureExcept     = "EXCEPT"
	FeatureIntersect  = "INTERSECT"
	FeatureRecursive  = "RECURSIVE"
	FeatureWindow     = "a window function"
	FeatureSubquery   = "a subquery in an expression"
	FeatureFull       = "FULL JOIN"
	FeatureRight      = "RIGHT JOIN"
	FeatureCross      = "CROSS JOIN"
	FeatureNatural    = "NATURAL JOIN"
	FeaturePositional = "POSITIONAL JOIN"
	FeatureAt         = "AT"
	FeatureParameter  = "a parameter"
	FeatureColumns    = "COLUMNS"
	FeatureNumber     = "a column's number"
)

// Name is a name and where it stands.
type Name struct {
	Text     string   // "schema.name" for a table that has a schema; the last name of a column; "*" for a star
	Path     []string // of a column: its parts, such as table and column, or column and field
	Alias    string   // of a table
	Children int      // of a function: how many arguments it has
	Position int      // byte offset in the statement; -1 when unknown
}

// Join is a base table on the right of a JOIN.
type Join struct {
	Table Name
	Equal [][2][]string // pairs of columns, each by its parts, that are equal in rows that meet; a column of USING is one of the table and one without
}

// SyntaxError is a statement that is not one SELECT.
type SyntaxError struct {
	Message  string
	Position int // byte offset, or -1
}

func (e *SyntaxError) Error() string { return e.Message }

// IsSyntax says whether err is a *SyntaxError, and gives it.
func IsSyntax(err error) (*SyntaxError, bool) {
	var se *SyntaxError
	ok := errors.As(err, &se)
	return se, ok
}

// Parse parses a statement without binding it. It fails with a *SyntaxError
// when the text is not exactly one SELECT.
func (s *Session) Parse(ctx context.Context, text string) (*Statement, error) {
	var answer string
	if err := s.Row(ctx, "SELECT json_serialize_sql("+Literal(text)+")::VARCHAR", &answer); err != nil {
		return nil, err
	}
	var tree struct {
		Error      bool   `json:"error"`
		Type       string `json:"error_type"`
		Message    string `json:"error_message"`
		Position   string `json:"position"`
		Statements []struct {
			Node map[string]any `json:"node"`
		} `json:"statements"`
	}
	decoder := json.NewDecoder(strings.NewReader(answer))
	decoder.UseNumber() // an unknown location is 2^64-1
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	starts := statements(text)
	first := -1
	if len(starts) > 0 {
		first = starts[0]
	}
	switch {
	case len(starts) > 1:
		return nil, &SyntaxError{"a second statement: one SELECT must stand here", starts[1]}
	case tree.Error && tree.Type == "not implemented":
		return nil, &SyntaxError{"this is not a plain SELECT: write one SELECT", first}
	case tree.Error:
		return nil, &SyntaxError{tree.Message, byteOffset(text, tree.Position)}
	case len(tree.Statements) != 1:
		return nil, &SyntaxError{"there is no statement: write one SELECT", first}
	}
	w := walker{text: text}
	w.walk(tree.Statements[0].Node, scope{})
	w.outputs(tree.Statements[0].Node)
	for _, list := range []*[]Name{&w.Tables, &w.Functions, &w.Columns, &w.Using, &w.Features, &w.Sources} {
		slices.SortStableFunc(*list, func(a, b Name) int { return a.Position - b.Position })
	}
	return &w.Statement, nil
}

// ParseCondition parses a condition as it stands in "SELECT (condition)", from
// where its places count. It fails with a *SyntaxError when the text is not
// exactly one expression, so that in parentheses it stays one in any statement.
func (s *Session) ParseCondition(ctx context.Context, condition string) (*Statement, error) {
	switch {
	case !utf8.ValidString(condition) || strings.ContainsRune(condition, 0):
		return nil, &SyntaxError{"it is not UTF-8 text", -1}
	case strings.TrimSpace(condition) == "":
		return nil, &SyntaxError{"there is no condition", -1}
	case slices.ContainsFunc(tokens(condition), func(t token) bool { return condition[t.start:t.end] == ";" }):
		return nil, &SyntaxError{"a semicolon: one condition must stand here, and nothing after it", -1}
	}
	// A complete text cannot close a parenthesis around it.
	bare, err := s.Parse(ctx, "SELECT "+condition)
	if err != nil {
		return nil, err
	}
	if len(bare.Outputs) != 1 || bare.Outputs[0].Text == "*" {
		return nil, &SyntaxError{"a list: one condition must stand here", -1}
	}
	return s.Parse(ctx, "SELECT ("+condition+")")
}

// byteOffset gives the byte offset of the character at a position: the parser
// counts characters, where the places in its trees are bytes.
func byteOffset(text, position string) int {
	n, err := strconv.Atoi(position)
	if err != nil {
		return -1
	}
	for at := range text {
		if n == 0 {
			return at
		}
		n--
	}
	return len(text)
}

// Position gives the line and the column, in characters, of a byte offset, both
// from 1.
func Position(text string, offset int) (line, col int) {
	if offset < 0 || offset > len(text) {
		return 1, 1
	}
	head := text[:offset]
	return strings.Count(head, "\n") + 1, utf8.RuneCountInString(head[strings.LastIndex(head, "\n")+1:]) + 1
}
