package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"smelt"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/human"
	"smelt/internal/table"
)

// greet prints what can be queried: the tables with their rows, their freshness, and three example queries.
func (s *Shell) greet(ctx context.Context, w io.Writer) error {
	version, err := s.console.Strings(ctx, "SELECT version()")
	if err != nil {
		return err
	}
	what := "each statement sees the newest snapshots, and none can change them."
	if s.past != nil {
		what = "the lake as of " + s.past.String() + ". Reference tables are as they are now."
	}
	fmt.Fprintf(w, "DuckDB %s over %s: %s\n\n", strings.TrimPrefix(version[0], "v"), strings.TrimSuffix(s.cfg.Tables.Path(""), "/"), what)
	if err := s.list(ctx, w); err != nil {
		return err
	}
	if s.main == nil {
		return nil
	}
	if s.past == nil {
		receipt, err := inspect.Count(ctx, s.cfg.Store, s.cfg.Tables, s.main, time.Now())
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s: %s\n", s.main.Name, receipt)
	}
	fmt.Fprintln(w, "\nTry")
	for _, q := range s.examples() {
		fmt.Fprintln(w, "  "+q)
	}
	_, err = fmt.Fprintln(w, "\n.help says more, .quit leaves.")
	return err
}

// examples are three queries that work as they stand.
func (s *Shell) examples() []string {
	out := []string{fmt.Sprintf("SELECT * FROM bronze ORDER BY %s DESC LIMIT 8;", identifier(s.main.Events.Time))}
	if len(s.main.Gold) > 0 {
		m := s.main.Gold[0]
		out = append(out, fmt.Sprintf("SELECT * FROM gold ORDER BY %s DESC LIMIT 12;", identifier(m.Column)))
	} else {
		out = append(out, fmt.Sprintf("SELECT * FROM silver ORDER BY %s DESC LIMIT 8;", identifier(s.main.Events.Time)))
	}
	return append(out, fmt.Sprintf("SELECT reason, field, count(*) FROM quarantine.%s GROUP BY ALL;", s.main.Name))
}

// identifier quotes a name only where it has to be.
func identifier(name string) string {
	if t, ok := next(name, 0); ok && t.kind == word && t.end == len(name) && strings.ToLower(name) == name {
		return name
	}
	return duck.Quote(name)
}

// list prints the tables with their rows, as far as these are noted somewhere.
func (s *Shell) list(ctx context.Context, w io.Writer) error {
	if err := s.refresh(ctx, "", true); err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range s.cfg.Pipelines {
		records, err := s.records(ctx, p)
		if err != nil {
			return err
		}
		printTable(out, "bronze."+p.Name, s.bronzeAlias(p), human.Count(records, "record"))
		for _, t := range s.tables(p) {
			rows, err := s.rows(ctx, t.name)
			if err != nil {
				return err
			}
			printTable(out, t.name, t.alias, rows)
		}
	}
	names, err := s.console.Strings(ctx, "SELECT table_name || ' ' || estimated_size FROM duckdb_tables() WHERE database_name = 'lake' AND schema_name = 'reference' ORDER BY 1")
	if err != nil {
		return err
	}
	for _, line := range names {
		name, rows, _ := strings.Cut(line, " ")
		n, _ := strconv.ParseInt(rows, 10, 64)
		printTable(out, "reference."+name, "", human.Count(n, "row"))
	}
	return out.Flush()
}

func printTable(w io.Writer, name, alias, rows string) {
	if alias != "" {
		alias = "also " + alias
	}
	fmt.Fprintf(w, "  %s\t%s\t%s\n", name, rows, alias)
}

// rows says how many rows a table has in the snapshot that is shown.
func (s *Shell) rows(ctx context.Context, name string) (string, error) {
	if s.past != nil {
		switch then, ok := s.past.tables[name]; {
		case !ok || then.none:
			return "no data yet", nil
		case then.err != nil:
			return "expired", nil
		default:
			return total(then.snapshot), nil
		}
	}
	t, err := s.cfg.Tables.Load(ctx, name)
	if errors.Is(err, smelt.ErrNotFound) {
		return "no data yet", nil
	}
	if err != nil {
		return "", err
	}
	current, ok := t.Current()
	if !ok {
		return "no data yet", nil
	}
	return total(current), nil
}

// total is how many rows a snapshot says that it has. Another engine's need not.
func total(snapshot table.Snapshot) string {
	n, err := strconv.ParseInt(snapshot.Summary["total-records"], 10, 64)
	if err != nil {
		return ""
	}
	return human.Count(n, "row")
}
