package ledger_test

import (
	"reflect"
	"testing"
	"time"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/store"
	"smelt/internal/table"
)

func newTable(t *testing.T) *table.Table {
	t.Helper()
	lake := table.Open(store.NewMemory(), table.NewMemoryCatalog(), "s3://lake")
	tbl, err := lake.Create(t.Context(), "silver.sensors", table.Definition{
		Columns: []smelt.Column{{Name: "sensor_id", Type: smelt.Type{Name: "varchar"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

// commit makes a snapshot that has a ledger, or none, as other engines make.
func commit(t *testing.T, tbl *table.Table, l *ledger.Silver) *table.Table {
	t.Helper()
	var c table.Change
	if l != nil {
		if err := ledger.Write(&c, *l); err != nil {
			t.Fatal(err)
		}
	}
	next, err := tbl.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// full is a ledger in which nothing is zero.
func full() ledger.Silver {
	return ledger.Silver{
		Position: map[int32]int64{0: 17, 3: 1 << 40}, Records: 100, Tombstones: 4,
		Quarantined: map[string]int64{"missing": 5, "duplicate": 1}, Unmatched: 2,
		Newest: time.Date(2026, 11, 1, 12, 0, 0, 1000, time.UTC), ReferenceVersion: 9,
		Quarantine: "3f6c",
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	first, second := full(), full()
	second.Records, second.Quarantine = 200, ""
	for _, c := range []struct {
		name    string
		commits []*ledger.Silver
		want    ledger.Silver
		at      int // which commit it is of; -1 for none
	}{
		{"a table without snapshots", nil, ledger.Silver{}, -1},
		{"only snapshots of others", []*ledger.Silver{nil, nil}, ledger.Silver{}, -1},
		{"one", []*ledger.Silver{&first}, first, 0},
		{"the newest of two", []*ledger.Silver{&first, &second}, second, 1},
		{"below snapshots of others", []*ledger.Silver{&first, &second, nil, nil}, second, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tbl, at := newTable(t), int64(0)
			for i, l := range c.commits {
				tbl = commit(t, tbl, l)
				if s, _ := tbl.Current(); i == c.at {
					at = s.ID
				}
			}
			got, snapshot, ok, err := ledger.Read[ledger.Silver](tbl)
			if err != nil || ok != (c.at >= 0) {
				t.Fatalf("got ok %v, %v", ok, err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if snapshot.ID != at {
				t.Errorf("got it from snapshot %d, want %d", snapshot.ID, at)
			}
		})
	}
}

// A table whose own snapshots have all expired still knows where it was.
func TestReadProperties(t *testing.T) {
	t.Parallel()
	want := full()
	var c table.Change
	if err := ledger.Write(&c, want); err != nil {
		t.Fatal(err)
	}
	c.Summary = nil
	tbl, err := newTable(t).Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	got, at, ok, err := ledger.Read[ledger.Silver](tbl)
	if err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, %v, want %+v", got, ok, err, want)
	}
	if at.ID != 0 {
		t.Errorf("got it from snapshot %d, want none", at.ID)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	want := full()
	tbl := commit(t, commit(t, newTable(t), &want), nil)
	chain := tbl.Ancestors()
	if _, ok, err := ledger.Of[ledger.Silver](chain[0]); ok || err != nil {
		t.Errorf("a snapshot of others: got ok %v, %v", ok, err)
	}
	if got, ok, err := ledger.Of[ledger.Silver](chain[1]); err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, %v, want %+v", got, ok, err, want)
	}
}

// An unreadable ledger stops the stage. Treating it as missing would start the table over.
func TestDamaged(t *testing.T) {
	t.Parallel()
	var c table.Change
	if err := ledger.Write(&c, full()); err != nil {
		t.Fatal(err)
	}
	for name := range c.Summary {
		c.Summary[name], c.Properties[name] = "{", "{"
	}
	properties := c
	properties.Summary = nil
	for _, change := range []table.Change{c, properties} {
		tbl, err := newTable(t).Commit(t.Context(), change)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok, err := ledger.Read[ledger.Silver](tbl); err == nil || !ok {
			t.Errorf("got ok %v, no error %v", ok, err == nil)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ledger         ledger.Silver
		rejected, rows int64
	}{
		{ledger.Silver{}, 0, 0},
		{full(), 6, 90},
	} {
		if got := c.ledger.Rejected(); got != c.rejected {
			t.Errorf("rejected: got %d, want %d", got, c.rejected)
		}
		if got := c.ledger.Rows(); got != c.rows {
			t.Errorf("rows: got %d, want %d", got, c.rows)
		}
	}
}
