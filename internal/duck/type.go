package duck

import (
	"fmt"
	"strings"

	"smelt"
)

// ParseType reads a type as DuckDB spells it, such as "DECIMAL(10,2)",
// "TIMESTAMP WITH TIME ZONE", "VARCHAR[]" or "STRUCT(a INTEGER, "b c" VARCHAR)".
func ParseType(text string) (smelt.Type, error) {
	text = strings.TrimSpace(text)
	if elem, ok := strings.CutSuffix(text, "[]"); ok {
		t, err := ParseType(elem)
		return smelt.Type{Name: "list", Elem: &t}, err
	}
	if inner, ok := strings.CutPrefix(text, "STRUCT("); ok && strings.HasSuffix(inner, ")") {
		fields, err := parseFields(strings.TrimSuffix(inner, ")"))
		return smelt.Type{Name: "struct", Fields: fields}, err
	}
	name := strings.ToLower(text)
	switch {
	case name == "timestamp with time zone":
		name = "timestamptz"
	case strings.HasPrefix(name, "enum("):
		name = "enum"
	case strings.ContainsAny(name, "([") && !strings.HasPrefix(name, "decimal("):
		return smelt.Type{}, fmt.Errorf("type %s cannot be stored", text)
	}
	return smelt.Type{Name: strings.ReplaceAll(name, " ", "")}, nil
}

// parseFields reads what stands between the parentheses of a STRUCT.
func parseFields(text string) ([]smelt.Column, error) {
	var fields []smelt.Column
	for _, part := range splitTop(text) {
		name, typ, ok := cutName(strings.TrimSpace(part))
		if !ok {
			return nil, fmt.Errorf("field %q has no type", part)
		}
		t, err := ParseType(typ)
		if err != nil {
			return nil, err
		}
		fields = append(fields, smelt.Column{Name: name, Type: t})
	}
	return fields, nil
}

// splitTop splits at the commas that are inside no parentheses and no quotes.
func splitTop(text string) []string {
	var parts []string
	depth, start, quoted := 0, 0, false
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

// cutName cuts a field's name, quoted or not, from its type.
func cutName(field string) (name, typ string, ok bool) {
	if !strings.HasPrefix(field, `"`) {
		return strings.Cut(field, " ")
	}
	for i := 1; i < len(field); i++ {
		if field[i] != '"' {
			continue
		}
		if i+1 < len(field) && field[i+1] == '"' {
			i++
			continue
		}
		return strings.ReplaceAll(field[1:i], `""`, `"`), strings.TrimSpace(field[i+1:]), true
	}
	return "", "", false
}

// Storable returns the type in which a table keeps a computed column, because DuckDB has more types than Iceberg. ok
// is false if there is none.
func Storable(t smelt.Type) (stored smelt.Type, ok bool) {
	switch t.Name {
	case "list":
		elem, ok := Storable(*t.Elem)
		return smelt.Type{Name: "list", Elem: &elem}, ok
	case "struct":
		fields := make([]smelt.Column, len(t.Fields))
		for i, f := range t.Fields {
			stored, ok := Storable(f.Type)
			if !ok {
				return t, false
			}
			fields[i] = smelt.Column{Name: f.Name, Type: stored}
		}
		return smelt.Type{Name: "struct", Fields: fields}, true
	case "tinyint", "smallint", "utinyint", "usmallint":
		return smelt.Type{Name: "integer"}, true
	case "uinteger":
		return smelt.Type{Name: "bigint"}, true
	case "ubigint":
		return smelt.Type{Name: "decimal(20,0)"}, true
	case "hugeint", "uhugeint":
		return smelt.Type{Name: "decimal(38,0)"}, true
	case "timestamp_s", "timestamp_ms", "timestamp_ns":
		return smelt.Type{Name: "timestamp"}, true
	case "json", "enum":
		return smelt.Type{Name: "varchar"}, true
	case "real":
		return smelt.Type{Name: "float"}, true
	case "boolean", "integer", "bigint", "float", "double", "varchar", "date", "timestamp", "timestamptz", "uuid", "blob":
		return t, true
	}
	return t, strings.HasPrefix(t.Name, "decimal(")
}
