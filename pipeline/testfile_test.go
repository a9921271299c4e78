package pipeline_test

import (
	"bytes"
	"reflect"
	"testing"

	"smelt"
	"smelt/pipeline"
)

const someTest = `Prose.
-- events.ndjson --
# A comment, and an empty line.

{"a": 1}
{"a":
{"_value": {"b":  2}, "_timestamp": 1789221600000, "_key": "k", "_partition": 3}
{"_value": "\"text\"", "_timestamp": "2026-11-29T12:00:00.5+02:00"}
{"_value_base64": "/w==", "_headers": {"h": "1", "g": ""}}
{"_value": ""}
{"_value": null}
{"_tombstone": true, "_key": ""}
-- reference/shops.csv --
id,name
1,"Ann's ""\\"", Inc"
2,
-- gold/daily.csv --
day
-- silver.csv --
a,b
1,x\ny
`

func TestReadTest(t *testing.T) {
	t.Parallel()
	test, err := pipeline.ReadTest([]byte(someTest))
	if err != nil {
		t.Fatal(err)
	}
	none := smelt.NoTimestamp
	want := []smelt.Record{
		{Offset: 0, Timestamp: none, Value: []byte(`{"a": 1}`)},
		{Offset: 1, Timestamp: none, Value: []byte(`{"a":`)},
		{Partition: 3, Timestamp: 1789221600000, Key: []byte("k"), Value: []byte(`{"b":  2}`)},
		{Offset: 2, Timestamp: 1795946400500, Value: []byte(`"text"`)},
		{Offset: 3, Timestamp: none, Value: []byte{0xff}, Headers: []smelt.Header{{Name: "h", Value: []byte("1")}, {Name: "g", Value: []byte{}}}},
		{Offset: 4, Timestamp: none, Value: []byte{}},
		{Offset: 5, Timestamp: none, Value: []byte("null")},
		{Offset: 6, Timestamp: none, Key: []byte{}},
	}
	if len(test.Records) != len(want) {
		t.Fatalf("got %d records, want %d", len(test.Records), len(want))
	}
	for i, got := range test.Records {
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("record %d:\n got %+v\nwant %+v", i, got, want[i])
		}
	}
	if got, want := test.References[0].Rows, [][]string{{"1", `Ann's "\", Inc`}, {"2", ""}}; !reflect.DeepEqual(got, want) {
		t.Errorf("reference: got %q, want %q", got, want)
	}
	if got, want := test.Silver.Rows, [][]string{{"1", "x\ny"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("silver: got %q, want %q", got, want)
	}
	if test.Quarantine != nil {
		t.Errorf("quarantine: got %+v, want none", test.Quarantine)
	}
	if got := string(test.Format()); got != someTest {
		t.Errorf("Format: got\n%s", got)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	test, err := pipeline.ReadTest([]byte("-- events.ndjson --\n1\n-- gold/b.csv --\na\n-- silver.csv --\nx,y\n1,2\n"))
	if err != nil {
		t.Fatal(err)
	}
	test.Silver = nil
	test.Gold[0].Rows = [][]string{{""}, {"-- b --"}, {" "}, {"a\r\nb"}, {`\n`}}
	test.Quarantine = &pipeline.TestTable{Name: "quarantine", Columns: []string{"-- a", "b --"}}
	want := "-- events.ndjson --\n1\n-- gold/b.csv --\na\n\"\"\n\"-- b --\"\n\" \"\na\\r\\nb\n\\\\n\n" +
		"-- quarantine.csv --\n\"-- a\",b --\n"
	if got := string(test.Format()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, err := pipeline.ReadTest([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Gold[0].Rows, test.Gold[0].Rows) || !reflect.DeepEqual(again.Quarantine.Columns, test.Quarantine.Columns) {
		t.Errorf("read back: got %q, %q", again.Gold[0].Rows, again.Quarantine.Columns)
	}
}

func TestReadTestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", []string{`test.txtar: the file "events.ndjson" is missing`}},
		{"a file twice", "-- events.ndjson --\n-- events.ndjson --\n", []string{`test.txtar:2: the file "events.ndjson" is given twice`}},
		{"unknown file", "prose\n-- events.ndjson --\n-- sliver.csv --\n", []string{`test.txtar:3: unknown file "sliver.csv": did you mean "silver.csv"?`}},
		{"a folder too many", "-- events.ndjson --\n-- gold/a/b.csv --\na\n", []string{
			`test.txtar:2: the name "a/b": begin with a lower-case letter, then lower-case letters, digits and _`}},
		{"lines", "-- events.ndjson --\n{\"_valu\": 1}\n{\"_value\": 1\n{\"_key\": \"k\"}\n{\"_value\": 1, \"_value\": 2}\n" +
			"{\"_value\": 1, \"_tombstone\": true}\n{\"_tombstone\": false}\n{\"_value\": 1, \"_timestamp\": \"noon\"}\n" +
			"{\"_value\": 1, \"_partition\": -1}\n{\"_value\": 1, \"_key\": 2}\n",
			[]string{
				`test.txtar:2: unknown key "_valu": did you mean "_value"?`,
				`test.txtar:3: not JSON`,
				`test.txtar:4: needs one of _value, _value_base64 and _tombstone`,
				`test.txtar:5: key "_value" is given twice`,
				`test.txtar:6: needs one of _value, _value_base64 and _tombstone`,
				`test.txtar:7: _tombstone: must be true, or left out`,
				`test.txtar:8: _timestamp: "noon" is not a time such as 2026-11-29T12:00:00.123Z`,
				`test.txtar:9: _partition: from 0 to 1023`,
				`test.txtar:10: _key: must be a string`,
			}},
		{"no header", "-- events.ndjson --\n-- silver.csv --\n", []string{`test.txtar:2: "silver.csv" lacks its header`}},
		{"a row too short", "-- events.ndjson --\n-- silver.csv --\na,b\n1\n", []string{`test.txtar:4:1: wrong number of fields`}},
		{"a column twice", "-- events.ndjson --\n-- silver.csv --\na,a\n", []string{`test.txtar:3: the header has "a" twice, or a column with no name`}},
		{"a line break", "-- events.ndjson --\n-- silver.csv --\na\n\"1\n2\"\n", []string{`test.txtar:2: "silver.csv" has empty lines, or line breaks in a cell: write \n`}},
		{"a backslash", "-- events.ndjson --\n-- silver.csv --\na\n\\d\n", []string{`test.txtar:4: column 1 has an odd backslash: write \\, \n or \r`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := pipeline.ReadTest([]byte(tt.text))
			wantFaults(t, err, "", tt.want)
		})
	}
}

// FuzzTest wants no panic, and what was read to read the same once it was written.
func FuzzTest(f *testing.F) {
	f.Add([]byte(someTest))
	f.Add([]byte("-- events.ndjson --\r\n{\"_value\":\r\n-- silver.csv --\r\n\"-- x --\"\r\n"))
	f.Add([]byte("-- events.ndjson --\n-- gold/a.csv --\na\n\" \\n\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		test, err := pipeline.ReadTest(data)
		if err != nil {
			checkFaults(t, err, string(data))
			return
		}
		text := test.Format()
		again, err := pipeline.ReadTest(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if !bytes.Equal(again.Format(), text) {
			t.Errorf("written twice:\n%q\n%q", text, again.Format())
		}
		if !reflect.DeepEqual(again.Records, test.Records) {
			t.Errorf("records: got %+v, want %+v", again.Records, test.Records)
		}
		for i := range test.Gold {
			if !reflect.DeepEqual(again.Gold[i].Rows, test.Gold[i].Rows) {
				t.Errorf("gold: got %q, want %q", again.Gold[i].Rows, test.Gold[i].Rows)
			}
		}
	})
}
