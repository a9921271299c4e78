package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"smelt"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
)

// refresh updates the views that a statement may read, or all, to the newest snapshots. It redefines only views
// that have changed.
func (s *Shell) refresh(ctx context.Context, statement string, all bool) error {
	if s.consistent {
		agreed, err := s.agree(ctx)
		if err != nil {
			return err
		}
		s.past = agreed
	}
	lower := strings.ToLower(statement)
	reads := func(schema string) bool { return all || s.own || strings.Contains(lower, schema) }
	for _, p := range s.cfg.Pipelines {
		if reads("reference") && len(p.References) > 0 {
			if err := s.refreshReferences(ctx, p); err != nil {
				return err
			}
		}
		if reads("bronze") {
			if err := s.refreshBronze(ctx, p); err != nil {
				return err
			}
		}
		for _, t := range s.tables(p) {
			if schema, _, _ := strings.Cut(t.name, "."); !reads(schema) {
				continue
			}
			if err := s.refreshTable(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// icebergTable is a table that the shell shows.
type icebergTable struct {
	name  string // silver.sensors
	alias string // the view of the whole lake that shows it too; "" for none
	model *smelt.Model
}

// tables are the Iceberg tables of a pipeline.
func (s *Shell) tables(p *smelt.Pipeline) []icebergTable {
	out := []icebergTable{{name: silver.TableName(p.Name)}, {name: silver.QuarantineName(p.Name)}}
	for i, m := range p.Gold {
		out = append(out, icebergTable{name: gold.TableName(p.Name, m.Name), model: &p.Gold[i]})
	}
	if p == s.main {
		out[0].alias = "silver"
		if len(out) > 2 {
			out[2].alias = "gold"
		}
	}
	return out
}

// refreshTable defines the view of a table when its metadata has changed. Of a
// table that cannot be shown it notes why.
func (s *Shell) refreshTable(ctx context.Context, it icebergTable) error {
	t, err := s.shownTable(ctx, it.name)
	if errors.Is(err, smelt.ErrNotFound) {
		return s.lack(ctx, it, it.name+" has no data yet: the pipeline creates it when it runs")
	}
	if err != nil {
		return err
	}
	state := t.MetadataLocation()
	if s.past != nil {
		state += fmt.Sprint(" ", s.past.tables[it.name].snapshot.ID)
	}
	if s.defined[it.name] == state {
		return nil
	}
	var body string
	if s.past == nil {
		body, err = it.body(t)
	} else {
		var why string
		if body, why, err = it.pastBody(t, s.past); why != "" {
			return s.lack(ctx, it, why)
		}
	}
	if err != nil {
		return err
	}
	delete(s.absent, it.name)
	delete(s.absent, it.alias)
	if err := s.define(ctx, it.name, it.alias, body); err != nil {
		return err
	}
	s.defined[it.name] = state
	return nil
}

// shownTable is the state of a table to show: the current one, unless the shown state has another.
func (s *Shell) shownTable(ctx context.Context, name string) (*table.Table, error) {
	if s.past != nil && s.past.tables[name].table != nil {
		return s.past.tables[name].table, nil
	}
	return s.cfg.Tables.Load(ctx, name)
}

// lack notes why a table has no view, and takes away the one that it had.
func (s *Shell) lack(ctx context.Context, it icebergTable, why string) error {
	s.absent[it.name] = why
	if it.alias != "" {
		s.absent[it.alias] = why
	}
	if s.defined[it.name] == "" {
		return nil
	}
	delete(s.defined, it.name)
	var drops []string
	for _, view := range views(it.name, it.alias) {
		drops = append(drops, "DROP VIEW IF EXISTS "+view)
	}
	return s.console.Exec(ctx, drops...)
}

// views are the names of a table's view, and of the one of the whole lake when
// it has one.
func views(name, alias string) []string {
	schema, view, _ := strings.Cut(name, ".")
	out := []string{fmt.Sprintf("%s.%s.%s", duck.ConsoleCatalog, schema, duck.Quote(view))}
	if alias != "" {
		out = append(out, fmt.Sprintf("%s.main.%s", duck.ConsoleCatalog, duck.Quote(alias)))
	}
	return out
}

// body is the SELECT over a table's newest snapshot. A table without one has
// its columns and no rows.
func (it icebergTable) body(t *table.Table) (string, error) {
	from := "iceberg_scan(" + duck.Literal(t.MetadataLocation()) + ")"
	if _, ok := t.Current(); !ok {
		from = "(" + empty(t.Columns()) + ")"
	}
	if it.model == nil {
		return "SELECT * FROM " + from, nil
	}
	l, _, _, err := ledger.Read[ledger.Gold](t)
	return it.final(from, l), err
}

// final is the SELECT over gold, with the column that says whether the watermark
// has passed a row's window.
func (it icebergTable) final(from string, l ledger.Gold) string {
	final := "false"
	if !l.Watermark.IsZero() {
		final = fmt.Sprintf("%s::TIMESTAMPTZ + to_microseconds(%d) <= TIMESTAMPTZ %s", duck.Quote(it.model.Column),
			it.model.Window.Microseconds(), duck.Literal(l.Watermark.UTC().Format("2006-01-02 15:04:05.999999+00")))
	}
	return fmt.Sprintf("SELECT *, coalesce(%s, false) AS _final FROM %s", final, from)
}

// empty is a query of no rows with columns.
func empty(columns []smelt.Column) string {
	typed := make([]string, len(columns))
	for i, c := range columns {
		typed[i] = "NULL::" + c.Type.String() + " AS " + duck.Quote(c.Name)
	}
	return "SELECT " + strings.Join(typed, ", ") + " WHERE false"
}

// define makes the view of a table, and the one of the whole lake when it has
// one. Both get the body: a view over a view would not take new columns.
func (s *Shell) define(ctx context.Context, name, alias, body string) error {
	var statements []string
	for _, view := range views(name, alias) {
		statements = append(statements, "CREATE OR REPLACE VIEW "+view+" AS "+body)
	}
	if err := s.console.Exec(ctx, statements...); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return s.explain(body, fmt.Errorf("show %s: %w", name, err), s.relay.trouble())
	}
	return nil
}

// refreshReferences loads a pipeline's reference tables when they have changed.
// Of pipelines that give one name to two tables the first is shown.
func (s *Shell) refreshReferences(ctx context.Context, p *smelt.Pipeline) error {
	var own []smelt.Reference
	for _, r := range p.References {
		first := slices.IndexFunc(s.cfg.Pipelines, func(o *smelt.Pipeline) bool {
			return slices.ContainsFunc(o.References, func(x smelt.Reference) bool { return x.Name == r.Name })
		})
		if s.cfg.Pipelines[first] == p {
			own = append(own, r)
		}
	}
	version, err := s.cfg.References.Version(ctx, own)
	if err != nil {
		return err
	}
	if loaded, ok := s.refs[p.Name]; ok && loaded == version {
		return nil
	}
	set, err := s.cfg.References.Load(ctx, own)
	if err != nil {
		return err
	}
	for _, t := range set.Tables {
		if err := s.console.Load(ctx, "reference", t.Reference.Name, t.Columns, duck.Rows(t.Rows)); err != nil {
			return err
		}
	}
	s.refs[p.Name] = set.Version
	return nil
}
