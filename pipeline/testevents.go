package pipeline

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"smelt"
)

const maxTestPartition = 1023 // far more than a test that a person reads needs

// events reads events.ndjson, whose mark stands on the line.
func (r *testReader) events(data []byte, line int) {
	next := map[int32]int64{}
	for text := range bytes.Lines(data) {
		line++
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
		if len(bytes.TrimSpace(text)) == 0 || text[0] == '#' {
			continue
		}
		record := smelt.Record{Timestamp: smelt.NoTimestamp, Value: text}
		if bytes.HasPrefix(text, []byte(`{"_`)) {
			record.Value = nil
			if err := wrapped(text, &record); err != nil {
				r.fault(line, 0, "%v", err)
				continue
			}
		}
		record.Offset = next[record.Partition]
		next[record.Partition]++
		r.test.Records = append(r.test.Records, record)
	}
}

// wrapped reads a line that tells more of a record than its value.
func wrapped(line []byte, record *smelt.Record) error {
	members, err := objectMembers(line)
	if err != nil {
		return err
	}
	values := 0
	for _, m := range members {
		switch m.name {
		case "_value", "_value_base64", "_tombstone":
			values++
			err = setValue(record, m)
		case "_timestamp":
			record.Timestamp, err = testTimestamp(m.value)
		case "_key":
			var key string
			err = jsonString(m.value, &key)
			record.Key = []byte(key)
		case "_partition":
			err = json.Unmarshal(m.value, &record.Partition)
			if err == nil && (record.Partition < 0 || record.Partition > maxTestPartition) {
				err = fmt.Errorf("from 0 to %d", maxTestPartition)
			}
		case "_headers":
			record.Headers, err = testHeaders(m.value)
		default:
			return fmt.Errorf("unknown key %q%s", m.name, smelt.DidYouMean(m.name,
				"_value", "_value_base64", "_tombstone", "_timestamp", "_key", "_partition", "_headers"))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if values != 1 {
		return errors.New("needs one of _value, _value_base64 and _tombstone")
	}
	return nil
}

func setValue(record *smelt.Record, m member) error {
	var text string
	switch {
	case m.name == "_tombstone":
		if string(m.value) != "true" {
			return errors.New("must be true, or left out")
		}
		return nil
	case m.name == "_value" && m.value[0] != '"':
		record.Value = m.value
		return nil
	}
	if err := jsonString(m.value, &text); err != nil {
		return err
	}
	if m.name == "_value" {
		record.Value = []byte(text)
		return nil
	}
	value, err := base64.StdEncoding.DecodeString(text)
	record.Value = value
	return err
}

func testTimestamp(value json.RawMessage) (int64, error) {
	if value[0] != '"' {
		var ms int64
		if err := json.Unmarshal(value, &ms); err != nil || ms < 0 || string(value) == "null" {
			return 0, errors.New("must be milliseconds since 1970, or ISO 8601")
		}
		return ms, nil
	}
	var text string
	if err := jsonString(value, &text); err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.UnixMilli() < 0 {
		return 0, fmt.Errorf("%q is not a time such as 2026-11-29T12:00:00.123Z", text)
	}
	return t.UnixMilli(), nil
}

func testHeaders(value json.RawMessage) ([]smelt.Header, error) {
	members, err := objectMembers(value)
	if err != nil {
		return nil, err
	}
	headers := make([]smelt.Header, len(members))
	for i, m := range members {
		var text string
		if err := jsonString(m.value, &text); err != nil {
			return nil, fmt.Errorf("%q: %w", m.name, err)
		}
		headers[i] = smelt.Header{Name: m.name, Value: []byte(text)}
	}
	return headers, nil
}

// member is one member of a JSON object, its value as written.
type member struct {
	name  string
	value json.RawMessage
}

// objectMembers reads the members of a JSON object in their order. encoding/json
// would ignore their case, and take the last of two that share a name.
func objectMembers(text []byte) ([]member, error) {
	if !json.Valid(text) {
		return nil, errors.New("not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("must be an object")
	}
	var members []member
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: key.(string)}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		if seen[m.name] {
			return nil, fmt.Errorf("key %q is given twice", m.name)
		}
		seen[m.name] = true
		members = append(members, m)
	}
	return members, nil
}

func jsonString(value json.RawMessage, s *string) error {
	if value[0] != '"' {
		return errors.New("must be a string")
	}
	return json.Unmarshal(value, s)
}
