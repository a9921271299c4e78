package silver_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/line"
	"smelt/internal/store"
)

// While the store takes no files nothing is worked out again and again: a step that
// failed for it asks first.
func TestWorksOnceInAnOutage(t *testing.T) {
	t.Parallel()
	var puts []string // by suffix; a step has one file here
	down := true
	l := open(t, sensors(t), func(p *line.Parts) {
		p.Area.Store = store.NewFaulty(p.Area.Store, func(op store.Op) store.Fault {
			if op.Name == "put" && strings.HasPrefix(op.Key, "silver/") && strings.Contains(op.Key, "/data/") {
				puts = append(puts, path.Ext(op.Key))
				if down {
					return store.FailBefore
				}
			}
			return store.None
		})
	})
	l.Topic.Append(value(good, 1795953601000))
	for taken := int64(0); taken == 0; {
		p, err := l.Bronze.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		taken = p.Records
	}
	for range 3 {
		if _, err := l.Silver.Step(t.Context()); !errors.Is(err, smelt.ErrStore) {
			t.Fatalf("got %v, want the store's error", err)
		}
	}
	if want := []string{".parquet", ".check", ".check"}; !slices.Equal(puts, want) {
		t.Errorf("put %q while the store took nothing, want %q", puts, want)
	}
	down = false
	if p, err := l.Silver.Step(t.Context()); err != nil || p.Records != 1 {
		t.Errorf("once it took files again: %d records, %v", p.Records, err)
	}
}
