package gold_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/store"
)

// While the store takes no files nothing is computed again and again: a refresh that
// failed for it asks first.
func TestComputesOnceInAnOutage(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("Espoo 1 2026-11-29T10:05:00Z")
	var puts []string // by suffix; a stage puts one file at a time here
	down := true
	inner := l.Parts.Area.Store
	l.Parts.Area.Store = store.NewFaulty(inner, func(op store.Op) store.Fault {
		if op.Name == "put" && strings.HasPrefix(op.Key, "gold/") && strings.Contains(op.Key, "/data/") {
			puts = append(puts, path.Ext(op.Key))
			if down {
				return store.FailBefore
			}
		}
		return store.None
	})
	l.restart(model{"hourly", "1h", hourly})
	for range 3 {
		if _, err := l.Line.Gold[0].Step(t.Context()); !errors.Is(err, smelt.ErrStore) {
			t.Fatalf("got %v, want the store's error", err)
		}
	}
	if want := []string{".parquet", ".check", ".check"}; !slices.Equal(puts, want) {
		t.Errorf("put %q while the store took nothing, want %q", puts, want)
	}
	down, puts = false, nil
	if got := l.refresh(); got != 1 {
		t.Errorf("%d windows once it took files again, want 1", got)
	}
	l.add("Espoo 1 2026-11-29T11:05:00Z")
	l.refresh()
	if want := []string{".check", ".parquet", ".parquet"}; !slices.Equal(puts, want) {
		t.Errorf("put %q then, want %q", puts, want)
	}
	left, err := inner.List(t.Context(), "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range left {
		if path.Ext(o.Key) == ".check" {
			t.Errorf("%s is left", o.Key)
		}
	}
}
