package table_test

import (
	"fmt"
	"strings"
	"testing"

	"smelt/internal/table"
)

// benchSnapshots is about how many snapshots a stream's table has: those that Expire
// keeps, and those that wait until there is a batch of them.
const benchSnapshots = 250

// benchTable is a table of a stream: its snapshots have ledgers, and its properties a
// copy of one.
func benchTable(b *testing.B, l lake) *table.Table {
	b.Helper()
	t := create(b, l, "silver.a", readings())
	for i := range benchSnapshots {
		t = commit(b, t, benchChange(table.Change{Add: []table.File{put(b, l, t, fmt.Sprint("f", i), 1)}}))
	}
	return t
}

// benchChange gives a change a ledger of the usual size.
func benchChange(c table.Change) table.Change {
	ledger := `{"position":{"0":123456,"1":123456},"records":246912,"quarantined":{"not json":12},"newest":"2026-11-20T12:00:00Z"` +
		strings.Repeat(`,"count":123456`, 20) + `}`
	c.Summary = map[string]string{"smelt.ledger": ledger}
	c.Properties = map[string]string{"smelt.ledger": ledger}
	return c
}

// A commit of silver adds a file.
func BenchmarkAppend(b *testing.B) {
	l := newLake(b)
	t := benchTable(b, l)
	f := put(b, l, t, "f", 1)
	b.ReportAllocs()
	for b.Loop() {
		next := commit(b, t, benchChange(table.Change{Add: []table.File{f}}))
		b.StopTimer()
		if err := l.Rewind(b.Context(), t, next); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// A commit of gold takes the place of a file.
func BenchmarkReplace(b *testing.B) {
	l := newLake(b)
	t := benchTable(b, l)
	all, err := t.Files(b.Context(), head(b, t))
	if err != nil {
		b.Fatal(err)
	}
	f := put(b, l, t, "f", 1)
	b.ReportAllocs()
	for b.Loop() {
		next := commit(b, t, benchChange(table.Change{Remove: all[len(all)-1:], Add: []table.File{f}}))
		b.StopTimer()
		if err := l.Rewind(b.Context(), t, next); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// A stage looks at the files of each new snapshot.
func BenchmarkFiles(b *testing.B) {
	l := newLake(b)
	t := benchTable(b, l)
	id := head(b, t)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Files(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
}
