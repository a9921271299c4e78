package bronze

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"smelt"
)

// TestCut cuts lines of every kind, and finds in each what was written.
func TestCut(t *testing.T) {
	t.Parallel()
	headers := []smelt.Header{{Name: "value", Value: []byte("x")}, {Name: "n"}, {Name: "b", Value: []byte{0xff}}, {Name: "n", Value: []byte(`"}`)}}
	for name, r := range map[string]smelt.Record{
		"an event":            {Partition: 3, Offset: 17, Timestamp: 1789221600000, Key: []byte("k"), Headers: headers, Value: []byte(` {"a":[1,"}"]} `)},
		"no timestamp":        {Offset: 1 << 62, Timestamp: smelt.NoTimestamp, Value: []byte("1")},
		"before 1970":         {Timestamp: -5, Value: []byte("null")},
		"no JSON":             {Key: []byte(`a"\` + "\x00\n"), Value: []byte("{")},
		"no text":             {Key: []byte{0xff, 0xfe}, Value: []byte{0xff}},
		"a name that is none": {Headers: []smelt.Header{{Name: "\xff", Value: []byte("x")}}, Value: []byte("{}")},
		"a tombstone":         {Key: []byte("k"), Headers: headers},
		"too large":           {Key: []byte("k"), Value: make([]byte, 2000)},
	} {
		line := AppendLine(nil, &r, 1000)
		m, err := Cut(line)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if m.Partition != r.Partition || m.Offset != r.Offset || m.Timestamp != r.Timestamp || m.Kind != want.Kind {
			t.Errorf("%s: %+v, want %+v", name, m, want)
		}
		if got := text(t, m.Key, m.KeyBase64); got != string(want.Record.Key) {
			t.Errorf("%s: key %q, want %q", name, got, want.Record.Key)
		}
		switch m.Kind {
		case KindValue:
			if string(m.Value) != string(want.Record.Value) {
				t.Errorf("%s: value %q, want %q", name, m.Value, want.Record.Value)
			}
		case KindRaw, KindBase64:
			if got := text(t, m.Value, m.Kind == KindBase64); got != string(want.Record.Value) {
				t.Errorf("%s: value %q, want %q", name, got, want.Record.Value)
			}
		case KindOversize:
			if !json.Valid(m.Value) {
				t.Errorf("%s: %q is no JSON", name, m.Value)
			}
		}
		if m.Headers != nil && !json.Valid(m.Headers) {
			t.Errorf("%s: headers %q are no JSON", name, m.Headers)
		}
		for i := range len(line) - 1 { // the last byte is the line feed
			if cut, err := Cut(line[:i]); err == nil && m.Kind != KindValue {
				t.Errorf("%s: its first %d bytes are taken for a line: %+v", name, i, cut)
			}
		}
	}
}

func text(t *testing.T, quoted []byte, in64 bool) string {
	t.Helper()
	if quoted == nil {
		return ""
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		t.Fatal(err)
	}
	if !in64 {
		return s
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCutRefuses refuses what AppendLine does not write.
func TestCutRefuses(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "{}", "[]", `{"offset":1,"partition":0,"value":1}`, `{"partition":0,"offset":1}`, `{"partition":0,"offset":,"value":1}`,
		`{"partition":0,"offset":99999999999999999999,"value":1}`, `{"partition":0,"offset":9999999999999999999,"value":1}`, `{"partition":0,"offset":1,"value":1`, `{"partition":0,"offset":1,"key":1,"value":1}`,
		`{"partition":0,"offset":1,"headers":{,"value":1}`, `{"partition":0,"offset":1,"other":1,"value":1}`,
	} {
		if m, err := Cut([]byte(line)); err == nil {
			t.Errorf("%s is taken for a line: %+v", line, m)
		}
	}
}

func BenchmarkCut(b *testing.B) {
	r := smelt.Record{Partition: 3, Offset: 17, Timestamp: 1789221600000, Key: []byte("vehicle-7"),
		Value: []byte(`{"tenantId":"fleet-a","deviceId":"vehicle-7","eventId":"01J8M2Y0Q9S8V7T6R5P4N3K2H1","recordedAt":"2026-09-12T14:30:00Z"}`)}
	line := AppendLine(nil, &r, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Cut(line); err != nil {
			b.Fatal(err)
		}
	}
}
