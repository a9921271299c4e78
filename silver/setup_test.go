package silver_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/pipeline"
)

// lake is a line in memory whose tables a test reads.
type lake struct {
	*pipetest.Lake
	*line.Line
	session *duck.Session
}

// open makes a line over a pipeline in memory.
func open(t testing.TB, p *smelt.Pipeline, options ...func(*line.Parts)) *lake {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := pipetest.NewLake(db, 2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		o(&mem.Parts)
	}
	mem.References.Set("locations", text("sensor_id", "city"), [][]any{{"hel-001", "Espoo"}, {"nyc-001", "New York"}})
	l, err := line.Open(t.Context(), p, mem.Parts)
	if err != nil {
		t.Fatal(err)
	}
	session, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []func() error{session.Close, l.Close, mem.Close, db.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	return &lake{mem, l, session}
}

// batches has silver work on so many bytes of events at once, or a little more.
func batches(bytes int) func(*line.Parts) {
	return func(parts *line.Parts) { parts.BatchBytes = bytes }
}

func text(names ...string) []smelt.Column {
	columns := make([]smelt.Column, len(names))
	for i, n := range names {
		columns[i] = smelt.Column{Name: n, Type: smelt.Type{Name: "varchar"}}
	}
	return columns
}

// drain takes records through the line.
func (l *lake) drain(t *testing.T, records ...smelt.Record) {
	t.Helper()
	l.Topic.Append(records...)
	if err := pipetest.Drain(t.Context(), l.Line); err != nil {
		t.Fatal(err)
	}
}

// rows reads columns of a table as CSV, in the order of the lineage.
func (l *lake) rows(t *testing.T, table, columns string) []string {
	t.Helper()
	rows, err := l.Lake.Rows(context.Background(), l.session, table, strings.Split(columns, ","), "_partition_id, _partition_offset")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.Join(r, ",")
	}
	return out
}

// sensors is the pipeline that ships, reading the references that open sets.
func sensors(t *testing.T) *smelt.Pipeline {
	t.Helper()
	p, err := pipeline.Read(smelt.Shipped(), "sensors")
	if err != nil {
		t.Fatal(err)
	}
	p.Silver.SQL = strings.Replace(p.Silver.SQL, "locations.country      AS country,\n", "", 1)
	p.Gold = nil
	return p
}

// value is a record in partition 0 with a broker timestamp.
func value(text string, timestamp int64) smelt.Record {
	return smelt.Record{Timestamp: timestamp, Value: []byte(text)}
}

// same compares two lists of rows.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s\ngot:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
