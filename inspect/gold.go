package inspect

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"smelt"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/human"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

const (
	// goldBytes of silver, compressed, are on the local disk at a time while a
	// model is run over them.
	goldBytes = 2 << 30

	// tolerance is the relative difference up to which two DOUBLE or FLOAT values count as equal, because a sum's last
	// bits depend on the order of its terms. Values of all other types, also nested, must be equal.
	tolerance = "1e-9"
)

// compareGold runs every model over silver as it was when gold was computed. It skips windows that were
// frozen by then, because silver no longer has all of their rows.
func (r *recounting) compareGold(ctx context.Context) error {
	for _, g := range r.gold {
		item := GoldCount{Table: g.name, SilverRows: g.ledger.SilverRows, Computed: g.recorded, OK: true}
		if g.recorded {
			before := len(r.verdict.Mismatches)
			if err := r.compareModel(ctx, g); err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
			item.OK = len(r.verdict.Mismatches) == before
		}
		r.verdict.Gold = append(r.verdict.Gold, item)
	}
	return nil
}

// comparison is one model's table against the model's SQL.
type comparison struct {
	*recounting
	goldTable
	at      string         // the start of a row's window
	columns []smelt.Column // that the model gives
	floor   time.Time      // of the windows that were computed from silver; zero: all
	held    string         // the starts of the windows that are held back, as a list of SQL; "" without any
}

