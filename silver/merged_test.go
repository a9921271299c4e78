package silver_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/ledger"
	"smelt/internal/line"
	"smelt/internal/table"
)

// merger merges a lake's bronze.
func merger(t *testing.T, l *lake) *bronze.Merger {
	return bronze.NewMerger(bronze.MergerConfig{
		Pipeline: l.Pipeline.Name, Store: l.Parts.Area.Store, Log: slog.New(slog.DiscardHandler), Dir: t.TempDir(),
	})
}

// allRead is a position beyond every chain.
var allRead = map[int32]int64{0: math.MaxInt64}

// merge merges and cleans everything possible, as if days had passed.
func merge(t *testing.T, m *bronze.Merger) {
	t.Helper()
	for range 3 { // hours, days, leftovers
		plan, err := m.Plan(t.Context(), allRead, time.Now().Add(72*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range plan.Runs {
			if _, err := m.Merge(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
		for _, leftovers := range plan.Leftovers {
			if err := m.Clean(t.Context(), leftovers); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// objects counts the objects of bronze.
func objects(t *testing.T, l *lake) int {
	t.Helper()
	found, err := l.Parts.Area.Store.List(t.Context(), bronze.Prefix(l.Pipeline.Name), "", math.MaxInt)
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// silverTable loads the table and its ledger.
func silverTable(t *testing.T, l *lake) (*table.Table, ledger.Silver) {
	t.Helper()
	loaded, err := l.Parts.Area.Lake.Load(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	at, _, _, err := ledger.Read[ledger.Silver](loaded)
	if err != nil {
		t.Fatal(err)
	}
	return loaded, at
}

// rollBack rolls silver back to a snapshot.
func rollBack(t *testing.T, l *lake, snapshot int64) {
	t.Helper()
	loaded, _ := silverTable(t, l)
	if _, err := loaded.Rollback(t.Context(), snapshot, ledger.Carry(loaded, snapshot), ""); err != nil {
		t.Fatal(err)
	}
}

// grow is a lake of an object, and a snapshot, for each of some records.
func grow(t *testing.T, options ...func(*line.Parts)) *lake {
	t.Helper()
	l := open(t, sensors(t), options...)
	for _, text := range []string{good, good, `{"sensor_id":"hel-001"}`, "", good, "not JSON", good, good} {
		record := value(text, 1795953601000)
		if text == "" {
			record.Value = nil
		}
		l.drain(t, record)
	}
	return l
}

const (
	silverColumns = "_partition_offset,sensor_id,event_time,temperature_celsius,city"
	rejectColumns = "_partition_offset,reason,field,raw"
)

// TestRollbackIntoMerged rolls silver back to each of its snapshots, whose positions now lie inside one merged
// object, and lets it read on.
func TestRollbackIntoMerged(t *testing.T) {
	t.Parallel()
	for _, listEvery := range []time.Duration{0, time.Hour} {
		l := grow(t, func(p *line.Parts) { p.ListEvery = listEvery })
		rows, rejects := l.rows(t, "silver.sensors", silverColumns), l.rows(t, "quarantine.sensors", rejectColumns)
		loaded, want := silverTable(t, l)
		merge(t, merger(t, l))
		if n := objects(t, l); n != 2 {
			t.Fatalf("%d objects, want the merged one and the last", n)
		}
		for _, s := range loaded.Ancestors() {
			rollBack(t, l, s.ID)
			if listEvery > 0 { // by the names of its objects it finds nothing there
				fresh, err := line.Open(t.Context(), l.Pipeline, l.Parts)
				if err != nil {
					t.Fatal(err)
				}
				defer fresh.Close()
				l.Line = fresh
			}
			l.drain(t)
			same(t, "silver", l.rows(t, "silver.sensors", silverColumns), rows)
			same(t, "quarantine", l.rows(t, "quarantine.sensors", rejectColumns), rejects)
			if _, got := silverTable(t, l); got.Records != want.Records || got.Tombstones != want.Tombstones || got.Rows() != want.Rows() || got.Position[0] != want.Position[0] {
				t.Errorf("ledger: got %+v, want %+v", got, want)
			}
		}
	}
}

// TestRollbackIntoRetired lets silver read where records were retired.
func TestRollbackIntoRetired(t *testing.T) {
	t.Parallel()
	l := grow(t)
	loaded, _ := silverTable(t, l)
	m := merger(t, l)
	runs, err := m.PlanRetire(t.Context(), allRead, time.Now().Add(time.Hour))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%+v, %v", runs, err)
	}
	if _, _, err := m.Retire(t.Context(), runs[0], []int64{2, 5}); err != nil {
		t.Fatal(err)
	}
	merge(t, m)
	before := loaded.Ancestors()[4]
	rollBack(t, l, before.ID)
	if _, err := l.Silver.Step(t.Context()); !errors.Is(err, smelt.ErrStore) || !strings.Contains(err.Error(), "5 records of partition 0 below offset 7 were retired from bronze by retain:, but silver was rolled back to ") {
		t.Errorf("got %v", err)
	}
	if after, _ := silverTable(t, l); after.MetadataLocation() == loaded.MetadataLocation() {
		t.Error("it was not rolled back")
	}
	rollBack(t, l, loaded.Ancestors()[0].ID)
	l.drain(t, value(good, 1795953601000))
	if n := len(l.rows(t, "silver.sensors", silverColumns)); n != 6 {
		t.Errorf("%d rows, want 6", n)
	}
}

// vanishing is a store in which something happens before an object is read.
type vanishing struct {
	smelt.Store
	mu     sync.Mutex
	before func()
}

func (v *vanishing) Get(ctx context.Context, key string) (io.ReadCloser, smelt.Object, error) {
	v.mu.Lock()
	if before := v.before; before != nil && strings.HasPrefix(key, "bronze/") {
		v.before = nil
		before()
	}
	v.mu.Unlock()
	return v.Store.Get(ctx, key)
}

// TestObjectsGo has objects merged and deleted between a step's listing and its
// reading of them.
func TestObjectsGo(t *testing.T) {
	t.Parallel()
	var objects *vanishing
	l := grow(t, func(p *line.Parts) {
		objects = &vanishing{Store: p.Area.Store}
		p.Area.Store = objects
	})
	rows := l.rows(t, "silver.sensors", silverColumns)
	loaded, _ := silverTable(t, l)
	m := bronze.NewMerger(bronze.MergerConfig{Pipeline: "sensors", Store: objects.Store, Dir: t.TempDir()})
	rollBack(t, l, loaded.Ancestors()[5].ID)
	objects.before = func() { merge(t, m) }
	if _, err := l.Silver.Step(t.Context()); err != nil || objects.before != nil {
		t.Fatalf("got %v", err)
	}
	l.drain(t)
	same(t, "silver", l.rows(t, "silver.sensors", silverColumns), rows)
}
