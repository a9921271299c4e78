package duck

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

// Console is a connection on which a person's statements run: a session whose
// catalog is called lake, with the extensions that read S3 and Iceberg. It is
// used by one goroutine at a time.
type Console struct{ *Session }

// ConsoleCatalog is the name of a console's catalog.
const ConsoleCatalog = "lake"

// Console opens the console of an instance that has nothing else to do, since
// its settings hold for the whole instance. dir is where [DB.Extensions] has put
// the extensions.
func (db *DB) Console(ctx context.Context, dir string) (*Console, error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("duckdb connection: %w", err)
	}
	c := &Console{&Session{db: db, conn: conn, catalog: ConsoleCatalog}}
	statements := []string{
		"SET extension_directory = " + Literal(dir),
		"SET autoload_known_extensions = false",
		"SET allow_persistent_secrets = false",
	}
	for _, name := range extensions {
		statements = append(statements, "LOAD "+name)
	}
	statements = append(statements, "ATTACH ':memory:' AS "+c.catalog, "USE "+c.catalog)
	if err := c.Exec(ctx, statements...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Column is a column of a result.
type Column struct {
	Name   string
	Number bool // it holds numbers
}

// Cell is a value of a result as DuckDB prints it; Valid is false for NULL.
type Cell struct {
	Text  string
	Valid bool
}

// Result is what a statement gives. It must be closed before the next one runs.
type Result struct {
	Columns []Column
	Query   bool // the rows are a query's result, not a report of what a statement did
	JSON    bool // the cells are JSON

	stmt *duckdb.Stmt // nil: the rows close it
	rows driver.Rows
	row  []driver.Value
}

// Run runs exactly one statement of a person, and interrupts it when ctx ends.
// With asJSON the cells of a query are the JSON of their values, not their text.
func (c *Console) Run(ctx context.Context, text string, asJSON bool) (*Result, error) {
	var result *Result
	err := c.conn.Raw(func(conn any) (err error) {
		result, err = run(ctx, conn.(*duckdb.Conn), text, asJSON)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}

func run(ctx context.Context, conn *duckdb.Conn, text string, asJSON bool) (*Result, error) {
	stmt, err := prepare(conn, text)
	if errors.Is(err, errSeveral) && strings.Contains(strings.ToUpper(text), "PIVOT") {
		return expand(ctx, conn, text)
	}
	if err != nil {
		return nil, err
	}
	return execute(ctx, conn, stmt, text, asJSON)
}

// errSeveral is a text that DuckDB takes for more than one statement.
var errSeveral = errors.New("only one statement can run at a time")

func prepare(conn *duckdb.Conn, text string) (*duckdb.Stmt, error) {
	stmt, err := conn.Prepare(text)
	if err == nil {
		return stmt.(*duckdb.Stmt), nil
	}
	if refused := new(duckdb.Error); !errors.As(err, &refused) {
		return nil, errSeveral // the driver's own refusal has no type
	}
	return nil, err
}

// execute runs a prepared statement, which the result closes. A query is wrapped in another one, so that DuckDB
// prints the values.
func execute(ctx context.Context, conn *duckdb.Conn, stmt *duckdb.Stmt, text string, asJSON bool) (*Result, error) {
	r := &Result{stmt: stmt}
	kind, err := stmt.StatementType()
	if err == nil {
		r.Query = isQuery(kind)
		r.Columns, err = columnsOf(stmt)
	}
	if err == nil && kind == duckdb.STATEMENT_TYPE_SELECT {
		// A PRAGMA may count as a query and yet not stand inside of another.
		if outer, refused := prepare(conn, printed(text, len(r.Columns), asJSON)); refused == nil {
			err = stmt.Close()
			r.stmt, r.JSON = outer, asJSON
		}
	}
	if err == nil {
		r.rows, err = r.stmt.QueryContext(ctx, nil)
	}
	if err != nil {
		return nil, errors.Join(err, r.stmt.Close())
	}
	r.row = make([]driver.Value, len(r.Columns))
	return r, nil
}

func isQuery(kind duckdb.StmtType) bool {
	switch kind {
	case duckdb.STATEMENT_TYPE_SELECT, duckdb.STATEMENT_TYPE_EXPLAIN, duckdb.STATEMENT_TYPE_PRAGMA:
		return true
	}
	return false
}

func columnsOf(stmt *duckdb.Stmt) ([]Column, error) {
	n, err := stmt.ColumnCount()
	if err != nil {
		return nil, err
	}
	columns := make([]Column, n)
	for i := range columns {
		if columns[i].Name, err = stmt.ColumnName(i); err != nil {
			return nil, err
		}
		t, err := stmt.ColumnType(i)
		if err != nil {
			return nil, err
		}
		columns[i].Number = isNumber(t)
	}
	return columns, nil
}

func isNumber(t duckdb.Type) bool {
	switch t {
	case duckdb.TYPE_TINYINT, duckdb.TYPE_SMALLINT, duckdb.TYPE_INTEGER, duckdb.TYPE_BIGINT, duckdb.TYPE_HUGEINT,
		duckdb.TYPE_UTINYINT, duckdb.TYPE_USMALLINT, duckdb.TYPE_UINTEGER, duckdb.TYPE_UBIGINT, duckdb.TYPE_UHUGEINT,
		duckdb.TYPE_FLOAT, duckdb.TYPE_DOUBLE, duckdb.TYPE_DECIMAL, duckdb.TYPE_BIGNUM:
		return true
	}
	return false
}

// printed wraps a query of n columns into one that gives their texts. The
// columns get names of their own, since a query may give one name twice.
func printed(query string, n int, asJSON bool) string {
	names, texts := make([]string, n), make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("c%d", i)
		texts[i] = names[i] + "::VARCHAR"
		if asJSON {
			texts[i] = "to_json(" + names[i] + ")::VARCHAR"
		}
	}
	// The line break ends a comment that the query may end with.
	return "SELECT " + strings.Join(texts, ", ") + " FROM (" + query + "\n) AS printed(" + strings.Join(names, ", ") + ")"
}

// expand runs a statement that DuckDB makes several of: PIVOT.
func expand(ctx context.Context, conn *duckdb.Conn, text string) (*Result, error) {
	rows, err := conn.QueryContext(ctx, text, nil)
	if err != nil {
		return nil, err
	}
	result := &Result{Query: true, rows: rows, row: make([]driver.Value, len(rows.Columns()))}
	for _, name := range rows.Columns() {
		result.Columns = append(result.Columns, Column{Name: name})
	}
	return result, nil
}

// Next fills cells, one a column, with the next row. After the last it returns
// io.EOF.
func (r *Result) Next(cells []Cell) error {
	if err := r.rows.Next(r.row); err != nil {
		return err
	}
	for i, v := range r.row {
		cells[i] = Cell{Valid: v != nil}
		switch v := v.(type) {
		case nil:
		case string:
			cells[i].Text = v
		default:
			cells[i].Text = fmt.Sprint(v)
		}
	}
	return nil
}

// Close releases the rows.
func (r *Result) Close() error {
	err := r.rows.Close()
	if r.stmt != nil {
		err = errors.Join(err, r.stmt.Close())
	}
	return err
}

// Missing says whether an error means that a table, view or schema does not exist.
func Missing(err error) bool {
	var de *duckdb.Error
	return errors.As(err, &de) && de.Type == duckdb.ErrorTypeCatalog
}

// Close ends the session.
func (c *Console) Close() error { return c.conn.Close() }
