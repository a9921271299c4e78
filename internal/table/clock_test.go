package table

import (
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/store"
)

func TestClock(t *testing.T) {
	t.Parallel()
	l := Open(store.NewMemory(), NewMemoryCatalog(), "s3://lake")
	tbl, err := l.Create(t.Context(), "silver.a", Definition{Columns: []smelt.Column{{Name: "a", Type: smelt.Type{Name: "date"}}}})
	if err != nil {
		t.Fatal(err)
	}
	last := time.UnixMilli(tbl.ice.Metadata().LastUpdatedMillis()).UTC()
	for _, now := range []time.Time{last, last.Add(time.Hour), last.Add(-time.Minute)} {
		if err := tbl.checkClock(now); err != nil {
			t.Errorf("at %s after %s: %v", now, last, err)
		}
	}
	now := last.Add(-2 * time.Minute)
	err = tbl.checkClock(now)
	if err == nil || !strings.Contains(err.Error(), now.Format(time.RFC3339)) || !strings.Contains(err.Error(), last.Format(time.RFC3339)) {
		t.Errorf("at %s after %s: got %v, want an error that names both", now, last, err)
	}
}
