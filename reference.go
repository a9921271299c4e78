package smelt

import "context"

// References reads reference tables, and tells when they change. It is safe for
// concurrent use.
type References interface {
	// Version is the version that Load would return now, without the rows: a
	// cheap way to ask whether anything has changed.
	Version(ctx context.Context, refs []Reference) (int64, error)

	// Load reads the tables and their version as of one instant. Rows whose key
	// is NULL are left out; two rows for one key are an error that names them. A
	// table or a key column that is not there is an ErrPipeline.
	Load(ctx context.Context, refs []Reference) (ReferenceSet, error)

	// Changes tells which rows of each table have changed after a version, in the
	// order asked for. It knows of every change up to the version that an earlier
	// Load returned, and may know of later ones.
	Changes(ctx context.Context, refs []Reference, since int64) ([]ReferenceChanges, error)
}

// ReferenceChanges are the rows of one reference table that have changed after a
// version: inserted, updated so that some column differs, or deleted.
type ReferenceChanges struct {
	Reference Reference
	// Whole is the version of the last change that may have been to any row: of a
	// table that no trigger follows, or that was truncated. 0 when there was none.
	Whole int64
	// Keys has, by the key as PostgreSQL writes it as text, the version of the last
	// change to its row.
	Keys map[string]int64
}

// ReferenceSet is the content of a pipeline's reference tables at one instant.
type ReferenceSet struct {
	// Version is the highest version among the tables, 0 when there are none.
	// Versions rise in the order in which changes were committed: of two sets of
	// the same tables, the one with the higher version is the later one.
	Version int64
	Tables  []ReferenceTable // in the order asked for
}

// ReferenceTable is the content of one reference table.
type ReferenceTable struct {
	Reference Reference
	Columns   []Column // in the table's order; their types by DuckDB's names
	// Rows hold a value a column: nil, bool, int64, float64, string or
	// time.Time; a decimal is a string.
	Rows [][]any
}
