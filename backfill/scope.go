package backfill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// Scope says which records are replayed: exactly one of its kinds, where Where,
// From and To together are one.
type Scope struct {
	ReferenceChanges bool      // rows whose reference row has changed since they were enriched
	Where            string    // rows that meet a condition on silver's columns
	From, To         time.Time // rows by their event time, From inclusive, To exclusive; zero: no bound
	All              bool      // every row
	Quarantined      bool      // records in quarantine
	Reason           string    // of those, the ones rejected for this reason; "" for any
	Unmatched        bool      // rows that found no reference row, when there is one by now

	Most int64 // about how many rows at most, the newest first; 0: all
}

// String writes the scope as the flags of the command.
func (s Scope) String() string {
	var out []string
	add := func(on bool, format string, args ...any) {
		if on {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(s.ReferenceChanges, "--reference-changes")
	add(s.Unmatched, "unmatched")
	add(s.All, "--all")
	add(s.Where != "", "--where %s", s.where())
	add(!s.From.IsZero(), "--from %s", s.From.UTC().Format(time.RFC3339))
	add(!s.To.IsZero(), "--to %s", s.To.UTC().Format(time.RFC3339))
	add(s.Quarantined, "--quarantined")
	add(s.Reason != "", "--reason %q", s.Reason)
	return strings.Join(out, " ")
}

// mostShown is how many characters of a condition messages and snapshots have: a
// table's metadata has those of all its snapshots.
const mostShown = 500

// where writes the condition, or its beginning.
func (s Scope) where() string {
	if text := []rune(s.Where); len(text) > mostShown {
		return fmt.Sprintf("%q…", string(text[:mostShown]))
	}
	return fmt.Sprintf("%q", s.Where)
}

// criterion is a scope made ready to choose rows of silver, which a query calls s.
type criterion struct {
	condition string
	may       func(context.Context, table.File) (bool, error) // whether a file may have such rows
	keys      int                                             // keys of references that have changed; 0 when that is not what is asked
	latest    int64                                           // version of the last change of a reference, likewise
	keyColumn string                                          // the first reference's column; "" when it is not in silver
}

// criterion makes the scope ready. What it needs is put into the job's session.
func (j *Job) criterion(ctx context.Context, t *table.Table) (criterion, error) {
	switch {
	case j.scope.ReferenceChanges:
		return j.changed(ctx, t)
	case j.scope.Unmatched:
		return j.unmatched(t), nil
	case j.scope.Quarantined:
		return criterion{condition: "false", may: byBounds(func(table.File) bool { return false })}, nil
	}
	at := duck.Quote(j.Pipeline.Events.Time)
	conditions := []string{"true"}
	if j.scope.Where != "" {
		conditions = append(conditions, "("+j.scope.Where+")")
	}
	if !j.scope.From.IsZero() {
		conditions = append(conditions, at+" >= "+duck.Timestamp(j.scope.From))
	}
	if !j.scope.To.IsZero() {
		conditions = append(conditions, at+" < "+duck.Timestamp(j.scope.To))
	}
	within := func(f table.File) bool {
		lo, hi, known := f.Range(j.Pipeline.Events.Time)
		return !known || (j.scope.From.IsZero() || !hi.Before(j.scope.From)) && (j.scope.To.IsZero() || lo.Before(j.scope.To))
	}
	c := criterion{condition: strings.Join(conditions, " AND "), may: byBounds(within)}
	if j.scope.Where != "" && len(j.scope.Where) <= mostPruned {
		c.may = (&pruner{j.session, j.columns, c.condition}).may
	}
	return c, nil
}

// byBounds makes a test of a file of one that cannot fail.
func byBounds(may func(table.File) bool) func(context.Context, table.File) (bool, error) {
	return func(_ context.Context, f table.File) (bool, error) { return may(f), nil }
}

// changed chooses the rows whose reference row has changed since. Where silver
// does not have a reference's key, or silver.sql looks it up by something else,
// those are all rows that are older than its last change.
func (j *Job) changed(ctx context.Context, t *table.Table) (criterion, error) {
	l, _, _, err := ledger.Read[ledger.Silver](t)
	if err != nil {
		return criterion{}, err
	}
	changes, err := j.References.Changes(ctx, j.Pipeline.References, l.Corrected)
	if err != nil {
		return criterion{}, err
	}
	parsed, err := j.session.Parse(ctx, j.Pipeline.Silver.SQL)
	if err != nil {
		return criterion{}, err
	}
	c := criterion{}
	conditions, latest := []string{"false"}, int64(0)
	for i, change := range changes {
		older := change.Whole
		column := j.keyColumn(change.Reference, t)
		if !byKey(parsed, j.Pipeline.Name, change.Reference) {
			column = smelt.Column{}
		}
		for _, version := range change.Keys {
			latest = max(latest, version)
			if column.Name == "" {
				older = max(older, version)
			}
		}
		latest = max(latest, older)
		if older > 0 {
			conditions = append(conditions, fmt.Sprintf("s._reference_version < %d", older))
		}
		if column.Name == "" || len(change.Keys) == 0 {
			continue
		}
		if c.keyColumn == "" {
			c.keyColumn = column.Name
		}
		name := fmt.Sprintf("changes_%d", i)
		if err := j.loadChanges(ctx, name, column, change); err != nil {
			return criterion{}, err
		}
		conditions = append(conditions, fmt.Sprintf("EXISTS (FROM work.%s AS c WHERE c.key = s.%s AND s._reference_version < c.version)", name, duck.Quote(column.Name)))
		c.keys += len(change.Keys)
	}
	c.condition, c.latest = strings.Join(conditions, " OR "), latest
	c.may = byBounds(func(f table.File) bool {
		lo, _, known := f.IntRange("_reference_version")
		return !known || lo < latest
	})
	return c, nil
}

// loadChanges puts the keys of a reference that have changed into a table. The
// keys' texts are PostgreSQL's.
func (j *Job) loadChanges(ctx context.Context, name string, column smelt.Column, change smelt.ReferenceChanges) error {
	columns := []smelt.Column{{Name: "text", Type: smelt.Type{Name: "varchar"}}, {Name: "version", Type: smelt.Type{Name: "bigint"}}}
	rows := make([][]any, 0, len(change.Keys))
	for key, version := range change.Keys {
		rows = append(rows, []any{key, version})
	}
	if err := j.session.Load(ctx, "work", name+"_text", columns, duck.Rows(rows)); err != nil {
		return err
	}
	// A key that is not a value of the column's type matches no row.
	return j.session.Exec(ctx, fmt.Sprintf("CREATE OR REPLACE TABLE work.%s AS SELECT TRY_CAST(text AS %s) AS key, max(version) AS version FROM work.%s_text GROUP BY ALL",
		name, column.Type, name))
}

// unmatched chooses the rows that found no row in a reference that has one now.
func (j *Job) unmatched(t *table.Table) criterion {
	var conditions []string
	for _, r := range j.Pipeline.References {
		condition := fmt.Sprintf("list_contains(string_split(s._unmatched, ', '), %s)", duck.Literal(r.Name))
		if column := j.keyColumn(r, t); column.Name != "" {
			// Only so does a bounded scope come to its end: it has fewer rows each time.
			condition += fmt.Sprintf(" AND EXISTS (FROM reference.%s AS r WHERE %s)", duck.Quote(r.Name), j.refiner.Matches(r, "s", column, "r"))
		} else {
			j.scope.Most = 0
		}
		conditions = append(conditions, "("+condition+")")
	}
	return criterion{
		condition: "s._unmatched IS NOT NULL AND (" + strings.Join(append(conditions, "false"), " OR ") + ")",
		may:       byBounds(func(f table.File) bool { return !f.AllNull("_unmatched") }),
	}
}

// keyColumn is the column of silver that has the value by which a reference is
// looked up, as the event has it. One without a name: silver does not have it.
func (j *Job) keyColumn(r smelt.Reference, t *table.Table) smelt.Column {
	i := slices.IndexFunc(j.Pipeline.Events.Columns, func(c smelt.Column) bool { return c.Name == r.On })
	for _, out := range j.outputs {
		if out.Path[len(out.Path)-1] != r.On {
			continue
		}
		for _, c := range t.Columns() {
			if c.Name == out.Text && i >= 0 && c.Type.String() == j.Pipeline.Events.Columns[i].Type.String() {
				return c
			}
		}
	}
	return smelt.Column{}
}
