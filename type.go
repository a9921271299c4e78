package smelt

import (
	"strings"
)

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

// Scalar says whether the type has no elements and no fields: it is not a list, a struct or json.
func (t Type) Scalar() bool {
	return t.Name != "list" && t.Name != "struct" && t.Name != "json"
}
