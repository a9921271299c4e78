package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/store"
	"smelt/internal/table"
)

// memoryLake is a lake in memory with one table.
func memoryLake(t *testing.T, name string) (*lake, *table.Table) {
	t.Helper()
	tables := table.Open(store.NewMemory(), table.NewMemoryCatalog(), "s3://lake")
	tbl, err := tables.Create(t.Context(), name, table.Definition{
		Columns: []smelt.Column{{Name: "sensor_id", Type: smelt.Type{Name: "varchar"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &lake{Tables: tables}, tbl
}

// step commits like silver. records is the ledger's count. extra is added to the summary.
func step(t *testing.T, tbl *table.Table, records int64, extra ...string) *table.Table {
	t.Helper()
	time.Sleep(time.Minute)
	f, err := tbl.NewFile(smelt.DataFile{Path: fmt.Sprintf("silver/a/data/%d.parquet", records), Rows: 1234, Bytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	change := table.Change{Add: []table.File{f}}
	if records > 0 {
		if err := ledger.Write(&change, ledger.Silver{Records: records, ReferenceVersion: 12}); err != nil {
			t.Fatal(err)
		}
	} else {
		change.Summary = map[string]string{}
	}
	for i := 0; i < len(extra); i += 2 {
		change.Summary[extra[i]] = extra[i+1]
	}
	next, err := tbl.Commit(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01 00:00 UTC
		l, tbl := memoryLake(t, "silver.a")
		tbl = step(t, tbl, 1234)
		first, _ := tbl.Current()
		tbl = step(t, tbl, 2468, "smelt.backfill", "x1", "smelt.backfill-scope", `--where "city = 'Espoo'"`)
		tbl = step(t, tbl, 0, "engine-name", "trino")
		last, _ := tbl.Current()
		time.Sleep(time.Minute)
		if err := l.rollBack(t.Context(), "silver.a", last, first, "smelt-rollback-20000101T000400Z"); err != nil {
			t.Fatal(err)
		}
		if err := l.Tables.Tag(t.Context(), "silver.a", "mine", first.ID, 0); err != nil {
			t.Fatal(err)
		}
		tbl, err := l.Tables.Load(t.Context(), "silver.a")
		if err != nil {
			t.Fatal(err)
		}
		tbl = step(t, tbl, 1300)

		entries, err := history(tbl)
		if err != nil {
			t.Fatal(err)
		}
		got := historyText(entries)
		for _, e := range entries { // ids are random
			got = strings.ReplaceAll(got, fmt.Sprintf("%-19d", e.Snapshot), fmt.Sprintf("%-19s", "<id>"))
		}
		want := `snapshot             time (UTC)           by, references    changed   rows
<id>                 2000-01-01 00:05:00  silver step, v12   +1,234  2,468  main
<id>                 2000-01-01 00:04:00  rollback                   1,234  mine
<id>                 2000-01-01 00:03:00  trino              +1,234  3,702  rolled back, smelt-rollback-20000101T000400Z
<id>                 2000-01-01 00:02:00  backfill, v12      +1,234  2,468  rolled back
    --where "city = 'Espoo'"
<id>                 2000-01-01 00:01:00  silver step, v12   +1,234  1,234  mine
`
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// A name that makes a line too long goes below it.
func TestHistoryFits(t *testing.T) {
	t.Parallel()
	long := "smelt-backfill-20261129T224501Z-ab12"
	rows := int64(12_345_678)
	got := historyText([]entry{{
		Snapshot: 1 << 62, By: "backfill", Added: &rows, Removed: &rows, Rows: &rows, ReferenceVersion: new(int64),
		Names: []name{{Name: "audit", Kind: "branch"}, {Name: long, Kind: "tag"}},
	}})
	for line := range strings.Lines(got) {
		if len(strings.TrimSuffix(line, "\n")) > historyWidth {
			t.Errorf("a line is too long: %s", line)
		}
	}
	if !strings.HasSuffix(got, "\n    audit (branch)\n    "+long+"\n") {
		t.Errorf("got\n%s", got)
	}
}

// What is older than the oldest snapshot left of main may have been main's.
func TestHistoryOfWhatHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, tbl := memoryLake(t, "silver.a")
		tbl = step(t, tbl, 1)
		first, _ := tbl.Current()
		if err := l.Tables.Tag(t.Context(), "silver.a", "mine", first.ID, 0); err != nil {
			t.Fatal(err)
		}
		for n := range int64(60) {
			tbl = step(t, tbl, 2+n)
		}
		if _, err := l.Tables.Expire(t.Context(), "silver.a", table.Retention{Last: 1, Grace: time.Second}); err != nil {
			t.Fatal(err)
		}
		tbl, err := l.Tables.Load(t.Context(), "silver.a")
		if err != nil {
			t.Fatal(err)
		}
		entries, err := history(tbl)
		if err != nil {
			t.Fatal(err)
		}
		if e := entries[len(entries)-1]; e.Snapshot != first.ID || e.RolledBack {
			t.Errorf("the last entry is %+v, want the tagged snapshot, not rolled back", e)
		}
	})
}
