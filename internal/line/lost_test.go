package line_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"smelt"
	"smelt/internal/pipetest"
	"smelt/internal/table"
)

// lossy is a catalog that loses the reply to the next swap of a table.
type lossy struct {
	table.Catalog
	table string // "" once it is lost
}

func (c *lossy) Swap(ctx context.Context, moves ...smelt.Move) error {
	err := c.Catalog.Swap(ctx, moves...)
	if err == nil && slices.ContainsFunc(moves, func(m smelt.Move) bool { return m.Table == c.table }) {
		c.table = ""
		return errors.New("connection reset")
	}
	return err
}

// TestLostReplies loses the reply to the commit of each table in turn. Its files stay.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	l := newLake(t)
	catalog := &lossy{Catalog: table.NewMemoryCatalog()}
	l.Parts.Area.Lake = table.Open(l.Parts.Area.Store, catalog, "s3://test")
	ln := l.prepared("day(ts)", "n", "hour: count(*) AS c")
	tables := []string{"silver.p", "quarantine.p", "gold.p_m0"}
	for _, name := range tables {
		catalog.table = name
		l.Topic.Append(
			smelt.Record{Timestamp: smelt.NoTimestamp, Value: []byte(`{"id":"a","n":1,"ts":"2026-11-29T10:00:00Z"}`)},
			smelt.Record{Timestamp: smelt.NoTimestamp, Value: []byte(`{"id":"a","n":"odd","ts":"2026-11-29T10:00:00Z"}`)})
		if err := pipetest.Drain(t.Context(), ln); !errors.Is(err, smelt.ErrDatabase) || catalog.table != "" {
			t.Fatalf("%s: got %v", name, err)
		}
		if err := pipetest.Drain(t.Context(), ln); err != nil {
			t.Fatal(err)
		}
		l.verify(ln)
	}
	if got, want := l.rows("gold.p_m0", "c"), fmt.Sprint(len(tables)); got != want {
		t.Errorf("gold counts %s rows, want %s", got, want)
	}
}
