package duck

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"smelt"
)

// Layout says how rows become Parquet files.
type Layout struct {
	FieldIDs  string           // the table's FIELD_IDS literal, {a: 1, …}
	Partition []PartitionValue // none: one file
	Sort      string           // ORDER BY within a file; "" for none
}

// PartitionValue is one partition field, as an expression over the rows.
type PartitionValue struct {
	Name string // the field's name in the table
	Expr string // gives the value as the table keeps it: days since 1970 for day(…)
}

// PartitionValues writes a table's partition fields as expressions.
func PartitionValues(fields []smelt.PartitionField) []PartitionValue {
	out := make([]PartitionValue, len(fields))
	for i, f := range fields {
		column := Quote(f.Column)
		out[i] = PartitionValue{Name: f.Column + "_" + f.Transform}
		switch f.Transform {
		case "identity":
			out[i] = PartitionValue{Name: f.Column, Expr: column}
		case "hour":
			out[i].Expr = "epoch_us(" + column + ") // 3600000000"
		default: // year, month, day: whole units since 1970. A TIMESTAMP casts many times as fast as a TIMESTAMPTZ.
			out[i].Expr = fmt.Sprintf("date_diff('%s', DATE '1970-01-01', make_timestamp(epoch_us(%s))::DATE)", f.Transform, column)
		}
	}
	return out
}

// fewPartitions is up to how many partition values the relation is read once for
// each. With more of them its rows are put in their order first.
const fewPartitions = 16

// WriteParquet writes the rows of a relation (a table's name, or a query in
// parentheses) as Parquet into dir, one file a partition value, and describes
// the files. No rows: no file. Columns whose names start with "__" are for
// the layout's expressions and are not written.
func (s *Session) WriteParquet(ctx context.Context, relation, dir string, layout Layout) ([]smelt.DataFile, error) {
	values, err := s.partitions(ctx, relation, layout.Partition)
	if err != nil {
		return nil, err
	}
	if len(values) > fewPartitions {
		return s.writeMany(ctx, relation, dir, layout)
	}
	var files []smelt.DataFile
	for _, v := range values {
		var where []string
		if len(values) > 1 { // else every row is of the one
			for j, p := range layout.Partition {
				where = append(where, fmt.Sprintf("(%s) IS NOT DISTINCT FROM %s", p.Expr, value(v[j])))
			}
		}
		file, err := s.copy(ctx, relation, where, newPath(dir, len(files)), layout)
		if err != nil {
			return nil, err
		}
		if file.Rows == 0 { // DuckDB writes a file for no rows too
			if err := os.Remove(file.Path); err != nil {
				return nil, err
			}
			continue
		}
		file.Partition = layout.Values(v)
		files = append(files, file)
	}
	return files, nil
}

// writeMany sorts the rows by partition once. Each partition is then a range of rows, which DuckDB finds without reading
// the others. Reading 200,000 rows again for each of 10,000 partitions would take minutes.
func (s *Session) writeMany(ctx context.Context, relation, dir string, layout Layout) (files []smelt.DataFile, err error) {
	const sorted = "work.__sorted"
	exprs := expressions(layout.Partition)
	order := exprs
	if layout.Sort != "" {
		order += ", " + layout.Sort
	}
	if err := s.Exec(ctx, "CREATE OR REPLACE TABLE "+sorted+" AS SELECT * FROM "+relation+" ORDER BY "+order); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, s.Exec(context.WithoutCancel(ctx), "DROP TABLE "+sorted))
	}()
	ranges, err := s.values(ctx, fmt.Sprintf("SELECT %s, min(rowid), max(rowid) FROM %s GROUP BY ALL ORDER BY min(rowid)", exprs, sorted), len(layout.Partition)+2)
	if err != nil {
		return nil, err
	}
	layout.Sort = ""
	for i, r := range ranges {
		v, first, last := r[:len(layout.Partition)], r[len(r)-2].(int64), r[len(r)-1].(int64)
		file, err := s.copy(ctx, sorted, []string{fmt.Sprintf("rowid BETWEEN %d AND %d", first, last)}, newPath(dir, i), layout)
		if err != nil {
			return nil, err
		}
		file.Partition = layout.Values(v)
		files = append(files, file)
	}
	return files, nil
}

func newPath(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("%05d.parquet", n)) }

// Values gives a file's partition values by their fields' names; nil when the
// layout has none.
func (l Layout) Values(values []any) map[string]any {
	if len(l.Partition) == 0 {
		return nil
	}
	out := make(map[string]any, len(values))
	for i, p := range l.Partition {
		out[p.Name] = values[i]
	}
	return out
}

func expressions(fields []PartitionValue) string {
	exprs := make([]string, len(fields))
	for i, f := range fields {
		exprs[i] = f.Expr
	}
	return strings.Join(exprs, ", ")
}

// partitions lists the partition values of a relation, in order; for an
// unpartitioned layout that is one empty value.
func (s *Session) partitions(ctx context.Context, relation string, fields []PartitionValue) ([][]any, error) {
	if len(fields) == 0 {
		return [][]any{nil}, nil
	}
	return s.values(ctx, "SELECT DISTINCT "+expressions(fields)+" FROM "+relation+" ORDER BY ALL", len(fields))
}

