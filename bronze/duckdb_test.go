package bronze_test

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	_ "github.com/duckdb/duckdb-go/v2"

	"smelt"
	"smelt/bronze"
)

// This is what DuckDB 1.5.5 does with lines, found with the tests below. It is the reason for the
// embedding rule:
//
//   - A lone surrogate, a NUL byte or bytes that are not UTF-8 fail the whole file.
//   - It reads any nesting, but its functions recurse: json_structure overflows the stack, and ends
//     the process, at a depth of 100,000.
//   - Numbers of any size stay readable as JSON, as text: 1e400, 400 digits.
//   - \u0000 is read in strings and in names, and stays in VARCHARs.
//   - Read as a STRUCT, a value that is not an object, or an object that repeats a name of the struct,
//     is an error. Other names may repeat.
//   - Names match exactly, after their escapes are resolved.

// lake is a DuckDB that reads lines from one file.
type lake struct {
	db   *sql.DB
	file string
}

func openLake(t testing.TB) *lake {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &lake{db, filepath.Join(t.TempDir(), "lines.ndjson")}
}

// from is the reader's clause with the given type for the value.
func (l *lake) from(valueType string) string {
	return fmt.Sprintf(`FROM read_json('%s', format = 'newline_delimited', maximum_object_size = %d, columns = {
		'partition': 'INTEGER', 'offset': 'BIGINT', 'timestamp': 'BIGINT', 'key': 'VARCHAR', 'key_base64': 'VARCHAR',
		'headers': 'JSON', 'headers_base64': 'JSON', 'value': '%s', 'raw': 'VARCHAR', 'raw_base64': 'VARCHAR',
		'tombstone': 'BOOLEAN', 'oversize': 'STRUCT(size BIGINT, sha256 VARCHAR)'})`, l.file, bronze.MaxLine(recordMax), valueType)
}

func (l *lake) write(records []smelt.Record) error {
	var lines []byte
	for i := range records {
		lines = bronze.AppendLine(lines, &records[i], recordMax)
	}
	return os.WriteFile(l.file, lines, 0o600)
}

