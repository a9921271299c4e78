package table

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// Table is a table as it was when it was loaded. It never changes.
type Table struct {
	lake *Lake
	name string
	ice  *ice.Table

	bytes atomic.Int64 // of the metadata file; 0 until it was requested

	shapeOnce sync.Once
	shapeOf   shape // see shape
}

// shape is a table's columns and partitionings. iceberg-go copies them at each call,
// so they are taken once.
type shape struct {
	schema *iceberg.Schema
	specs  map[int][]valueField // by the id of the partitioning
}

func (t *Table) shape() *shape {
	t.shapeOnce.Do(func() {
		t.shapeOf = shape{t.ice.Schema(), map[int][]valueField{}}
		for _, spec := range t.ice.Metadata().PartitionSpecs() {
			t.shapeOf.specs[spec.ID()] = valueFields(spec, t.shapeOf.schema)
		}
	})
	return &t.shapeOf
}

// Name returns the table's name, such as "silver.sensors".
func (t *Table) Name() string { return t.name }

// Location returns the path of the table's folder; its data files belong under
// data/ there.
func (t *Table) Location() string { return t.ice.Location() }

// MetadataLocation returns the path of the metadata file that this view is of:
// what DuckDB's iceberg_scan reads.
func (t *Table) MetadataLocation() string { return t.ice.MetadataLocation() }

// Columns returns the table's columns in order.
func (t *Table) Columns() []smelt.Column { return columns(t.ice.Schema().Fields()) }

// FieldIDs returns the columns' ids as the SQL that follows FIELD_IDS in
// DuckDB's COPY, with its braces: {"a": 1, "b": {__duckdb_field_id: 2, "x": 3}}.
func (t *Table) FieldIDs() string { return fieldIDs(t.ice.Schema().Fields()) }

// ParquetSchema returns the columns as the SQL after schema = in DuckDB's read_parquet, which then finds columns by id. So
// columns that were renamed, or dropped and added again, are not confused, and missing columns are NULL. Fields of structs
// are still found by name.
func (t *Table) ParquetSchema() string { return parquetSchema(t.ice.Schema().Fields()) }

// StructFields returns the names of the fields of all structs in the columns, by
// id.
func (t *Table) StructFields() map[int]string {
	names := map[int]string{}
	for _, f := range t.ice.Schema().Fields() {
		structFields(f.Type, names)
	}
	return names
}

// HasField says whether a column, or a field within one, has an id.
func (t *Table) HasField(id int) bool {
	_, ok := t.ice.Schema().FindFieldByID(id)
	return ok
}

// NotRewritable returns the names of the columns whose values DuckDB would not
// write as other engines have written them.
func (t *Table) NotRewritable() (names []string) {
	for _, f := range t.ice.Schema().Fields() {
		if !rewritable(f.Type) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Partition returns how the table is partitioned.
func (t *Table) Partition() []smelt.PartitionField {
	return partitionFields(t.ice.Spec(), t.ice.Schema())
}

// Properties returns the table's properties.
func (t *Table) Properties() map[string]string { return maps.Clone(t.ice.Properties()) }

// Snapshot is one committed state of a table.
type Snapshot struct {
	ID        int64
	Parent    int64 // 0: none
	Sequence  int64 // its number among all snapshots that the table has had, also those rolled back
	Time      time.Time
	Operation string // append, overwrite, delete, or replace, which changes no rows
	Summary   map[string]string
}

// Current returns the newest snapshot of main; a table that was just created
// has none.
func (t *Table) Current() (Snapshot, bool) {
	s := t.ice.CurrentSnapshot()
	if s == nil {
		return Snapshot{}, false
	}
	return snapshot(*s), true
}

// Ancestors returns the snapshots of main, the newest first, up to the first
// that has expired.
func (t *Table) Ancestors() []Snapshot {
	head := t.ice.CurrentSnapshot()
	if head == nil {
		return nil
	}
	return t.AncestorsOf(head.SnapshotID)
}

// AncestorsOf returns a snapshot and those that it was built on, the newest
// first, up to the first that has expired.
func (t *Table) AncestorsOf(id int64) []Snapshot {
	return snapshots(ice.AncestorsOf(id, t.ice.Metadata().SnapshotByID))
}

// Snapshot returns a snapshot by its id.
func (t *Table) Snapshot(id int64) (Snapshot, bool) {
	s := t.ice.SnapshotByID(id)
	if s == nil {
		return Snapshot{}, false
	}
	return snapshot(*s), true
}

// Snapshots returns all snapshots, of any branch, in the order committed.
func (t *Table) Snapshots() []Snapshot { return snapshots(t.ice.Metadata().Snapshots()) }

// Refs returns the snapshot that each branch and tag points to.
func (t *Table) Refs() map[string]int64 {
	refs := map[string]int64{}
	for name, ref := range t.ice.Metadata().Refs() {
		refs[name] = ref.SnapshotID
	}
	return refs
}

func snapshots(in []ice.Snapshot) []Snapshot {
	out := make([]Snapshot, len(in))
	for i, s := range in {
		out[i] = snapshot(s)
	}
	return out
}

func snapshot(s ice.Snapshot) Snapshot {
	out := Snapshot{ID: s.SnapshotID, Sequence: s.SequenceNumber, Time: time.UnixMilli(s.TimestampMs).UTC()}
	if s.ParentSnapshotID != nil {
		out.Parent = *s.ParentSnapshotID
	}
	if s.Summary != nil {
		out.Operation = string(s.Summary.Operation)
		out.Summary = maps.Clone(map[string]string(s.Summary.Properties))
	}
	return out
}
