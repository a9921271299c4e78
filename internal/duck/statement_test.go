package duck_test

import (
	"fmt"
	"strings"
	"testing"

	"smelt/internal/duck"
)

func session(t *testing.T) *duck.Session {
	t.Helper()
	_, s := open(t, 1)
	return s
}

// open opens an instance with so many threads, and a session.
func open(t *testing.T, threads int) (*duck.DB, *duck.Session) {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 256 << 20, TempDir: t.TempDir(), Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, s
}

// show writes names with their places: "a@7 b.c@10".
func show(names []duck.Name) string {
	out := make([]string, len(names))
	for i, n := range names {
		text := n.Text
		if len(n.Path) > 0 {
			text = strings.Join(n.Path, ".")
		}
		out[i] = fmt.Sprintf("%s@%d", text, n.Position)
	}
	return strings.Join(out, " ")
}

func TestParse(t *testing.T) {
	t.Parallel()
	s := session(t)
	tests := []struct{ text, tables, columns, functions, features, sources string }{
		{"SELECT a, b.c FROM x.y AS b", "x.y@19", "a@7 b.c@10", "", "", ""},
		{"FROM x;", "x@5", "", "", "", ""},
		{"-- é\nSELECT 'ü;', é /* ; */ FROM x -- end", "x@36", "é@20", "", "", ""},
		{"SELECT list_transform(l, lambda v, i: v + i + c) FROM x", "x@54", "l@22 c@46", "list_transform@7", "", ""},
		{"SELECT list_filter(l, v -> v > 1), j->'a', [w FOR w IN m IF w > 1] FROM x", "x@72",
			"l@19 j@35 m@55", "list_filter@7 list_apply@43 list_filter@43 list_apply@43 struct_pack@43 struct_extract@43 struct_extract@43", "", ""},
		{"SELECT s.f.g, r['k'] FROM x", "x@26", "s.f.g@7 r@14", "", "", ""},
		{"WITH c AS (FROM d), e AS (FROM c) SELECT * FROM e", "d@16", "", "", "", ""},
		{"WITH c AS (FROM c) FROM c", "c@16", "", "", "", ""},
		{"SELECT * FROM (WITH c AS (FROM d) FROM c), c", "d@31 c@43", "", "", "CROSS JOIN@43", ""},
		{"WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n FROM c) FROM c", "", "n@52", "", "RECURSIVE@5", ""},
		{"SELECT (SELECT max(a) FROM y) FROM x", "y@27 x@35", "a@19", "max@15", "a subquery in an expression@7", ""},
		{"SELECT a FROM x UNION ALL BY NAME SELECT b FROM y", "x@14 y@48", "a@7 b@41", "", "UNION@16", ""},
		{"SELECT a FROM x GROUP BY ALL HAVING true QUALIFY true LIMIT 1", "x@14", "a@7", "", "GROUP BY@16 HAVING@29 QUALIFY@41 LIMIT@54", ""},
		{"SELECT DISTINCT a FROM x TABLESAMPLE 10%", "x@23", "a@16", "", "DISTINCT@7 SAMPLE@25", ""},
		{"SELECT sum(a) OVER () FROM x FULL JOIN y USING (k)", "x@27 y@39", "a@11", "", "a window function@7 FULL JOIN@29", ""},
		{"SELECT a FROM x RIGHT JOIN y ON true NATURAL JOIN z POSITIONAL JOIN w", "x@14 y@27 z@50 w@68", "a@7", "",
			"RIGHT JOIN@16 NATURAL JOIN@37 POSITIONAL JOIN@52", ""},
		{"SELECT a FROM 'x.csv', read_csv('y'), (VALUES (1))", "x.csv@14", "a@7", "read_csv@23", "CROSS JOIN@23 CROSS JOIN@47", "a table function@23 VALUES@39"},
		{"SELECT #1, COLUMNS('a') FROM x", "x@29", "", "", "a column's number@7 COLUMNS@11", ""},
		{"UNPIVOT x ON a, b", "x@8", "", "", "", "PIVOT@0"},
		{"SELECT current_date, now() FROM x AT (VERSION => 1) WHERE a = $1", "x@32", "current_date@7 a@58", "now@21", "AT@32 a parameter@62", ""},
	}
	for _, tt := range tests {
		got, err := s.Parse(t.Context(), tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		for _, c := range []struct{ what, got, want string }{
			{"tables", show(got.Tables), tt.tables}, {"columns", show(got.Columns), tt.columns},
			{"functions", show(got.Functions), tt.functions}, {"features", show(got.Features), tt.features}, {"sources", show(got.Sources), tt.sources},
		} {
			if c.got != c.want {
				t.Errorf("%s:\n%s %q, want %q", tt.text, c.what, c.got, c.want)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	s := session(t)
	tests := []struct {
		text, want string
		position   int
	}{
		{"", "there is no statement: write one SELECT", -1},
		{"/* a */ ;", "there is no statement: write one SELECT", -1},
		{"SELECT ';' AS a;\n-- ;\nSELECT 2", "a second statement: one SELECT must stand here", 22},
		{"/* x */ DROP TABLE x", "this is not a plain SELECT: write one SELECT", 8},
		{"PIVOT x ON a USING sum(b)", "this is not a plain SELECT: write one SELECT", 0},
		{"SELECT 'ä' FRM x y", `syntax error at or near "x"`, 16},
	}
	for _, tt := range tests {
		_, err := s.Parse(t.Context(), tt.text)
		if syntax, ok := duck.IsSyntax(err); !ok || syntax.Message != tt.want || syntax.Position != tt.position {
			t.Errorf("%q: %+v, want %q at %d", tt.text, err, tt.want, tt.position)
		}
	}
}

func TestParseCondition(t *testing.T) {
	t.Parallel()
	s := session(t)
	for condition, want := range map[string]string{
		"a > 1":                          "a@8",
		"a = ';' -- )\n":                 "a@8",
		"(SELECT max(b) FROM x) > \"a\"": "b@20 a@33",
		"a, b":                           "a list: one condition must stand here",
		"a) OR (b":                       `syntax error at or near ")"`,
		"a -- b":                         "syntax error at end of input",
		"a; b":                           "a semicolon: one condition must stand here, and nothing after it",
		"":                               "there is no condition",
	} {
		got, err := s.ParseCondition(t.Context(), condition)
		if syntax, ok := duck.IsSyntax(err); ok {
			if syntax.Message != want {
				t.Errorf("%q: %s, want %s", condition, syntax.Message, want)
			}
		} else if err != nil || show(got.Columns) != want {
			t.Errorf("%q: %+v, %v, want %s", condition, got, err, want)
		}
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	for offset, want := range map[int][2]int{0: {1, 1}, 3: {1, 3}, 4: {2, 1}, 5: {2, 2}, -1: {1, 1}, 99: {1, 1}} {
		if line, col := duck.Position("é?\nab", offset); line != want[0] || col != want[1] {
			t.Errorf("offset %d is at %d:%d, want %v", offset, line, col, want)
		}
	}
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	f, err := session(t).Functions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"random", "uuid", "now", "today", "ago", "current_setting", "pg_conf_load_time", "nextval"} {
		if !f.Volatile[name] {
			t.Errorf("%s is not volatile", name)
		}
	}
	for _, name := range []string{"sum", "list", "wavg", "geomean", "geometric_mean", "json_group_array"} {
		if !f.Aggregate[name] {
			t.Errorf("%s is no aggregate", name)
		}
	}
	for _, name := range []string{"upper", "date_trunc", "nullif", "list_avg", "list_sum", "array_to_string", "split_part", "fmod", "date_add", "list_reverse", "struct_pack"} {
		if f.Volatile[name] || f.Aggregate[name] || f.Unnest[name] {
			t.Errorf("%s is more than a plain function", name)
		}
	}
	if !f.Unnest["generate_subscripts"] || !f.Unnest["unnest"] {
		t.Error("unnest is not found")
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	columns, rows := duck.Sniff(
		[]string{"n", "d", "flag", "day", "at", "text", "padded", "key", "none"},
		[][]string{
			{"1", "1.5", "true", "2026-11-29", "2026-11-29 12:00:00+00", "1", "007", "1", ""},
			{"", "2", "false", "", "2026-11-29T12:00:00.5Z", "x", "8", "2", ""},
		}, "key")
	var got []string
	for i, c := range columns {
		got = append(got, fmt.Sprintf("%s %s %T", c.Name, c.Type.Name, rows[0][i]))
	}
	want := "n bigint int64, d double float64, flag boolean bool, day date time.Time, at timestamptz time.Time, text varchar string, padded varchar string, key varchar string, none varchar <nil>"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if rows[1][0] != nil || rows[1][2] != false {
		t.Errorf("the second row is %v", rows[1])
	}
}
