package smelt

import "context"

// References reads reference tables and tracks their changes. It is safe for concurrent
// use.
type References interface {
	// Version returns the version that Load would return now. It is a cheap check
	// for changes.
	Version(ctx context.Context, refs []Reference) (int64, error)

	// Load reads the tables and their version at one instant. It skips rows whose key
	// is NULL. Two rows with one key are an error that names them. A missing table or
	// key column is an ErrPipeline.
	Load(ctx context.Context, refs []Reference) (ReferenceSet, error)

	// Changes returns, per table in the order of refs, which rows have changed after
	// a version. It includes every change up to the version of an earlier Load, and
	// may include later ones.
	Changes(ctx context.Context, refs []Reference, since int64) ([]ReferenceChanges, error)
}

// ReferenceChanges are the rows of one reference table that were inserted, updated or
// deleted after a version. An update that changes no column does not count.
type ReferenceChanges struct {
	Reference Reference
	// Whole is the version of the last change that may concern any row: the table has
	// no trigger, or was truncated. 0: there was none.
	Whole int64
	// Keys has the version of the last change per key. Keys are PostgreSQL's text.
	Keys map[string]int64
}

// ReferenceSet is the content of a pipeline's reference tables at one instant.
type ReferenceSet struct {
	// Version is the highest version of the tables, or 0 without tables. Versions
	// rise in commit order: of two sets of the same tables, the later one has the
	// higher version.
	Version int64
	Tables  []ReferenceTable // in the order asked for
}

// ReferenceTable is the content of one reference table.
type ReferenceTable struct {
	Reference Reference
	Columns   []Column // in the table's order, with DuckDB's type names
	// Rows have one value per column: nil, bool, int64, float64, string or time.Time.
	// A decimal is a string.
	Rows [][]any
}
