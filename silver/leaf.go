package silver

import (
	"fmt"
	"strings"

	"smelt"
	"smelt/internal/duck"
)

// A leaf is one declared field of an event as DuckDB's JSON text, NULL when
// the event does not have it. The functions here write the SQL that turns a
// leaf into a typed value. DuckDB alone would coerce ("42", true and 1e400 all
// become doubles), so a leaf goes through its text, and a value that is not
// exactly of the declared type becomes NULL. Hence the one rule by which both
// paths find what is wrong: a leaf that is there and whose value is NULL is a
// fault, and so is a leaf that is not there where NOT NULL is declared.

// JSON texts of times. Only strings that match are cast: DuckDB would take
// "infinity", "epoch", a bare date, 24:00 and offsets of 25 hours as well.
const (
	zone        = `([Zz]|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?)?`
	clock       = `([01][0-9]|2[0-3]):[0-5][0-9]`
	day         = `[0-9]{4}-[0-9]{2}-[0-9]{2}`
	usualTime   = `"` + day + `T` + clock + `:[0-5][0-9](\.[0-9]+)?Z"` // which the others take too, at more cost
	timePattern = `"` + day + `[Tt ]` + clock + `:[0-5][0-9](\.[0-9]+)?` + zone + `"`
	noSeconds   = `"` + day + `[Tt ]` + clock + zone + `"`
	dayPattern  = `"` + day + `"`
	uuidPattern = `"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"`
	intPattern  = `-?[0-9]+`
)

// epochs gives, for the unit of an epoch, how many microseconds it is, and the
// zeros that make it of seconds.
var epochs = map[string]struct{ micros, zeros string }{
	"s":  {"1000000", ""},
	"ms": {"1000", "000"},
	"us": {"1", "000000"},
	"ns": {"0.001", "000000000"},
}

// present is the condition that a leaf is there: an explicit null is not.
func present(leaf string) string {
	return fmt.Sprintf("nullif(%s::VARCHAR, 'null') IS NOT NULL", leaf)
}

// valueOf writes the typed value of a leaf, NULL when it is absent or not of
// the type. depth makes the names of nested lambdas differ.
func valueOf(t smelt.Type, leaf string, depth int) string {
	text := leaf + "::VARCHAR"
	matches := func(pattern string) string {
		return fmt.Sprintf("regexp_full_match(%s, %s)", text, duck.Literal(pattern))
	}
	unquoted := fmt.Sprintf("substr(%s, 2, strlen(%s) - 2)", text, text) // of ASCII
	switch t.Name {
	case "varchar":
		return fmt.Sprintf("CASE WHEN starts_with(%s, '\"') THEN %s->>'$' END", text, leaf)
	case "boolean":
		return fmt.Sprintf("CASE %s WHEN 'true' THEN true WHEN 'false' THEN false END", text)
	case "tinyint", "smallint", "integer", "bigint":
		return fmt.Sprintf("CASE WHEN %s THEN TRY_CAST(%s AS %s) END", matches(intPattern), text, t.Name)
	case "float", "real", "double":
		cast := fmt.Sprintf("TRY_CAST(%s AS %s)", text, t.Name)
		return fmt.Sprintf("CASE WHEN isfinite(%s) THEN %s + 0 END", cast, cast) // -0 + 0 is 0
	case "date":
		return fmt.Sprintf("CASE WHEN %s THEN TRY_CAST(%s AS DATE) END", matches(dayPattern), unquoted)
	case "uuid":
		return fmt.Sprintf("CASE WHEN %s THEN TRY_CAST(%s AS UUID) END", matches(uuidPattern), unquoted)
	case "timestamptz":
		if t.Unit != "" {
			return epochOf(t.Unit, text)
		}
		return fmt.Sprintf("CASE WHEN %s THEN TRY_CAST(%s AS TIMESTAMPTZ) WHEN %s THEN TRY_CAST(upper(%s) AS TIMESTAMPTZ) WHEN %s THEN TRY_CAST(regexp_replace(upper(%s), '^(.{16})', '\\1:00') AS TIMESTAMPTZ) END",
			matches(usualTime), unquoted, matches(timePattern), unquoted, matches(noSeconds), unquoted)
	case "json":
		return fmt.Sprintf("nullif(%s, 'null')::JSON", text)
	case "list":
		return listOf(t, leaf, depth)
	case "struct":
		return structOf(t, leaf, depth)
	default: // decimal(p,s)
		return fmt.Sprintf("TRY_CAST(%s AS %s)", text, t)
	}
}

