package duck

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"
)

// handle gives DuckDB's own handle of a connection. duckdb-go has it in a field
// that it does not export, and no other way to register a table function that
// fills vectors, or to read a result by vectors.
func handle(conn any) (mapping.Connection, error) {
	c, ok := conn.(*duckdb.Conn)
	if !ok {
		return mapping.Connection{}, fmt.Errorf("a connection of type %T, not duckdb-go's", conn)
	}
	field := reflect.ValueOf(c).Elem().FieldByName("conn")
	if field.Kind() != reflect.Struct || field.Type() != reflect.TypeFor[mapping.Connection]() {
		return mapping.Connection{}, errors.New("this version of duckdb-go keeps its connection's handle elsewhere")
	}
	return mapping.Connection{Ptr: field.FieldByName("Ptr").UnsafePointer()}, nil
}

// Chunks runs one query and calls yield with its rows, some thousands at a time.
// A chunk is valid until yield returns, whose error ends the reading.
func (s *Session) Chunks(ctx context.Context, query string, yield func(Chunk) error) error {
	if err := ctx.Err(); err != nil {
		return wrap(query, err)
	}
	return s.conn.Raw(func(conn any) error {
		h, err := handle(conn)
		if err != nil {
			return err
		}
		var result mapping.Result
		if err := interruptible(ctx, h, func() error { return complete(h, query, &result) }); err != nil {
			return wrap(query, err)
		}
		defer mapping.DestroyResult(&result)
		for {
			chunk := mapping.FetchChunk(result)
			if chunk.Ptr == nil {
				return nil
			}
			err := yield(newChunk(chunk))
			mapping.DestroyDataChunk(&chunk)
			if err != nil {
				return err
			}
		}
	})
}

// complete runs a query to its end.
func complete(conn mapping.Connection, query string, result *mapping.Result) error {
	if mapping.Query(conn, query, result) != mapping.StateError {
		return nil
	}
	err := &duckdb.Error{Msg: mapping.ResultError(result), Type: duckdb.ErrorType(mapping.ResultErrorType(result))}
	mapping.DestroyResult(result)
	return err
}

// interruptible does something with a connection, and interrupts it when ctx ends.
func interruptible(ctx context.Context, conn mapping.Connection, do func() error) error {
	done := make(chan struct{})
	stopped := make(chan struct{})
	if ctx.Done() == nil {
		return do()
	}
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
			mapping.Interrupt(conn)
		case <-done:
		}
	}()
	err := do()
	close(done)
	<-stopped // an interrupt must not reach the next statement
	if err != nil && ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	return err
}
