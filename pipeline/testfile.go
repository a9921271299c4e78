package pipeline

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"smelt"
)

const (
	eventsFile      = "events.ndjson"
	silverTable     = "silver.csv"
	quarantineTable = "quarantine.csv"
)

// Test is a test.txtar: given records and reference rows, and the expected rows of silver, quarantine and gold. The text before the
// first file is prose. The files are
//
//	events.ndjson          the records, one per line: see below
//	reference/<name>.csv   the rows of a reference
//	silver.csv             expected, sorted by _partition_id and _partition_offset
//	quarantine.csv         expected, in the same order
//	gold/<model>.csv       expected, sorted by all columns
//
// A line of events.ndjson is the value of a record, unchanged, valid or not. Empty lines and lines that start with # are comments. A
// line that starts with {"_ has more of the record than its value:
//
//	{"_value": {…}, "_timestamp": "2026-11-29T12:00:00Z", "_key": "hel-001", "_partition": 1}
//
// _value is an event, or a string with the value's text. _value_base64 holds any bytes. "_tombstone": true means no value. _timestamp
// is the broker's, ISO 8601 or milliseconds since 1970. _headers is an object of strings. The defaults are partition 0, no timestamp
// and no key. Offsets count from 0 in each partition.
//
// A CSV file is a header and one line per row. An empty cell is NULL. \n and \r are line breaks in a cell, and \\ is a backslash. Of an
// expected table only the columns in the header are compared, as DuckDB casts them to VARCHAR in UTC. A missing file is not compared.
// A header without rows expects no rows.
type Test struct {
	Records    []smelt.Record
	References []TestTable
	Silver     *TestTable // nil when the file is not there
	Quarantine *TestTable
	Gold       []TestTable

	archive *txtar.Archive
}

// TestTable is a table in a test.
type TestTable struct {
	Name    string // of the reference or the model; silver, quarantine
	Columns []string
	Rows    [][]string // as wide as Columns; "" is NULL

	line int // of its file's mark in the archive
}

// ReadTest reads a test.txtar. Its error is marked [smelt.ErrPipeline] and holds every
// fault, as [smelt.Faults], with "test.txtar" for the file.
func ReadTest(data []byte) (*Test, error) {
	r := testReader{test: &Test{archive: txtar.Parse(data)}}
	line := 1 + bytes.Count(r.test.archive.Comment, []byte("\n"))
	seen := map[string]bool{}
	for _, file := range r.test.archive.Files {
		if seen[file.Name] {
			r.fault(line, 0, "the file %q is given twice", file.Name)
		}
		seen[file.Name] = true
		r.file(file, line)
		line += 1 + bytes.Count(file.Data, []byte("\n"))
	}
	if !seen[eventsFile] {
		r.fault(0, 0, "the file %q is missing", eventsFile)
	}
	if err := r.faults.Err(); err != nil {
		return nil, err
	}
	return r.test, nil
}

type testReader struct {
	test   *Test
	faults smelt.Faults
}

func (r *testReader) fault(line, col int, format string, args ...any) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, smelt.Fault{File: testFile, Line: line, Col: col, Message: fmt.Sprintf(format, args...)})
	}
}

// file reads one file, whose mark stands on the line.
func (r *testReader) file(file txtar.File, line int) {
	t := r.test
	folder, name, nested := strings.Cut(strings.TrimSuffix(file.Name, ".csv"), "/")
	switch {
	case file.Name == eventsFile:
		r.events(file.Data, line)
	case file.Name == silverTable:
		t.Silver = r.table(folder, file, line)
	case file.Name == quarantineTable:
		t.Quarantine = r.table(folder, file, line)
	case nested && folder == "reference" && file.Name == referenceFile(name):
		r.named(name, line)
		t.References = append(t.References, *r.table(name, file, line))
	case nested && folder == "gold" && file.Name == goldFile(name):
		r.named(name, line)
		t.Gold = append(t.Gold, *r.table(name, file, line))
	default:
		r.fault(line, 0, "unknown file %q%s", file.Name,
			smelt.DidYouMean(file.Name, eventsFile, silverTable, quarantineTable, referenceFile("<name>"), goldFile("<model>")))
	}
}

