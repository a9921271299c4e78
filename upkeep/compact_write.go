package upkeep

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/table"
)

// write writes the rows of a merge's files as one file, in the order of time.
func (c *compactor) write(ctx context.Context, t *table.Table, m merge, dir string) (smelt.DataFile, error) {
	if err := checkColumns(t); err != nil { // since the plan
		return smelt.DataFile{}, refusal{error: err}
	}
	paths, release, err := c.Area.Fetch(ctx, m.files)
	if err != nil {
		return smelt.DataFile{}, err
	}
	defer release()
	session, err := c.Duck.Session(ctx)
	if err != nil {
		return smelt.DataFile{}, err
	}
	defer session.Close()
	if err := checkFields(ctx, session, t, paths); err != nil {
		return smelt.DataFile{}, err
	}
	files, err := session.WriteParquet(ctx, duck.ReadParquetFields(t.ParquetSchema(), paths), dir, duck.Layout{
		FieldIDs: t.FieldIDs(), Sort: c.order(t),
	})
	if err != nil {
		return smelt.DataFile{}, err
	}
	if len(files) != 1 {
		return smelt.DataFile{}, fmt.Errorf("merging %d files gave %d: they have no rows", len(files), len(paths))
	}
	return files[0], nil
}

// order is the ORDER BY of a file: by those of its columns that the table has.
func (c *compactor) order(t *table.Table) string {
	var columns []string
	for _, name := range c.sort {
		if slices.ContainsFunc(t.Columns(), func(has smelt.Column) bool { return has.Name == name }) {
			columns = append(columns, duck.Quote(name))
		}
	}
	return strings.Join(columns, ", ")
}

// checkColumns fails on a table with columns of another engine that DuckDB cannot write unchanged.
func checkColumns(t *table.Table) error {
	odd := t.NotRewritable()
	for _, c := range t.Columns() {
		if strings.HasPrefix(c.Name, "__") { // which WriteParquet leaves out
			odd = append(odd, c.Name)
		}
	}
	if len(odd) > 0 {
		return fmt.Errorf("column %s cannot be written unchanged: compact the table with the engine that made it", strings.Join(odd, ", "))
	}
	return nil
}

// refusal is why some files cannot be merged, now or later.
type refusal struct {
	error
	files []int // their places
}

// checkFields fails on files whose columns have no ids.
func checkFields(ctx context.Context, session *duck.Session, t *table.Table, paths []string) error {
	rows, err := session.Query(ctx, "SELECT DISTINCT file_name, name, coalesce(field_id, -1) FROM parquet_schema("+duck.List(paths)+") WHERE field_id IS NOT NULL OR num_children IS NULL ORDER BY ALL")
	if err != nil {
		return err
	}
	defer rows.Close()
	var no refusal
	fields := t.StructFields()
	named := slices.Collect(maps.Values(fields))
	for rows.Next() {
		var path, name string
		var id int
		if err := rows.Scan(&path, &name, &id); err != nil {
			return err
		}
		if fault := fieldFault(t, fields, named, name, id); fault != nil {
			no.error = cmp.Or(no.error, fault)
			no.files = append(no.files, slices.Index(paths, path))
		}
	}
	if no.error != nil {
		no.files = slices.Compact(no.files)
		return no
	}
	return rows.Err()
}

// fieldFault says why a field of a file cannot be identified by its id. Other engines may add files
// without ids. They may also rename a field within a struct, or drop and add it again, and DuckDB
// finds such fields by name.
func fieldFault(t *table.Table, fields map[int]string, named []string, name string, id int) error {
	now, nested := fields[id]
	switch {
	case id < 0:
		return fmt.Errorf("column %s of a file has no field id: compact the table with the engine that took the file in", name)
	case nested && now != name:
		return fmt.Errorf("field %s of a struct was %s when a file was written: compact the table with the engine that renamed it", now, name)
	case !t.HasField(id) && slices.ContainsFunc(named, func(now string) bool { return strings.EqualFold(now, name) }):
		return fmt.Errorf("field %s of a struct is not the one of that name when a file was written: compact the table with the engine that dropped it", name)
	}
	return nil
}

// unchanged holds the file against those that it is to replace.
func unchanged(t *table.Table, m merge, file smelt.DataFile) error {
	var rows int64
	for _, f := range m.files {
		rows += f.Rows
	}
	if rows != file.Rows {
		return fmt.Errorf("%d rows came out of %d: this is a bug in smelt, and nothing was replaced", file.Rows, rows)
	}
	for _, column := range t.Columns() {
		want, known := nulls(m.files, column.Name)
		if got, written := file.Columns[column.Name]; known && written && got.Nulls != want {
			return fmt.Errorf("column %s has %d NULLs and had %d: this is a bug in smelt, and nothing was replaced", column.Name, got.Nulls, want)
		}
	}
	return nil
}

// nulls adds up how many rows of files have no value of a column, if all of them
// have counted.
func nulls(files []table.File, column string) (n int64, known bool) {
	for _, f := range files {
		own, counted := f.Nulls(column)
		if !counted {
			return 0, false
		}
		n += own
	}
	return n, true
}