// values returns a query's rows, as scanned.
func (s *Session) values(ctx context.Context, query string, columns int) ([][]any, error) {
	rows, err := s.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out [][]any
	for rows.Next() {
		row, dest := make([]any, columns), make([]any, columns)
		for i := range row {
			dest[i] = &row[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, wrap(query, err)
		}
		out = append(out, row)
	}
	return out, wrap(query, rows.Err())
}

// WriteFile writes all rows of a relation as one Parquet file, whose partition
// values are left to the caller.
func (s *Session) WriteFile(ctx context.Context, relation, path string, layout Layout) (smelt.DataFile, error) {
	return s.copy(ctx, relation, nil, path, layout)
}

func (s *Session) copy(ctx context.Context, relation string, where []string, path string, layout Layout) (smelt.DataFile, error) {
	q := "SELECT COLUMNS(c -> NOT starts_with(c, '__')) FROM " + relation
	if len(where) > 0 {
		q += " WHERE " + strings.Join(where, " AND ")
	}
	if layout.Sort != "" {
		q += " ORDER BY " + layout.Sort
	}
	q = fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet, COMPRESSION zstd, FIELD_IDS %s, WRITE_BLOOM_FILTER false, RETURN_STATS)",
		q, Literal(path), layout.FieldIDs)
	var (
		name               string
		rows, size, footer int64
		stats, keys        any
	)
	if err := s.Row(ctx, q, &name, &rows, &size, &footer, &stats, &keys); err != nil {
		return smelt.DataFile{}, err
	}
	return smelt.DataFile{Path: path, Rows: rows, Bytes: size, Columns: bounds(stats)}, nil
}

// bounds reads RETURN_STATS' column_statistics: a map from the quoted column
// to a map of figures.
func bounds(stats any) map[string]smelt.Bounds {
	out := map[string]smelt.Bounds{}
	for column, figures := range entries(stats) {
		name, rest, ok := cutName(column)
		if !ok || rest != "" { // "s"."x" is a nested leaf
			continue
		}
		var b smelt.Bounds
		for key, v := range entries(figures) {
			text, _ := v.(string)
			switch key {
			case "min":
				b.Min, b.Known = text, true
			case "max":
				b.Max, b.Known = text, true
			case "null_count":
				fmt.Sscan(text, &b.Nulls)
			case "has_nan":
				b.NaN = text == "true"
			}
		}
		out[name] = b
	}
	return out
}

func entries(m any) map[string]any {
	out := map[string]any{}
	switch m := m.(type) {
	case duckdb.OrderedMap:
		for i, k := range m.Keys() {
			out[k.(string)] = m.Values()[i]
		}
	case duckdb.Map:
		for k, v := range m {
			out[k.(string)] = v
		}
	}
	return out
}

// value writes a partition value as a literal.
func value(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return Literal(v)
	case bool, int8, int16, int32, int64, float32, float64:
		return fmt.Sprint(v)
	case time.Time:
		return fmt.Sprintf("make_timestamptz(%d)", v.UnixMicro())
	default:
		return Literal(fmt.Sprint(v))
	}
}

// ReadParquet writes a relation over local Parquet files that may lack some of
// the columns, which then are NULL, and may be none.
func ReadParquet(columns []smelt.Column, paths []string) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = Quote(c.Name)
	}
	return readParquet(columns, paths, strings.Join(names, ", "), "")
}

// ReadParquetFields writes a relation over local Parquet files whose columns are
// found by their field ids; schema is as the table gives it.
func ReadParquetFields(schema string, paths []string) string {
	return "(FROM " + readFiles("read_parquet", paths, "schema = "+schema) + ")"
}

// ReadParquetFiles is like ReadParquet, with a column __file beside: the place of
// a row's file in paths, from 0.
func ReadParquetFiles(columns []smelt.Column, paths []string) string {
	const filename = "filename"
	if slices.ContainsFunc(columns, func(c smelt.Column) bool { return strings.EqualFold(c.Name, filename) }) {
		// DuckDB takes conditions on such a column for ones on the paths.
		files := []string{"SELECT *, 0 AS __file FROM " + ReadParquet(columns, nil)}
		for i := range paths {
			files = append(files, fmt.Sprintf("SELECT *, %d FROM %s", i, ReadParquet(columns, paths[i:i+1])))
		}
		return "(" + strings.Join(files, " UNION ALL ") + ")"
	}
	columns = append(slices.Clone(columns), smelt.Column{Name: filename, Type: smelt.Type{Name: "varchar"}})
	rows := readParquet(columns, paths, "*", ", filename = true")
	return fmt.Sprintf(`(SELECT r.* EXCLUDE (filename), f.n AS __file FROM %s AS r
		JOIN (SELECT unnest(%s) AS path, generate_subscripts(%[2]s, 1) - 1 AS n) AS f ON r.filename = f.path)`, rows, listOf(paths))
}

func readParquet(columns []smelt.Column, paths []string, names, options string) string {
	typed := make([]string, len(columns))
	for i, c := range columns {
		typed[i] = "NULL::" + c.Type.String() + " AS " + Quote(c.Name)
	}
	empty := "SELECT " + strings.Join(typed, ", ") + " WHERE false"
	if len(paths) == 0 {
		return "(" + empty + ")"
	}
	return "(SELECT " + names + " FROM (" + empty +
		" UNION ALL BY NAME SELECT * FROM " + readFiles("read_parquet", paths, "union_by_name = true"+options) + "))"
}

// ReadJSON writes a relation over local files of JSON, a value a line, with columns
// as read_json takes them.
func ReadJSON(paths []string, longest int64, columns string) string {
	return readFiles("read_json", paths, fmt.Sprintf("format = 'newline_delimited', maximum_object_size = %d, columns = %s", longest, columns))
}

// readFiles calls one of DuckDB's readers, which otherwise takes the values of columns
// from a path such as /srv/city=Espoo/smelt.
func readFiles(reader string, paths []string, options string) string {
	return reader + "(" + List(paths) + ", hive_partitioning = false, " + options + ")"
}

// listOf is a list of strings that has its type also when it is empty.
func listOf(items []string) string { return List(items) + "::VARCHAR[]" }

// NullTime is a nullable time for scanning.
type NullTime = sql.NullTime
