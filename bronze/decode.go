package bronze

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"smelt"
)

// Line is a record read back from its line.
type Line struct {
	Record smelt.Record // its Value is nil when the line has none
	Kind   Kind
	Size   int64  // of an oversize record: the bytes of its value
	SHA256 string // of an oversize record: its value's digest, in hexadecimal
}

// valueMember begins the event in a line that embeds it.
const valueMember = `,"value":`

// RawValue returns the embedded event of a line, and false when it embeds none.
func RawValue(line []byte) ([]byte, bool) {
	i := bytes.Index(line, []byte(valueMember))
	if i < 0 {
		return nil, false
	}
	value, ok := bytes.CutSuffix(bytes.TrimSuffix(line[i+len(valueMember):], []byte("\n")), []byte("}"))
	return value, ok
}

// Decode reads a line, with or without its line feed. The record equals the one that [AppendLine] was given,
// with three exceptions. Line breaks in an embedded value are spaces. Headers of one name are adjacent. A
// record over the bound is not complete.
func Decode(line []byte) (Line, error) {
	head := line
	value, embedded := RawValue(line)
	if embedded {
		if ok, _ := embeddable(value); !ok {
			return Line{}, errors.New("decode line: the value is not JSON that can be embedded")
		}
		end := bytes.Index(line, []byte(valueMember))
		head = append(bytes.Clone(line[:end]), '}')
	}
	var m members
	if err := unmarshal(head, &m); err != nil {
		return Line{}, fmt.Errorf("decode line: %w", err)
	}
	out, err := m.line(value)
	if err != nil {
		return Line{}, fmt.Errorf("decode line of partition %d offset %d: %w", m.Partition, m.Offset, err)
	}
	return out, nil
}

// members are those of a line, apart from the embedded value.
type members struct {
	Partition     int32           `json:"partition"`
	Offset        int64           `json:"offset"`
	Timestamp     *int64          `json:"timestamp"`
	Key           *string         `json:"key"`
	KeyBase64     []byte          `json:"key_base64"`
	Headers       json.RawMessage `json:"headers"`
	HeadersBase64 [][2][]byte     `json:"headers_base64"`
	Raw           *string         `json:"raw"`
	RawBase64     []byte          `json:"raw_base64"`
	Tombstone     bool            `json:"tombstone"`
	Oversize      *struct {
		Size   int64  `json:"size"`
		SHA256 string `json:"sha256"`
	} `json:"oversize"`
}

func (m *members) line(value []byte) (Line, error) {
	out := Line{Record: smelt.Record{
		Partition: m.Partition, Offset: m.Offset, Timestamp: smelt.NoTimestamp, Key: m.KeyBase64,
	}}
	if m.Timestamp != nil {
		out.Record.Timestamp = *m.Timestamp
	}
	if m.Key != nil {
		out.Record.Key = []byte(*m.Key)
	}
	var err error
	if out.Record.Headers, err = m.headers(); err != nil {
		return Line{}, err
	}
	holders := 0
	hold := func(kind Kind, value []byte) {
		out.Kind, out.Record.Value = kind, value
		holders++
	}
	if value != nil {
		hold(KindValue, value)
	}
	if m.Raw != nil {
		hold(KindRaw, []byte(*m.Raw))
	}
	if m.RawBase64 != nil {
		hold(KindBase64, m.RawBase64)
	}
	if m.Tombstone {
		hold(KindTombstone, nil)
	}
	if m.Oversize != nil {
		hold(KindOversize, nil)
		out.Size, out.SHA256 = m.Oversize.Size, m.Oversize.SHA256
	}
	if holders != 1 {
		return Line{}, fmt.Errorf("%d members hold the value, not one", holders)
	}
	return out, nil
}

func (m *members) headers() ([]smelt.Header, error) {
	var headers []smelt.Header
	for _, pair := range m.HeadersBase64 {
		headers = append(headers, smelt.Header{Name: string(pair[0]), Value: pair[1]})
	}
	if m.Headers == nil {
		return headers, nil
	}
	dec := json.NewDecoder(bytes.NewReader(m.Headers))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("headers are not an object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("headers: %w", err)
		}
		var values json.RawMessage
		if err := dec.Decode(&values); err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
		if headers, err = addHeader(headers, name.(string), values); err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
	}
	return headers, nil
}

func addHeader(headers []smelt.Header, name string, values json.RawMessage) ([]smelt.Header, error) {
	list := []json.RawMessage{values}
	if values[0] == '[' {
		if err := unmarshal(values, &list); err != nil {
			return nil, err
		}
	}
	for _, v := range list {
		value, err := headerValue(v)
		if err != nil {
			return nil, err
		}
		headers = append(headers, smelt.Header{Name: name, Value: value})
	}
	return headers, nil
}

func headerValue(v json.RawMessage) ([]byte, error) {
	if v[0] == '{' {
		var b struct {
			Base64 []byte `json:"base64"`
		}
		err := unmarshal(v, &b)
		return b.Base64, err
	}
	var s *string
	if err := unmarshal(v, &s); err != nil || s == nil {
		return nil, err
	}
	return []byte(*s), nil
}

// unmarshal reads one JSON value and refuses members that it does not know.
func unmarshal(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}
