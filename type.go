package smelt

import (
	"slices"
	"strings"
)

// typeNames are the types of a column that stand alone. decimal(p,s), struct(…)
// and lists, T[], are the others.
var typeNames = []string{
	"varchar", "boolean", "tinyint", "smallint", "integer", "bigint",
	"float", "double", "date", "timestamptz", "uuid", "json",
}

// String is the type in DuckDB's spelling, ready for a CAST: VARCHAR[],
// DECIMAL(10,2), STRUCT("a" VARCHAR, "b" BIGINT[]).
func (t Type) String() string {
	switch t.Name {
	case "list":
		return t.Elem.String() + "[]"
	case "struct":
		fields := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			fields[i] = `"` + strings.ReplaceAll(f.Name, `"`, `""`) + `" ` + f.Type.String()
		}
		return "STRUCT(" + strings.Join(fields, ", ") + ")"
	}
	return strings.ToUpper(t.Name)
}

// Scalar says whether the type has neither elements nor fields, known or not:
// it is no list, no struct and no json.
func (t Type) Scalar() bool {
	return t.Name != "list" && t.Name != "struct" && t.Name != "json"
}

// hasDecimal says whether the type is a decimal, or has one in it.
func (t Type) hasDecimal() bool {
	if t.Elem != nil {
		return t.Elem.hasDecimal()
	}
	return t.decimal() || slices.ContainsFunc(t.Fields, func(f Column) bool { return f.Type.hasDecimal() })
}

// round has the type's decimals rounded: itself, or those in it.
func (t *Type) round() {
	if t.Round = t.decimal(); t.Elem != nil {
		t.Elem.round()
	}
	for i := range t.Fields {
		t.Fields[i].Type.round()
	}
}

func (t Type) decimal() bool { return strings.HasPrefix(t.Name, "decimal(") }