func referenceFile(name string) string { return "reference/" + name + ".csv" }
func goldFile(name string) string      { return "gold/" + name + ".csv" }

func (r *testReader) named(name string, line int) {
	if fault := tableNameFault(name); fault != "" {
		r.fault(line, 0, "the name %q: %s", name, fault)
	}
}

// table reads a CSV file. It stops at the first fault.
func (r *testReader) table(name string, file txtar.File, line int) *TestTable {
	t := &TestTable{Name: name, line: line}
	reader := csv.NewReader(bytes.NewReader(file.Data))
	rows, err := reader.ReadAll()
	var parse *csv.ParseError
	switch {
	case errors.As(err, &parse):
		r.fault(line+parse.Line, parse.Column, "%v", parse.Err)
		return t
	case err != nil:
		r.fault(line, 0, "%v", err)
		return t
	case len(rows) == 0:
		r.fault(line, 0, "%q lacks its header", file.Name)
		return t
	case len(rows[0]) > maxKeys:
		r.fault(line+1, 0, "%d columns: %d are the most", len(rows[0]), maxKeys)
		return t
	case bytes.Count(file.Data, []byte("\n")) != len(rows):
		r.fault(line, 0, "%q has empty lines, or line breaks in a cell: write \\n", file.Name)
		return t
	}
	for i, row := range rows {
		for j, cell := range row {
			text, ok := unescapeCell(cell)
			if !ok {
				r.fault(line+1+i, 0, "column %d has an odd backslash: write \\\\, \\n or \\r", j+1)
			}
			row[j] = text
		}
	}
	t.Columns, t.Rows = rows[0], rows[1:]
	for i, c := range t.Columns {
		if c == "" || slices.Contains(t.Columns[:i], c) {
			r.fault(line+1, 0, "the header has %q twice, or a column with no name", c)
		}
	}
	return t
}

// Format writes the test as a test.txtar: prose, records and references as they were read, and the current expected tables. [ReadTest]
// reads it back.
func (t *Test) Format() []byte {
	now := map[string]*TestTable{silverTable: t.Silver, quarantineTable: t.Quarantine}
	order := []string{silverTable, quarantineTable}
	for i := range t.Gold {
		name := goldFile(t.Gold[i].Name)
		now[name] = &t.Gold[i]
		order = append(order, name)
	}
	out := &txtar.Archive{Comment: t.archive.Comment}
	for _, file := range t.archive.Files {
		if table := now[file.Name]; table != nil {
			file.Data = table.format()
		} else if _, dropped := now[file.Name]; dropped || strings.HasPrefix(file.Name, "gold/") {
			continue
		}
		delete(now, file.Name)
		out.Files = append(out.Files, file)
	}
	for _, name := range order {
		if table := now[name]; table != nil {
			out.Files = append(out.Files, txtar.File{Name: name, Data: table.format()})
		}
	}
	return txtar.Format(out)
}

func (t *TestTable) format() []byte {
	var b bytes.Buffer
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i, cell := range row {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(formatCell(cell, len(row) == 1))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

var (
	cellEscapes   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	cellUnescapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// formatCell quotes what CSV or txtar, whose marks begin with a dash, would
// take for its own, and the one cell of a line that would be empty.
func formatCell(cell string, alone bool) string {
	if cell == "" && alone || strings.ContainsAny(cell, `",`) ||
		strings.HasPrefix(cell, "-- ") || strings.TrimSpace(cell) != cell {
		cell = `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
	}
	return cellEscapes.Replace(cell)
}

func unescapeCell(cell string) (text string, ok bool) {
	plain := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(cell, `\\`, ""), `\n`, ""), `\r`, "")
	return cellUnescapes.Replace(cell), !strings.Contains(plain, `\`)
}
