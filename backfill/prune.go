package backfill

import (
	"context"
	"fmt"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/table"
)

// pruner decides from a file's statistics whether a condition may hold for one of its rows. It
// asks DuckDB's optimizer whether a query with the condition surely gives no row, over a
// table of the file's smallest and largest values. Unknown statistics stay unknown. The
// query never runs.
type pruner struct {
	session   *duck.Session
	columns   []smelt.Column
	condition string
}

// mostPruned bounds the length of a condition that is judged this way, in bytes. The optimizer took 0.5 s per
// file for a list of 12,000 values. Reading a file of a few megabytes takes less.
const mostPruned = 32 << 10

// may is false when no row of the file can meet the condition.
func (p *pruner) may(ctx context.Context, f table.File) (bool, error) {
	var known []smelt.Column
	var low, high, null []any
	unknown := []string{"*"}
	for _, c := range p.columns {
		lo, hi, ok := f.Bounds(c.Name)
		if !ok {
			// Volatile, so that nothing can be inferred from it.
			unknown = append(unknown, fmt.Sprintf("TRY_CAST(random()::VARCHAR AS %s) AS %s", c.Type, duck.Quote(c.Name)))
			continue
		}
		known = append(known, c)
		low, high = append(low, lo), append(high, hi)
		null = append(null, nil)
	}
	if len(known) == 0 {
		return true, nil
	}
	// Whether there are NULLs the bounds do not say.
	if err := p.session.Load(ctx, "work", "bounds", known, duck.Rows([][]any{low, high, null})); err != nil {
		return false, err
	}
	none, err := p.session.Never(ctx, fmt.Sprintf("SELECT 1 FROM (SELECT %s FROM work.bounds) AS s WHERE %s", strings.Join(unknown, ", "), p.condition))
	if duck.Malformed(err) { // of a value that the condition has: the rows will tell
		return true, nil
	}
	return !none, err
}
