package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	"smelt"
	"smelt/bronze"
	"smelt/internal/columns"
	"smelt/internal/duck"
	"smelt/silver"
)

// bronzeSource gives all of a pipeline's records to queries. A declared column is NULL if the record lacks it, or has it with
// another type.
type bronzeSource struct {
	events smelt.Events
	store  smelt.Store

	mu    sync.Mutex
	files []held
}

// set has the queries to come read these files.
func (b *bronzeSource) set(files []held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = slices.Clone(files)
}

// Columns are the declared ones and those that every record has.
func (b *bronzeSource) Columns() []smelt.Column { return silver.RecordColumns(b.events.Columns) }

// Rows is not known before the files are read.
func (b *bronzeSource) Rows() int64 { return -1 }

// Scan reads the files, several side by side.
func (b *bronzeSource) Scan() duck.Scan {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &bronzeScan{source: b, left: b.files}
}

// bronzeScan is one reading of the files.
type bronzeScan struct {
	source *bronzeSource
	mu     sync.Mutex
	left   []held
}

func (s *bronzeScan) Parts() int { return max(1, min(runtime.NumCPU(), len(s.left))) }

func (s *bronzeScan) Part() duck.Part {
	ctx, stop := context.WithCancel(context.Background()) // a query's end closes its parts
	return &bronzePart{scan: s, ctx: ctx, stop: stop, records: silver.NewRecords(s.source.events)}
}

// next returns the next unread file.
func (s *bronzeScan) next() (file held, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.left) == 0 {
		return held{}, false
	}
	file, s.left = s.left[0], s.left[1:]
	return file, true
}

// bronzePart reads one file after the other.
type bronzePart struct {
	scan    *bronzeScan
	ctx     context.Context // of the requests that its thread makes; DuckDB passes none on
	stop    context.CancelFunc
	records *silver.Records
	rows    []int32
	file    held
	lines   *bronze.Lines
}

// passBytes of events are given to DuckDB at once, or a little more.
const passBytes = 4 << 20

// Next reads some records.
func (p *bronzePart) Next() (*columns.Batch, []int32, bool, error) {
	p.records.Reset()
	p.rows = p.rows[:0]
	for len(p.rows) < duck.VectorRows && p.records.Batch.Size() < passBytes {
		if p.lines == nil {
			more, err := p.open()
			if err != nil {
				return nil, nil, false, err
			}
			if !more {
				break
			}
		}
		line, err := p.lines.Next()
		if err == io.EOF {
			err = p.lines.Close()
			p.lines = nil
		} else if err == nil {
			p.rows = append(p.rows, int32(len(p.rows)))
			err = p.records.Add(line)
		}
		if err != nil {
			return nil, nil, false, fmt.Errorf("read %s: %w", p.file.parts[0].Key, err)
		}
	}
	return p.records.Batch, p.rows, true, nil
}

// open starts the next file. more is false if there is none.
func (p *bronzePart) open() (more bool, err error) {
	if p.file, more = p.scan.next(); !more {
		return false, nil
	}
	name, body := p.file.path, io.ReadCloser(nil)
	if name == "" {
		name = p.file.parts[0].Key
		body, _, err = p.scan.source.store.Get(p.ctx, name)
	} else {
		body, err = os.Open(name)
	}
	if err != nil {
		return false, err
	}
	p.lines, err = bronze.NewLines(body, bronze.CodecOf(name))
	return err == nil, err
}

// Close ends the reading.
func (p *bronzePart) Close() {
	p.stop()
	if p.lines != nil {
		_ = p.lines.Close() // nothing was written
	}
	p.records.Free()
}
