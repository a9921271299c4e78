package shell

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// guard checks a statement before DuckDB sees it. The [relay] is what keeps the lake safe: it passes no
// writes. The guard gives a better message, and protects the folder in which an embedded stack keeps
// the lake's files.
type guard struct {
	home string // the state folder, absolute and without symbolic links
}

// Refused is a statement that the shell does not run.
type Refused struct{ why string }

func (e *Refused) Error() string { return e.why }

func refuse(format string, args ...any) error {
	return &Refused{fmt.Sprintf(format, args...)}
}

// Settings and pragmas that change nothing but how the shell works.
var (
	settings = words("VARIABLE", "THREADS", "MEMORY_LIMIT", "MAX_MEMORY", "TIMEZONE", "CALENDAR", "SCHEMA", "SEARCH_PATH",
		"DEFAULT_ORDER", "DEFAULT_NULL_ORDER", "PRESERVE_INSERTION_ORDER", "EXPLAIN_OUTPUT", "ERRORS_AS_JSON",
		"ORDERED_AGGREGATE_THRESHOLD", "PIVOT_LIMIT", "IEEE_FLOATING_POINT_OPS", "INTEGER_DIVISION")
	pragmas = words("TABLE_INFO", "SHOW_TABLES", "SHOW_TABLES_EXPANDED", "SHOW_DATABASES", "SHOW", "DATABASE_LIST", "DATABASE_SIZE",
		"VERSION", "PLATFORM", "FUNCTIONS", "COLLATIONS", "STORAGE_INFO", "USER_AGENT", "METADATA_INFO")
)

func words(list ...string) map[string]bool {
	set := map[string]bool{}
	for _, w := range list {
		set[w] = true
	}
	return set
}

// check refuses a statement, or lets it go.
func (g guard) check(s Statement) error { return g.tokens(s.tokens) }

func (g guard) tokens(t []token) error {
	if len(t) == 0 {
		return nil
	}
	first := t[0].text
	if t[0].kind != word && first != "(" {
		return nil // DuckDB has the better message for text that is not a statement
	}
	switch first {
	case "COPY":
		return g.copies(t)
	case "ATTACH":
		return g.attaches(t)
	case "EXPLAIN":
		return g.tokens(explained(t))
	case "SET", "RESET":
		return set(t[1:])
	case "PRAGMA":
		if len(t) > 1 && pragmas[strings.ToUpper(t[1].text)] {
			return nil
		}
		return refuse("PRAGMA: only those that show something work here, such as PRAGMA table_info('silver.sensors')")
	case "CREATE", "DROP", "ALTER":
		if ofSecret(t[1:]) {
			return refuse("%s SECRET does not work here: the shell has the one that it needs", first)
		}
	case "INSTALL", "LOAD", "FORCE":
		return refuse("%s: extensions would get past the rule that a statement cannot change the lake", first)
	case "EXPORT", "IMPORT":
		return refuse("%s DATABASE does not work here: use COPY (SELECT …) TO 'file.parquet'", first)
	case "PREPARE", "EXECUTE", "DEALLOCATE", "CALL":
		return refuse("%s does not work here: run the statement itself", first)
	case "BEGIN", "START", "COMMIT", "ROLLBACK", "END", "ABORT":
		return refuse("%s: each statement runs alone, on the newest snapshot of every table", first)
	}
	return nil
}

// ofSecret says whether a CREATE or DROP is of a secret.
func ofSecret(t []token) bool {
	for len(t) > 0 && t[0].is("OR", "REPLACE", "PERSISTENT", "TEMPORARY", "TEMP", "LOCAL") {
		t = t[1:]
	}
	return len(t) > 0 && t[0].is("SECRET")
}

// explained is the statement that an EXPLAIN is about: EXPLAIN ANALYZE runs it.
func explained(t []token) []token {
	t = t[1:]
	for len(t) > 0 && t[0].is("ANALYZE", "ANALYSE", "VERBOSE") {
		t = t[1:]
	}
	if len(t) > 0 && t[0].text == "(" && t[0].kind == other {
		depth := 0
		for i, x := range t {
			if x.kind == other && x.text == "(" {
				depth++
			}
			if x.kind == other && x.text == ")" {
				depth--
			}
			if depth == 0 {
				if rest := t[i+1:]; len(rest) > 0 && rest[0].kind == word { // it was a list of options
					return explained(append([]token{{}}, rest...))
				}
				return t
			}
		}
	}
	return t
}

func set(t []token) error {
	for len(t) > 0 && t[0].is("GLOBAL", "SESSION", "LOCAL") {
		t = t[1:]
	}
	if len(t) == 0 || settings[strings.ToUpper(t[0].text)] || t[0].is("TIME") {
		return nil
	}
	return refuse("the setting %s cannot be changed here", strings.ToLower(t[0].text))
}

// copies looks at where a COPY writes: after the TO outside of all parentheses
// a plain string must name a local file.
func (g guard) copies(t []token) error {
	depth := 0
	for i, x := range t {
		switch {
		case x.kind == other && x.text == "(":
			depth++
		case x.kind == other && x.text == ")":
			depth--
		case depth == 0 && x.is("FROM"):
			return nil // COPY t FROM 'file' reads; COPY FROM DATABASE copies what is local
		case depth == 0 && x.is("TO"):
			if i+1 == len(t) || t[i+1].kind != text {
				return refuse("COPY … TO: name the local file as a plain string, such as COPY (SELECT …) TO 'out.parquet'")
			}
			return g.target("COPY … TO", t[i+1].text)
		}
	}
	return nil
}

// attaches looks at what ATTACH opens: a local database, perhaps a new one.
func (g guard) attaches(t []token) error {
	for _, x := range t[1:] {
		if x.is("IF", "NOT", "EXISTS", "DATABASE", "OR", "REPLACE") {
			continue
		}
		if x.kind != text || hasType(t) {
			break
		}
		if x.text == ":memory:" {
			return nil
		}
		return g.target("ATTACH", x.text)
	}
	return refuse("ATTACH: name the local file as a plain string, such as ATTACH 'mine.duckdb'")
}

// hasType says whether an ATTACH names a kind of database, other than DuckDB's.
func hasType(t []token) bool {
	return slices.ContainsFunc(t, func(x token) bool { return x.is("TYPE") })
}

// scheme begins an address, or the name of another kind of database.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// target rejects targets that are not local files, and files of the state folder.
func (g guard) target(what, path string) error {
	if scheme.MatchString(path) {
		return refuse("%s %s: a statement cannot change the lake or anything remote; name a local file", what, path)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return refuse("%s %s: %v", what, path, err)
	}
	if inside(g.home, real(full)) {
		return refuse("%s %s: that is in smelt's own folder; name a file somewhere else", what, path)
	}
	return nil
}

// real resolves the symbolic links of as much of a path as exists.
func real(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(real(parent), filepath.Base(path))
}

func inside(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
