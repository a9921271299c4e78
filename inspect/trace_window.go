package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/table"
)

// tracedRows bounds the rows of a window that a trace has: a window may have
// one for each of a million users.
const tracedRows = 20

// findWindows finds, for each model, the window that the silver row counts in.
func (r *tracing) findWindows(ctx context.Context) error {
	at := r.Silver.Row.cell(r.pipeline.Events.Time)
	const layout = "2006-01-02 15:04:05.999999-07"
	event, err := time.Parse(layout, at.Text)
	if err != nil {
		return fmt.Errorf("%s of the silver row: %w", at.Column, err)
	}
	for _, g := range r.gold {
		w, err := r.window(ctx, g, gold.Start(g.model.Window, event))
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		r.Gold = append(r.Gold, w)
	}
	return nil
}

func (r *tracing) window(ctx context.Context, g goldTable, start time.Time) (TracedWindow, error) {
	w := TracedWindow{Table: g.name, Start: start, End: start.Add(g.model.Window), Rows: []Row{}}
	if !g.recorded {
		return w, nil
	}
	if current, ok := g.table.Current(); ok {
		w.Snapshot = tracedSnapshot(g.table, current.ID)
	}
	w.Silver = tracedSnapshot(r.silver, g.ledger.SilverSnapshot)
	if _, ok := r.silver.Snapshot(g.ledger.SilverSnapshot); ok {
		had, err := r.had(ctx, g.ledger.SilverSnapshot)
		if err != nil {
			return w, err
		}
		w.CaughtUp = &had
	}
	w.Frozen = gold.Frozen(g.model.Window, start, gold.Floor(g.model.Window, r.silverLedger, g.ledger))
	w.Final = !g.ledger.Watermark.IsZero() && !w.End.After(g.ledger.Watermark)
	return w, r.fill(ctx, g, &w)
}

// had says whether a silver snapshot had the current row.
func (r *tracing) had(ctx context.Context, snapshot int64) (bool, error) {
	list, err := r.silver.Files(ctx, snapshot)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(list, func(f table.File) bool { return f.Key == r.Silver.File }) {
		return true, nil
	}
	then, err := r.search(ctx, r.silver, list)
	return then != nil && then.Row.equal(r.Silver.Row), err
}

// fill reads the rows of a window.
func (r *tracing) fill(ctx context.Context, g goldTable, w *TracedWindow) error {
	list, err := files(ctx, g.table)
	if err != nil {
		return err
	}
	span := part{from: w.Start, to: w.End}
	list = slices.DeleteFunc(list, func(f table.File) bool { return !span.mayHave(f, g.model.Column) })
	paths, release, err := r.Area.Fetch(ctx, list)
	if err != nil {
		return err
	}
	defer release()
	relation := duck.ReadParquet(g.table.Columns(), paths)
	where := fmt.Sprintf("WHERE %s::TIMESTAMPTZ = %s", duck.Quote(g.model.Column), literal(w.Start))
	var computed duck.NullTime
	err = r.session.Row(ctx, fmt.Sprintf("SELECT count(*), coalesce(max(_revision), 0), max(_computed_at) FROM %s %s", relation, where), &w.Count, &w.Revision, &computed)
	if err != nil {
		return err
	}
	if computed.Valid {
		at := computed.Time.UTC()
		w.ComputedAt = &at
	}
	found, err := selectRows(ctx, r.session, g.table.Columns(), relation,
		fmt.Sprintf("%s ORDER BY %s DESC, %s LIMIT %d", where, r.likeness(g), duck.Names(g.table.Columns()), tracedRows))
	w.Rows = append(w.Rows, found...)
	return err
}

// likeness counts the columns that a row of the window has in common with the
// silver row, name and value.
func (r *tracing) likeness(g goldTable) string {
	same := []string{"0::BIGINT"}
	for _, c := range g.table.Columns() {
		mine := r.Silver.Row.cell(c.Name)
		if c.Name == g.model.Column || mine.Null {
			continue
		}
		same = append(same, fmt.Sprintf("coalesce(%s::VARCHAR = %s, false)::BIGINT", duck.Quote(c.Name), duck.Literal(mine.Text)))
	}
	return strings.Join(same, " + ")
}