// check says how DuckDB's reading of the records differs from the records.
func (l *lake) check(records []smelt.Record) error {
	if err := l.write(records); err != nil {
		return err
	}
	rows, err := l.db.Query(`SELECT partition, "offset", timestamp, key, key_base64, headers::VARCHAR, headers_base64::VARCHAR, value::VARCHAR, raw, raw_base64, tombstone ` + l.from("JSON"))
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var row row
		err := rows.Scan(&row.partition, &row.offset, &row.timestamp, &row.key, &row.keyBase64, &row.headers, &row.headersBase64, &row.value, &row.raw, &row.rawBase64, &row.tombstone)
		if err != nil {
			return err
		}
		if n < len(records) {
			if err := row.check(&records[n]); err != nil {
				return fmt.Errorf("record %+v: %w", records[n], err)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n != len(records) {
		return fmt.Errorf("%d rows of %d records", n, len(records))
	}
	return nil
}

// checkTyped says why the records cannot be read with a typed value.
func (l *lake) checkTyped(records []smelt.Record) error {
	var fit []smelt.Record
	for _, r := range records {
		if !mustEmbed(r.Value) || fitsStruct(r.Value) {
			fit = append(fit, r)
		}
	}
	if err := l.write(fit); err != nil {
		return err
	}
	var n int
	err := l.db.QueryRow(`SELECT count(value.a IS NULL) + count(value.b) - count(value.b) ` + l.from("STRUCT(a JSON, b JSON)")).Scan(&n)
	if err == nil && n != len(fit) {
		err = fmt.Errorf("%d rows of %d records", n, len(fit))
	}
	return err
}

// fitsStruct says whether value is null, or an object that has each of its names once.
func fitsStruct(value []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(value))
	tok, err := dec.Token()
	if err != nil || tok != json.Delim('{') {
		return err == nil && tok == nil
	}
	seen := make(map[any]bool)
	for dec.More() {
		name, err := dec.Token()
		if err != nil || seen[name] {
			return false
		}
		seen[name] = true
		var skip json.RawMessage
		if dec.Decode(&skip) != nil {
			return false
		}
	}
	return true
}

type row struct {
	partition, offset             int64
	timestamp                     sql.NullInt64
	key, keyBase64                sql.NullString
	headers, headersBase64, value sql.NullString
	raw, rawBase64                sql.NullString
	tombstone                     sql.NullBool
}

func (row *row) check(r *smelt.Record) error {
	if row.partition != int64(r.Partition) || row.offset != r.Offset || row.timestamp.Valid != (r.Timestamp != smelt.NoTimestamp) {
		return fmt.Errorf("partition %d, offset %d, timestamp %v", row.partition, row.offset, row.timestamp)
	}
	if got := text(row.key, row.keyBase64); !reflect.DeepEqual(got, r.Key) {
		return fmt.Errorf("key %q", got)
	}
	if names := headerNames(r.Headers); names != nil && !reflect.DeepEqual(namesOf(row.headers), names) {
		return fmt.Errorf("headers %v", row.headers)
	}
	if row.tombstone.Bool != (r.Value == nil) {
		return fmt.Errorf("tombstone %v", row.tombstone)
	}
	if !mustEmbed(r.Value) {
		if got := text(row.raw, row.rawBase64); !reflect.DeepEqual(got, r.Value) || row.value.Valid {
			return fmt.Errorf("raw %q, value %v", got, row.value)
		}
		return nil
	}
	if strings.TrimSpace(string(r.Value)) == "null" && !row.value.Valid {
		return nil
	}
	if !reflect.DeepEqual(loose([]byte(row.value.String)), loose(r.Value)) {
		return fmt.Errorf("value %q", row.value.String)
	}
	return nil
}

func text(plain, encoded sql.NullString) []byte {
	if plain.Valid {
		return []byte(plain.String)
	}
	if !encoded.Valid {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(encoded.String)
	if err != nil {
		panic(err)
	}
	return b
}

// headerNames is nil when the headers are not in the member "headers".
func headerNames(headers []smelt.Header) map[string]bool {
	var names map[string]bool
	for _, h := range headers {
		if !utf8.ValidString(h.Name) {
			return nil
		}
		if names == nil {
			names = make(map[string]bool)
		}
		names[h.Name] = true
	}
	return names
}

func namesOf(object sql.NullString) map[string]bool {
	var members map[string]any
	if json.Unmarshal([]byte(object.String), &members) != nil {
		return nil
	}
	names := make(map[string]bool)
	for name := range members {
		names[name] = true
	}
	return names
}

// loose reads JSON with its numbers as floating point, infinite when they must be.
func loose(b []byte) any {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	return floats(v)
}

func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, _ := strconv.ParseFloat(v.String(), 64)
		return f + 0 // -0 is 0
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}

func TestDuckDBReadsLines(t *testing.T) {
	t.Parallel()
	l := openLake(t)
	for _, value := range hostile() {
		one := []smelt.Record{record([]byte(value), []byte(value), []byte(value), []byte(value), 0x07)}
		if err := l.check(one); err != nil {
			t.Errorf("value %.60q: %.1000v", value, err)
		}
		if err := l.checkTyped(one); err != nil {
			t.Errorf("value %.60q typed: %.1000v", value, err)
		}
	}
	rng := seeded(t)
	for range 4 {
		batch := records(rng, 500)
		if err := l.check(batch); err != nil {
			t.Fatalf("%.1000v", err)
		}
		if err := l.checkTyped(batch); err != nil {
			t.Fatalf("typed: %.1000v", err)
		}
	}
}

// TestDuckDBStumbles holds the findings that the embedding rule rests on: a
// DuckDB that no longer does so is news.
func TestDuckDBStumbles(t *testing.T) {
	t.Parallel()
	l := openLake(t)
	tests := []struct {
		value     string
		typed, ok bool
	}{
		{`{"a":"\ud800"}`, false, false},
		{"{\"a\":\"\xff\"}", false, false},
		{"{\"a\":\"\x00\"}", false, false},
		{`{"a":1,"a":2}`, true, false},
		{`{"a":1,"a":2}`, false, true},
		{`{"c":1,"c":2}`, true, true},
		{`[]`, true, false},
		{`{"a":1e400}`, true, true},
		{strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000), false, true},
	}
	for _, tt := range tests {
		line := `{"partition":0,"offset":0,"value":` + tt.value + "}\n"
		if err := os.WriteFile(l.file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		valueType := "JSON"
		if tt.typed {
			valueType = "STRUCT(a JSON, b JSON)"
		}
		var n int
		err := l.db.QueryRow("SELECT count(value) " + l.from(valueType)).Scan(&n)
		if (err == nil) != tt.ok {
			t.Errorf("%.40q as %s: %v", tt.value, valueType, err)
		}
	}
}

func FuzzDuckDB(f *testing.F) {
	for i, value := range hostile() {
		f.Add([]byte("k"), []byte(value), []byte("h"), []byte("v"), uint8(i))
	}
	l := openLake(f)
	f.Fuzz(func(t *testing.T, key, value, name, header []byte, shape uint8) {
		one := []smelt.Record{record(key, value, name, header, shape)}
		if err := l.check(one); err != nil {
			t.Fatal(err)
		}
		if err := l.checkTyped(one); err != nil {
			t.Fatal(err)
		}
	})
}
