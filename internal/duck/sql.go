package duck

import (
	"strings"
	"time"

	"smelt"
)

// Quote writes an identifier.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Literal writes a string. One that holds a NUL, at which the text of a statement
// ends, is put together from its parts.
func Literal(s string) string {
	text := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if !strings.Contains(text, "\x00") {
		return text
	}
	return "(" + strings.ReplaceAll(text, "\x00", "' || chr(0) || '") + ")"
}

// List writes a list of strings.
func List(items []string) string {
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = Literal(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Timestamp writes a time, to the microsecond.
func Timestamp(t time.Time) string {
	return "TIMESTAMPTZ '" + t.UTC().Format("2006-01-02 15:04:05.000000") + "+00'"
}

// Names writes columns as a SELECT names them.
func Names(columns []smelt.Column) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = Quote(c.Name)
	}
	return strings.Join(out, ", ")
}

// Declarations writes columns as CREATE TABLE declares them.
func Declarations(columns []smelt.Column) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = Quote(c.Name) + " " + c.Type.String()
	}
	return strings.Join(out, ", ")
}
