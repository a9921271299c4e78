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

// Future gives a table as it is once it holds the columns that a pipeline's SQL
// gives: t itself, as a rule. Columns that it cannot take are a bad pipeline; the
// error names all of them, and the choices.
func Future(t *table.Table, columns []smelt.Column) (*table.Table, error) {
	future, err := t.With(columns...)
	return future, Refused(t.Name(), err)
}

// Refused puts an error of a table that cannot take columns into words that say
// what can be done. Another error, or none, it leaves as it is.
func Refused(name string, err error) error {
	var conflicts table.Conflicts
	if !errors.As(err, &conflicts) {
		return err
	}
	layer, pipeline, _ := strings.Cut(name, ".")
	drop, what := pipeline, "drop what the pipeline has made, and have it made anew from bronze"
	if layer == "gold" {
		drop, what = name, "drop the table, and have it computed anew"
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