func (r *recounting) compareModel(ctx context.Context, g goldTable) error {
	if g.ledger.Model != gold.Digest(g.model) {
		r.mismatch("model", g.name, 0, nil, "%s was computed by another version of %s.sql: smelt run computes it again.", g.name, g.model.Name)
		return nil
	}
	if r.silver == nil {
		return fmt.Errorf("silver.%s is not there: %w", r.pipeline.Name, errGone)
	}
	if _, ok := r.silver.Snapshot(g.ledger.SilverSnapshot); !ok {
		return fmt.Errorf("silver snapshot %d: %w", g.ledger.SilverSnapshot, errGone)
	}
	source, err := r.silver.Files(ctx, g.ledger.SilverSnapshot)
	if err != nil {
		return err
	}
	mine, err := files(ctx, g.table)
	if err != nil {
		return err
	}
	then, ok, err := ledger.At[ledger.Silver](r.silver, g.ledger.SilverSnapshot)
	if err != nil {
		return err
	}
	if !ok {
		then = r.silverLedger // which freezes no fewer windows
	}
	c := &comparison{
		recounting: r, goldTable: g, at: duck.Quote(g.model.Column) + "::TIMESTAMPTZ",
		floor: gold.Floor(g.model.Window, then, g.ledger),
	}
	for i, h := range g.ledger.Held {
		if i > 0 {
			c.held += ", "
		}
		c.held += duck.Timestamp(h.Start)
	}
	if n := len(g.ledger.Held); n > 0 {
		first := g.ledger.Held[0]
		r.mismatch("held", g.name, int64(n), []string{first.Start.Format(time.DateTime)},
			"%s holds back %s, because %s.sql throws on the rows: %s, %s. Correct the SQL or the rows: the windows are then computed again.",
			g.name, human.Count(int64(n), "window"), g.model.Name, first.Start.Format(time.DateTime), first.Error)
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	var silverRows int64
	for _, p := range cut(source, r.pipeline.Events.Time, g.model.Window, cmp.Or(r.goldBytes, goldBytes)) {
		n, err := c.part(ctx, p, mine)
		if err != nil {
			return err
		}
		silverRows += n
	}
	if silverRows != g.ledger.SilverRows {
		r.mismatch("ledger", g.name, max(silverRows-g.ledger.SilverRows, g.ledger.SilverRows-silverRows), nil,
			"The ledger of %s notes that it was computed from %d rows of silver, but silver snapshot %d has %d. If nothing else is reported, the data is complete and only this count is wrong.",
			g.name, g.ledger.SilverRows, g.ledger.SilverSnapshot, silverRows)
	}
	return c.finish(ctx)
}

// begin binds the model and creates the tables for differences.
func (c *comparison) begin(ctx context.Context) error {
	if err := c.show(ctx, part{}, nil); err != nil {
		return err
	}
	columns, err := gold.Columns(ctx, c.session, c.model)
	if err != nil {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/%s.sql: %w", c.pipeline.Name, c.model.Name, err))
	}
	own, err := c.session.Describe(ctx, "FROM work.model") // the view that gold.Columns has made
	if err != nil {
		return err
	}
	c.columns = columns[:len(own)] // the table's other columns follow
	return c.session.Exec(ctx,
		"CREATE OR REPLACE TABLE work.lacking AS SELECT 0 AS __id, 0 AS __n, "+c.casts()+" FROM work.model WHERE false",
		"CREATE OR REPLACE TABLE work.surplus AS FROM work.lacking")
}

// show makes the view silver.<pipeline> over local files of a part.
func (c *comparison) show(ctx context.Context, p part, paths []string) error {
	return c.session.Exec(ctx, fmt.Sprintf("CREATE OR REPLACE VIEW silver.%s AS SELECT * FROM %s WHERE %s",
		duck.Quote(c.pipeline.Name), duck.ReadParquet(c.silver.Columns(), paths), p.where(duck.Quote(c.pipeline.Events.Time))))
}

// showFree makes the view without rows of windows that are held back: the model would
// throw on them.
func (c *comparison) showFree(ctx context.Context, p part, paths []string) error {
	at := duck.Quote(c.pipeline.Events.Time)
	bucket := fmt.Sprintf("time_bucket(to_microseconds(%d), %s, TIMESTAMPTZ '1970-01-01 00:00:00+00')", c.model.Window.Microseconds(), at)
	return c.session.Exec(ctx, fmt.Sprintf("CREATE OR REPLACE VIEW silver.%s AS SELECT * FROM %s WHERE %s",
		duck.Quote(c.pipeline.Name), duck.ReadParquet(c.silver.Columns(), paths), c.free(bucket, p.where(at))))
}

// free adds to a condition that a window is not held back.
func (c *comparison) free(window, condition string) string {
	if c.held == "" {
		return condition
	}
	return fmt.Sprintf("%s AND (%s NOT IN (%s) OR %[2]s IS NULL)", condition, window, c.held)
}

// part compares one part and returns the silver rows that it has.
func (c *comparison) part(ctx context.Context, p part, mine []table.File) (silverRows int64, err error) {
	paths, release, err := c.Area.Fetch(ctx, p.files)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := c.show(ctx, p, paths); err != nil {
		return 0, err
	}
	if err := c.session.Row(ctx, "SELECT count(*) FROM silver."+duck.Quote(c.pipeline.Name), &silverRows); err != nil {
		return 0, err
	}
	p, some := p.since(c.floor)
	if !some {
		return silverRows, nil
	}
	if err := c.showFree(ctx, p, paths); err != nil {
		return 0, err
	}
	var theirs []table.File
	for _, f := range mine {
		if p.mayHave(f, c.model.Column) {
			theirs = append(theirs, f)
		}
	}
	goldPaths, releaseGold, err := c.Area.Fetch(ctx, theirs)
	if err != nil {
		return 0, err
	}
	defer releaseGold()
	err = c.session.Exec(ctx,
		"CREATE OR REPLACE TABLE work.want AS SELECT "+c.casts()+" FROM work.model",
		fmt.Sprintf("CREATE OR REPLACE TABLE work.have AS SELECT %s FROM %s WHERE %s", c.casts(), duck.ReadParquet(c.table.Columns(), goldPaths), c.free(c.at, p.where(c.at))),
		c.differ("lacking", "want", "have"),
		c.differ("surplus", "have", "want"))
	return silverRows, err
}

// differ adds to a table the rows that one has and the other has not, numbered:
// __id as a whole, __n among rows that are alike but for their floats.
func (c *comparison) differ(into, one, other string) string {
	floats, rest := c.split()
	return fmt.Sprintf(`INSERT INTO work.%s BY NAME
		SELECT (SELECT count(*) FROM work.%s) + row_number() OVER () AS __id,
			row_number() OVER (PARTITION BY %s ORDER BY %s) AS __n, *
		FROM (FROM work.%s EXCEPT ALL FROM work.%s)`,
		into, into, strings.Join(rest, ", "), strings.Join(append(floats, "1"), ", "), one, other)
}

// finish removes the pairs that differ by the tolerance at most, and reports what is left.
func (c *comparison) finish(ctx context.Context) error {
	floats, rest := c.split()
	var pairs []string
	for _, f := range rest {
		pairs = append(pairs, fmt.Sprintf("l.%s IS NOT DISTINCT FROM s.%s", f, f))
	}
	for _, f := range floats {
		l, s := "l."+f, "s."+f
		pairs = append(pairs, fmt.Sprintf("(%s IS NOT DISTINCT FROM %s OR isfinite(%s) AND isfinite(%s) AND abs(%s - %s) <= %s * greatest(abs(%s), abs(%s)))",
			l, s, l, s, l, s, tolerance, l, s))
	}
	err := c.session.Exec(ctx,
		"CREATE OR REPLACE TABLE work.near AS SELECT l.__id AS l, s.__id AS s FROM work.lacking AS l JOIN work.surplus AS s ON l.__n = s.__n AND "+strings.Join(pairs, " AND "),
		"DELETE FROM work.lacking WHERE __id IN (SELECT l FROM work.near)",
		"DELETE FROM work.surplus WHERE __id IN (SELECT s FROM work.near)")
	if err != nil {
		return err
	}
	var lacking, surplus int64
	if err := c.session.Row(ctx, "SELECT (SELECT count(*) FROM work.lacking), (SELECT count(*) FROM work.surplus)", &lacking, &surplus); err != nil {
		return err
	}
	if lacking+surplus == 0 {
		return nil
	}
	windows, err := c.session.Strings(ctx, fmt.Sprintf(
		"SELECT DISTINCT coalesce(%s::VARCHAR, 'NULL') FROM (FROM work.lacking UNION ALL FROM work.surplus) ORDER BY ALL LIMIT %d", c.at, exampleCount))
	if err != nil {
		return err
	}
	c.mismatch("gold", c.name, lacking+surplus, windows,
		"%s differs from %s.sql over silver: it lacks %s and has %s that the SQL does not return, in the windows of %s and perhaps others. Something other than smelt has changed it: drop the table, and the pipeline computes it again.",
		c.name, c.model.Name, human.Count(lacking, "row"), human.Count(surplus, "row"), strings.Join(windows, ", "))
	return nil
}

// split gives the names of the columns that are compared with the tolerance, and
// of the others; the window's is always among these.
func (c *comparison) split() (floats, rest []string) {
	for _, column := range c.columns {
		name := duck.Quote(column.Name)
		if column.Type.Name == "double" || column.Type.Name == "float" {
			floats = append(floats, name)
		} else {
			rest = append(rest, name)
		}
	}
	return floats, rest
}

// casts writes the model's columns as the table keeps them.
func (c *comparison) casts() string {
	out := make([]string, len(c.columns))
	for i, column := range c.columns {
		out[i] = fmt.Sprintf("%s::%s AS %s", duck.Quote(column.Name), column.Type, duck.Quote(column.Name))
	}
	return strings.Join(out, ", ")
}
