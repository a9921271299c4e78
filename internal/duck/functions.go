package duck

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// Functions says of functions' names, in lower case, what kinds they may be.
type Functions struct {
	Aggregate map[string]bool
	Volatile  map[string]bool // may give another value for the same arguments
	Unnest    map[string]bool // makes several rows of one
}

// What DuckDB calls consistent, and is so only within a session or a process.
var moreVolatile = []string{
	"current_setting", "getvariable", "version", "current_timestamp", "current_localtime", "current_localtimestamp",
}

// ValueFunctions are names that mean a function call without parentheses, unless there is a column of that name.
var ValueFunctions = []string{
	"current_timestamp", "current_date", "current_time", "localtime", "localtimestamp",
	"current_user", "current_role", "session_user", "user", "current_catalog", "current_schema",
}

// Functions asks DuckDB about its functions. A macro is what it calls.
func (s *Session) Functions(ctx context.Context) (Functions, error) {
	rows, err := s.Query(ctx, `SELECT DISTINCT function_name, function_type, coalesce(stability, ''), coalesce(macro_definition, '')
		FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'macro')`)
	if err != nil {
		return Functions{}, err
	}
	defer rows.Close()
	f := Functions{Aggregate: map[string]bool{}, Volatile: map[string]bool{}, Unnest: map[string]bool{"unnest": true, "unlist": true}}
	for _, name := range moreVolatile {
		f.Volatile[name] = true
	}
	macros := map[string][]string{}
	for rows.Next() {
		var name, kind, stability, definition string
		if err := rows.Scan(&name, &kind, &stability, &definition); err != nil {
			return f, err
		}
		switch {
		case kind == "macro":
			macros[name] = append(macros[name], calls(definition)...)
		case kind == "aggregate":
			f.Aggregate[name] = true
		case stability != "CONSISTENT":
			f.Volatile[name] = true
		}
	}
	f.spread(macros)
	return f, rows.Err()
}

// spread gives macros the kinds of the functions that they call, until nothing changes.
func (f *Functions) spread(macros map[string][]string) {
	for changed := true; changed; {
		changed = false
		for name, called := range macros {
			for _, kind := range []map[string]bool{f.Aggregate, f.Volatile, f.Unnest} {
				if !kind[name] && slices.ContainsFunc(called, func(c string) bool { return kind[c] }) {
					kind[name], changed = true, true
				}
			}
		}
	}
}

var (
	quotedText = regexp.MustCompile(`'[^']*'`)
	called     = regexp.MustCompile(`([a-z_0-9]+)"?\(|current_[a-z]+`)
)

// calls lists what a macro's definition calls.
func calls(definition string) []string {
	var names []string
	for _, m := range called.FindAllStringSubmatch(quotedText.ReplaceAllString(definition, ""), -1) {
		if m[1] != "" {
			names = append(names, m[1])
		} else {
			names = append(names, m[0])
		}
	}
	if strings.Contains(definition, "FROM ") {
		names = append(names, "current_setting") // looks at the instance
	}
	return names
}
