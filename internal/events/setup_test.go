package events_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"smelt"
	"smelt/internal/columns"
	"smelt/internal/events"
	"smelt/pipeline"
)

// declare makes columns of "name type", with a ! for not null.
func declare(lines ...string) []smelt.Column {
	declared := make([]string, len(lines))
	for i, l := range lines {
		name, t, _ := strings.Cut(l, " ")
		if must, cut := strings.CutSuffix(t, "!"); cut {
			t = must + " not null"
		}
		t, options, _ := strings.Cut(t, "; ")
		declared[i] = fmt.Sprintf("    %q: {type: '%s', %s}\n", name, t, options)
	}
	return parse(strings.Join(declared, ""))
}

// parse reads columns as pipeline.yml has them. The first is the event's time.
func parse(text string) []smelt.Column {
	declaration := "source: {kafka: t}\nevents:\n  time: event time\n  columns:\n    event time: timestamptz not null\n" + text
	p, err := pipeline.Read(fstest.MapFS{
		"p/pipeline.yml": {Data: []byte(declaration)},
		"p/silver.sql":   {Data: []byte("SELECT 1")},
	}, "p")
	if err != nil {
		panic(fmt.Sprintf("%v in\n%s", err, declaration)) // a mistake in a test
	}
	return p.Events.Columns[1:]
}

func everyType() []smelt.Column {
	return declare(
		"yes boolean!", "tiny tinyint", "small smallint", "whole integer", "big bigint", "f float", "d double",
		"price decimal(10,2)", "large decimal(38,10)", "name varchar!", "at timestamptz", "sent timestamptz; unit: ms",
		"day date", "id uuid", "doc json", "tags varchar[]", `place struct(lat double, "street no" varchar)`,
		"spots struct(n integer, at timestamptz)[]")
}

const everyValue = `{"yes": true, "tiny": -128, "small": 32767, "whole": 12345, "big": 9223372036854775807, "f": 0.1, "d": 123456.789e-3,
	"price": 12345678.90, "large": 1234567890123456789012345678.0123456789, "name": "K\u00f6ln \ud83d\ude00\n", "at": "2026-11-29 12:00:00.123456+01:30",
	"sent": 1795953600123, "day": "2024-02-29", "id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "doc": {"a": [1.10, 1e2]}, "tags": ["a", null, "a longer one of a list"],
	"place": {"lat": 60.17, "street no": "12 b", "more": []}, "spots": [{"n": 1, "at": "2026-11-29T12:00Z"}, {"n": null}, null], "not declared": [{"x": "y"}, false]}`

// decode reads one value into a batch of its own.
func decode(t testing.TB, declared []smelt.Column, value string) (*columns.Batch, events.Fault) {
	t.Helper()
	batch := columns.New(declared)
	t.Cleanup(batch.Free)
	row := batch.Add()
	return batch, events.NewJSON(declared).Decode(batch, row, batch.Keep([]byte(value)))
}
