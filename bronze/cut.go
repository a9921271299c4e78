package bronze

import (
	"bytes"
	"errors"
	"fmt"

	"smelt"
)

// Members are the members of a line, as [AppendLine] has written it. The texts
// are parts of the line, as they stand there.
type Members struct {
	Partition int32
	Offset    int64
	Timestamp int64 // milliseconds since 1970, or smelt.NoTimestamp

	Key       []byte // a JSON string with its quotes; nil: none
	KeyBase64 bool   // the key is in base64
	Headers   []byte // a JSON object; nil: none that has one

	Kind  Kind
	Value []byte // the JSON of the member that Kind names: the event, or a string, or an oversize record's digest
}

// Cut reads the members of a line, with or without its line feed, in one pass and
// without a copy. It takes what AppendLine writes, and nothing else. Whether an
// embedded event is valid JSON it leaves to the event's decoder.
func Cut(line []byte) (Members, error) {
	m := Members{Timestamp: smelt.NoTimestamp}
	c := cutter{rest: bytes.TrimSuffix(line, []byte("\n"))}
	m.Partition = int32(c.number(`{"partition":`))
	m.Offset = c.number(`,"offset":`)
	if c.has(`,"timestamp":`) {
		m.Timestamp = c.number("")
	}
	switch {
	case c.has(`,"key":`):
		m.Key = c.text()
	case c.has(`,"key_base64":`):
		m.Key, m.KeyBase64 = c.text(), true
	}
	switch {
	case c.has(`,"headers":`):
		m.Headers = c.json()
	case c.has(`,"headers_base64":`):
		c.json()
	}
	switch {
	case c.has(`,"value":`):
		m.Kind, m.Value = KindValue, c.last()
	case c.has(`,"tombstone":true`):
		m.Kind = KindTombstone
	case c.has(`,"raw":`):
		m.Kind, m.Value = KindRaw, c.text()
	case c.has(`,"raw_base64":`):
		m.Kind, m.Value = KindBase64, c.text()
	case c.has(`,"oversize":`):
		m.Kind, m.Value = KindOversize, c.json()
	default:
		c.fail()
	}
	if m.Kind != KindValue && len(c.last()) > 0 {
		c.fail()
	}
	if c.failed {
		return Members{}, fmt.Errorf("not a line of bronze at byte %d: %.80q: %w", len(line)-len(c.rest), line, errLine)
	}
	return m, nil
}

var errLine = errors.New("something other than smelt has written or changed it")

// cutter takes one member after the other off the front of a line.
type cutter struct {
	rest   []byte
	failed bool
}

func (c *cutter) fail() { c.failed = true }

// has takes what comes next, if it is there.
func (c *cutter) has(next string) bool {
	if len(c.rest) < len(next) || string(c.rest[:len(next)]) != next {
		return false
	}
	c.rest = c.rest[len(next):]
	return true
}

// number takes a member's name and its whole number.
func (c *cutter) number(name string) (n int64) {
	if !c.has(name) {
		c.fail()
		return 0
	}
	negative := c.has("-")
	digits := 0
	for ; digits < len(c.rest) && c.rest[digits]-'0' <= 9; digits++ {
		n = 10*n + int64(c.rest[digits]-'0')
	}
	const most = 19 // digits of the largest one
	if digits == 0 || digits > most || n < 0 {
		c.fail()
	}
	c.rest = c.rest[digits:]
	if negative {
		return -n
	}
	return n
}

// text takes a JSON string.
func (c *cutter) text() []byte {
	if len(c.rest) == 0 || c.rest[0] != '"' {
		c.fail()
		return nil
	}
	return c.json()
}

// json takes a JSON value.
func (c *cutter) json() []byte {
	n := valueLength(c.rest)
	if n == 0 {
		c.fail()
		return nil
	}
	value := c.rest[:n]
	c.rest = c.rest[n:]
	return value
}

// last takes the last member's value, up to the line's closing brace.
func (c *cutter) last() []byte {
	n := len(c.rest) - 1
	if n < 0 || c.rest[n] != '}' {
		c.fail()
		return nil
	}
	value := c.rest[:n]
	c.rest = c.rest[n:]
	return value
}

// valueLength is how long the JSON value is that b begins with; 0 when it begins
// with none.
func valueLength(b []byte) int {
	s := scanner{json: b}
	for {
		opened, ok := s.value()
		if !ok {
			return 0
		}
		if opened {
			continue
		}
		more, ok := s.afterInside()
		if !ok {
			return 0
		}
		if !more {
			return s.at
		}
	}
}
