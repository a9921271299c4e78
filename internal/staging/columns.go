package staging

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/table"
)

// Future returns a table as it will be with the columns of a pipeline's SQL; usually t itself. Columns that it cannot take are an
// ErrPipeline. The error names all of them, and the choices.
func Future(t *table.Table, columns []smelt.Column) (*table.Table, error) {
	future, err := t.With(columns...)
	return future, Refused(t.Name(), err)
}

// Refused rewrites the error of a table that cannot take columns, with what to do about it. It returns other errors, and nil,
// unchanged.
func Refused(name string, err error) error {
	var conflicts table.Conflicts
	if !errors.As(err, &conflicts) {
		return err
	}
	layer, pipeline, _ := strings.Cut(name, ".")
	drop, what := pipeline, "drop the pipeline's tables, which are then computed again from bronze"
	if layer == "gold" {
		drop, what = name, "drop the table, which is then computed again"
	}
	return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("the pipeline's SQL gives columns that %s cannot take:\n  %s\nEither cast each column back, or give it another name with AS, or %s:\n  ./bin/smelt drop %s",
		name, strings.ReplaceAll(conflicts.Error(), "\n", "\n  "), what, drop))
}

// Fitted gives columns of a query with the types that a table has them in.
func Fitted(t *table.Table, columns []smelt.Column) []smelt.Column {
	out := slices.Clone(columns)
	for _, c := range t.Columns() {
		if i := index(out, c.Name); i >= 0 {
			out[i].Type = c.Type
		}
	}
	return out
}

// Relation writes a query in parentheses that gives a table's columns, in its
// order and types, from a relation that has some of them; the others are NULL.
func Relation(relation string, t *table.Table, have []smelt.Column) string {
	var selected []string
	for _, c := range t.Columns() {
		name := duck.Quote(c.Name)
		switch i := index(have, c.Name); {
		case i < 0:
			name = "NULL::" + c.Type.String() + " AS " + name
		case have[i].Type.String() != c.Type.String():
			name += "::" + c.Type.String() + " AS " + name
		}
		selected = append(selected, name)
	}
	return "(SELECT " + strings.Join(selected, ", ") + " FROM " + relation + ")"
}

func index(columns []smelt.Column, name string) int {
	return slices.IndexFunc(columns, func(c smelt.Column) bool { return c.Name == name })
}
