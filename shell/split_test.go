package shell_test

import (
	"slices"
	"testing"

	"smelt/shell"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sql  string
		want []string
		rest string
	}{
		{"", nil, ""},
		{" -- nothing ; here\n /* nor ; here */ ;; ", nil, ""},
		{"SELECT 1; SELECT 2 ;", []string{"SELECT 1", "SELECT 2"}, ""},
		{"SELECT 1; SELECT", []string{"SELECT 1"}, " SELECT"},
		{"SELECT ';', \";\", $$;$$, $a$;$$;$a$, e'\\';', 'it''s;';", []string{"SELECT ';', \";\", $$;$$, $a$;$$;$a$, e'\\';', 'it''s;'"}, ""},
		{"SELECT 'open; SELECT 2;", nil, "SELECT 'open; SELECT 2;"},
		{"SELECT $1, a$b$c; SELECT $x", []string{"SELECT $1, a$b$c"}, " SELECT $x"},
		{"SELECT 1 -- ; \n + 1;", []string{"SELECT 1 -- ; \n + 1"}, ""},
		{"SELECT /* /* ; */ ; */ 1; /*/ ; */", []string{"SELECT /* /* ; */ ; */ 1"}, ""},
		{"SELECT /* ; ", nil, "SELECT /* ; "},
		{"SELECT 'é;' AS größe;", []string{"SELECT 'é;' AS größe"}, ""},
	} {
		statements, rest := shell.Split(c.sql)
		var got []string
		for _, s := range statements {
			got = append(got, s.Text)
		}
		if !slices.Equal(got, c.want) || rest != c.rest {
			t.Errorf("%q: %q and %q, want %q and %q", c.sql, got, rest, c.want, c.rest)
		}
	}
}