// epochOf writes the time of a number of units since 1970, between the years
// 1 and 9999; fractions are cut to microseconds. All of it is exact: decimals
// are multiplied, never divided, which would make doubles of them.
func epochOf(unit, text string) string {
	const year1, year9999 = -62135596800, 253402300799 // seconds
	number, u := fmt.Sprintf("TRY_CAST(%s AS DECIMAL(30,9))", text), epochs[unit]
	return fmt.Sprintf("CASE WHEN %s BETWEEN %d%s AND %d%s THEN make_timestamp(floor(%s * %s)::BIGINT)::TIMESTAMPTZ END",
		number, year1, u.zeros, year9999, u.zeros, number, u.micros)
}

// listOf makes a pair of each element, its value and whether it is at fault,
// so that the value is written once however deep lists and structs nest.
func listOf(t smelt.Type, leaf string, depth int) string {
	elem, pairs := fmt.Sprintf("e%d", depth), fmt.Sprintf("p%d", depth)
	made := fmt.Sprintf("list_transform(from_json(%s, '[\"JSON\"]'), lambda %s: {v: %s, there: %s})",
		leaf, elem, valueOf(*t.Elem, elem, depth+1), present(elem))
	return bind(made, pairs, fmt.Sprintf("CASE WHEN starts_with(%s::VARCHAR, '[') AND NOT list_bool_or(list_transform(%s, lambda q: q.v IS NULL AND q.there)) IS TRUE THEN list_transform(%s, lambda q: q.v) END",
		leaf, pairs, pairs))
}

// structOf writes the values of scalar fields twice, where they are checked and
// where they are packed, which costs less than a name for them; with nested
// fields the struct is made first.
func structOf(t smelt.Type, leaf string, depth int) string {
	made, nested := fmt.Sprintf("s%d", depth), false
	inner, values, fields := make([]string, len(t.Fields)), make([]string, len(t.Fields)), make([]string, len(t.Fields))
	for i, f := range t.Fields {
		inner[i] = fmt.Sprintf("json_extract(%s, %s)", leaf, duck.Literal(pointer(f.Name)))
		values[i] = valueOf(f.Type, inner[i], depth+1)
		fields[i] = duck.Quote(f.Name) + " := " + values[i]
		nested = nested || f.Type.Name == "list" || f.Type.Name == "struct"
	}
	pack := "struct_pack(" + strings.Join(fields, ", ") + ")"
	checked := func(value func(i int) string, result string) string {
		checks := []string{fmt.Sprintf("starts_with(%s::VARCHAR, '{')", leaf)}
		for i, f := range t.Fields {
			checks = append(checks, "NOT "+faultOf(f, inner[i], value(i)))
		}
		return fmt.Sprintf("CASE WHEN %s THEN %s END", strings.Join(checks, " AND "), result)
	}
	if !nested {
		return checked(func(i int) string { return values[i] }, pack)
	}
	return bind(pack, made, checked(func(i int) string { return made + "." + duck.Quote(t.Fields[i].Name) }, made))
}

// bind gives the value of expr a name within body.
func bind(expr, name, body string) string {
	return fmt.Sprintf("list_transform([%s], lambda %s: %s)[1]", expr, name, body)
}

// faultOf is the condition that a column's leaf is not what was declared,
// given the leaf's value.
func faultOf(c smelt.Column, leaf, value string) string {
	if c.NotNull {
		return fmt.Sprintf("((%s) IS NULL)", value)
	}
	return fmt.Sprintf("((%s) IS NULL AND %s)", value, present(leaf))
}

// reasonOf says why a faulty leaf is at fault.
func reasonOf(t smelt.Type, leaf string) string {
	text := leaf + "::VARCHAR"
	var kind, otherwise string // the condition that the JSON type fits, and the reason when it does
	switch {
	case t.Name == "varchar":
		kind, otherwise = fmt.Sprintf("starts_with(%s, '\"')", text), ReasonWrongType
	case t.Name == "uuid":
		kind, otherwise = fmt.Sprintf("starts_with(%s, '\"')", text), ReasonWrongType
	case t.Name == "date" || t.Name == "timestamptz" && t.Unit == "":
		kind, otherwise = fmt.Sprintf("starts_with(%s, '\"')", text), ReasonBadTime
	case strings.HasSuffix(t.Name, "int") || t.Name == "integer":
		kind, otherwise = fmt.Sprintf("regexp_full_match(%s, '%s')", text, intPattern), ReasonOutOfRange
	case t.Name == "float" || t.Name == "real" || t.Name == "double" || t.Name == "timestamptz" || strings.HasPrefix(t.Name, "decimal"):
		kind, otherwise = fmt.Sprintf("regexp_matches(%s, '^[-0-9]')", text), ReasonOutOfRange
	default:
		kind, otherwise = "false", ReasonWrongType
	}
	return fmt.Sprintf("CASE WHEN NOT (%s) THEN %s WHEN %s THEN %s ELSE %s END",
		present(leaf), duck.Literal(ReasonMissing), kind, duck.Literal(otherwise), duck.Literal(ReasonWrongType))
}

// pointer writes the JSON pointer of a top-level field. Unlike a path it takes
// any name.
func pointer(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
