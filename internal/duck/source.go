package duck

import (
	"context"
	"fmt"
	"sync"

	"smelt"
	"smelt/internal/columns"
)

// Source is rows that Go gives to DuckDB. A query requests only the columns that it needs. DuckDB evaluates
// conditions.
type Source interface {
	// Columns are the source's columns.
	Columns() []smelt.Column

	// Rows is how many rows there are, or a negative number when that is not known.
	Rows() int64

	// Scan begins to read the rows. A query may do so several times.
	Scan() Scan
}

// Scan reads a source once, in as many parts as may be read side by
// side. It is used by several threads of DuckDB's.
type Scan interface {
	// Parts is how many parts there are at most. The rows of one part come in order.
	Parts() int

	// Part begins the next part.
	Part() Part
}

// Part gives some of a source's rows. It is used by one thread.
type Part interface {
	// Next gives the next rows as their numbers in a batch, VectorRows at most;
	// none at the end. The batch's texts must stay until the query ends, or, when
	// passing is true, until the next call.
	Next() (b *columns.Batch, rows []int32, passing bool, err error)

	// Close is called once when nothing more is read.
	Close()
}

// VectorRows is how many rows DuckDB takes at a time.
const VectorRows = 2048

// sources are what queries may read, by their numbers.
type sources struct {
	mu   sync.Mutex
	last int64
	all  map[int64]Source
}

func (s *sources) add(source Source) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.all[s.last] = source
	return s.last
}

func (s *sources) remove(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, n)
}

func (s *sources) get(n int64) (Source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	source, ok := s.all[n]
	if !ok {
		return nil, fmt.Errorf("%s(%d): no such source", sourceFunction, n)
	}
	return source, nil
}

// sourceFunction is the table function that reads a source by its number.
const sourceFunction = "smelt_rows"

// Provide lets the session's queries read a source, until it is closed: it
// returns the relation that does so.
func (s *Session) Provide(source Source) (relation string) {
	n := s.db.sources.add(source)
	s.provided = append(s.provided, n)
	return fmt.Sprintf("%s(%d)", sourceFunction, n)
}

// View makes a view that shows a source.
func (s *Session) View(ctx context.Context, name string, source Source) error {
	return s.Exec(ctx, "CREATE OR REPLACE VIEW "+name+" AS FROM "+s.Provide(source))
}

// BatchRows is a source of rows of a batch: those that Only names, in that order. Both
// may change between two queries.
type BatchRows struct {
	Batch *columns.Batch
	Only  []int32
	given []smelt.Column
}

// NewBatchRows makes a source of a batch's columns, without rows at first.
func NewBatchRows(b *columns.Batch) *BatchRows {
	r := &BatchRows{Batch: b}
	for _, c := range b.Columns {
		r.given = append(r.given, smelt.Column{Name: c.Name, Type: c.Type})
	}
	return r
}

// Columns are the batch's.
func (r *BatchRows) Columns() []smelt.Column { return r.given }

// Rows is how many rows Only names.
func (r *BatchRows) Rows() int64 { return int64(len(r.Only)) }

// Scan reads the rows in their order, on one thread.
func (r *BatchRows) Scan() Scan { return &batchScan{r.Batch, r.Only} }

type batchScan struct {
	batch *columns.Batch
	left  []int32
}

func (s *batchScan) Parts() int { return 1 }
func (s *batchScan) Part() Part { return s }
func (s *batchScan) Close()     {}

func (s *batchScan) Next() (*columns.Batch, []int32, bool, error) {
	n := min(len(s.left), VectorRows)
	rows := s.left[:n]
	s.left = s.left[n:]
	return s.batch, rows, false, nil
}
