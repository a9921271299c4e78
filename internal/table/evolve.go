package table

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// Conflict is a column that a table cannot take.
type Conflict struct {
	Column string     // as the pipeline gives it
	Named  string     // as the table has it, when the two names differ in case alone
	Have   smelt.Type // in the table
	Given  smelt.Type
}

// Conflicts are an error: all columns of a query that a table cannot take.
type Conflicts []Conflict

// Error implements error, a line a column.
func (c Conflicts) Error() string {
	lines := make([]string, len(c))
	for i, each := range c {
		lines[i] = fmt.Sprintf("column %s: %s in the table, %s now", each.Column, each.Have, each.Given)
		if each.Named != "" {
			lines[i] = fmt.Sprintf("column %s: the table has it as %s, and names that differ only in case are one to most engines", each.Column, each.Named)
		}
	}
	return strings.Join(lines, "\n")
}

// With returns the table as it will be after a Change with these columns, so that files can be written for that change. The
// table keeps all its columns. Missing columns are added, and are NULL in existing files. Types are widened as Iceberg
// allows, also within structs and lists: integer to bigint, float to double, a decimal to more digits before the point,
// a struct to more fields. A column that is narrower than the table's, or missing, keeps the table's type. Other changes
// are Conflicts. The view is not committed; commit the change to t.
func (t *Table) With(columns ...smelt.Column) (*Table, error) {
	tx, err := t.ice.NewTransactionOnBranchWithError(ice.MainBranch)
	if err != nil {
		return nil, fmt.Errorf("columns of %s: %w", t.name, err)
	}
	changed, err := stageColumns(tx, t.ice.Schema(), columns)
	if err != nil {
		return nil, fmt.Errorf("columns of %s: %w", t.name, err)
	}
	if !changed {
		return t, nil
	}
	staged, err := tx.StagedTable()
	if err != nil {
		return nil, fmt.Errorf("columns of %s: %w", t.name, err)
	}
	return &Table{lake: t.lake, name: t.name, ice: staged.Table}, nil
}

// Evolve brings a table to a definition and returns it: its columns as With describes, and its
// partitioning. It writes metadata only and makes no snapshot. Existing files stay; new files follow
// the new partitioning. A writer that has loaded the table before may still commit.
func (l *Lake) Evolve(ctx context.Context, name string, def Definition) (*Table, error) {
	err := l.amend(ctx, name, func(t *Table) ([]ice.Update, error) { return t.evolve(def) })
	if err != nil {
		return nil, fmt.Errorf("evolve %s: %w", name, err)
	}
	return l.Load(ctx, name)
}

// evolve lists what a table lacks of its definition; usually nothing.
func (t *Table) evolve(def Definition) ([]ice.Update, error) {
	future, err := t.With(def.Columns...)
	if err != nil {
		return nil, err
	}
	var updates []ice.Update
	if future != t {
		tx := t.ice.NewTransaction()
		update, err := newUpdate(tx, t.ice.Schema(), def.Columns)
		if err != nil {
			return nil, err
		}
		if updates, _, err = update.BuildUpdates(); err != nil {
			return nil, err
		}
	}
	partition, err := future.repartition(def.Partition)
	return append(updates, partition...), err
}

// stageColumns stages on a transaction what a schema lacks to hold columns.
func stageColumns(tx *ice.Transaction, schema *iceberg.Schema, columns []smelt.Column) (changed bool, err error) {
	update, err := newUpdate(tx, schema, columns)
	if err != nil || update == nil {
		return false, err
	}
	return true, update.Commit()
}

// newUpdate makes the change of a schema to one that holds columns; nil: it does
// already.
func newUpdate(tx *ice.Transaction, schema *iceberg.Schema, columns []smelt.Column) (*ice.UpdateSchema, error) {
	id := schema.HighestFieldID()
	given, err := newFields(columns, &id) // the update gives them their final ids
	if err != nil {
		return nil, err
	}
	var conflicts Conflicts
	var f fitting
	for _, g := range given {
		have, there := find(schema.Fields(), g.Name)
		switch {
		case !there:
			f.added = append(f.added, addition{[]string{g.Name}, g.Type})
		case have.Name != g.Name:
			conflicts = append(conflicts, Conflict{Column: g.Name, Named: have.Name, Have: duckType(have.Type), Given: duckType(g.Type)})
		case !f.fit([]string{g.Name}, have.Type, g.Type):
			conflicts = append(conflicts, Conflict{Column: g.Name, Have: duckType(have.Type), Given: duckType(g.Type)})
		}
	}
	if len(conflicts) > 0 {
		return nil, conflicts
	}
	return f.update(tx), nil
}

// fitting gathers what columns lack to hold others.
type fitting struct{ added, widened []addition }

// addition is a type at a path of names.
type addition struct {
	path []string
	typ  iceberg.Type
}

// fit notes what a type of the table lacks to hold the values of another. It is
// false when nothing lossless makes it hold them.
func (f *fitting) fit(path []string, have, given iceberg.Type) bool {
	switch have := have.(type) {
	case *iceberg.StructType:
		given, ok := given.(*iceberg.StructType)
		return ok && f.fitFields(path, have.FieldList, given.FieldList)
	case *iceberg.ListType:
		given, ok := given.(*iceberg.ListType)
		return ok && f.fit(slices.Concat(path, []string{"element"}), have.Element, given.Element)
	}
	switch {
	case have.Equals(given), wider(have, given):
		return true
	case wider(given, have):
		f.widened = append(f.widened, addition{path, given})
		return true
	}
	return false
}

func (f *fitting) fitFields(path []string, have, given []iceberg.NestedField) bool {
	for _, g := range given {
		inner := slices.Concat(path, []string{g.Name})
		h, there := find(have, g.Name)
		switch {
		case !there:
			f.added = append(f.added, addition{inner, g.Type})
		case h.Name != g.Name || !f.fit(inner, h.Type, g.Type):
			return false
		}
	}
	return true
}

// find looks a field up by its name, in which case does not count.
func find(fields []iceberg.NestedField, name string) (iceberg.NestedField, bool) {
	i := slices.IndexFunc(fields, func(f iceberg.NestedField) bool { return strings.EqualFold(f.Name, name) })
	if i < 0 {
		return iceberg.NestedField{}, false
	}
	return fields[i], true
}

// wider says whether Iceberg lets a column of a type become one of the other.
func wider(than, typ iceberg.Type) bool {
	switch typ := typ.(type) {
	case iceberg.Int32Type:
		return than.Equals(iceberg.PrimitiveTypes.Int64)
	case iceberg.Float32Type:
		return than.Equals(iceberg.PrimitiveTypes.Float64)
	case iceberg.DecimalType:
		d, ok := than.(iceberg.DecimalType)
		return ok && d.Scale() == typ.Scale() && d.Precision() > typ.Precision()
	}
	return false
}

// update makes the change, or returns nil if there is none.
func (f *fitting) update(tx *ice.Transaction) *ice.UpdateSchema {
	if len(f.added)+len(f.widened) == 0 {
		return nil
	}
	update := tx.UpdateSchema(true, false)
	for _, w := range f.widened {
		update.UpdateColumn(w.path, ice.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{Val: w.typ, Valid: true}})
	}
	for _, a := range f.added {
		update.AddColumn(a.path, a.typ, "", false, nil)
	}
	return update
}
