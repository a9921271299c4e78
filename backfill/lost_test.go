package backfill_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"smelt"
	"smelt/backfill"
	"smelt/internal/table"
)

// lossy is a catalog that controls each swap of silver.
type lossy struct {
	table.Catalog
	swap func(do func() error) error // nil: what it does
	gone bool                        // it answers nothing
}

var errLost = errors.New("connection reset")

func (c *lossy) Current(ctx context.Context, names ...string) ([]string, error) {
	if c.gone {
		return nil, errLost
	}
	return c.Catalog.Current(ctx, names...)
}

func (c *lossy) Swap(ctx context.Context, moves ...smelt.Move) error {
	do := func() error { return c.Catalog.Swap(ctx, moves...) }
	is := func(m smelt.Move) bool { return m.Table == silverName }
	if !slices.ContainsFunc(moves, is) || c.swap == nil {
		return do()
	}
	return c.swap(do)
}

// When the reply to the commit is lost, the run finds out whether it has come
// through, and publishes once.
func TestLostReply(t *testing.T) {
	t.Parallel()
	past := eventful(t)
	undisturbed := past.clone(t)
	undisturbed.run(backfill.Scope{ReferenceChanges: true})
	want := undisturbed.state()
	for _, c := range []struct {
		name   string
		effect bool // it has come through
		gone   bool // and then there is no catalog for a while
	}{
		{"after the effect", true, false}, {"before the effect", false, false},
		{"after the effect, and then nothing", true, true}, {"before the effect, and then nothing", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := past.clone(t)
			snapshots := len(w.load(silverName).Ancestors())
			p, catalog := w.process(), &lossy{Catalog: w.catalog}
			p.Parts.Area.Lake = table.Open(p.Parts.Area.Store, catalog, "s3://test")
			catalog.swap = func(do func() error) error {
				catalog.swap, catalog.gone = nil, c.gone
				if c.effect {
					if err := do(); err != nil {
						t.Error(err)
					}
				}
				return errLost
			}
			job := w.open(p, backfill.Scope{ReferenceChanges: true})
			r, err := job.Run(t.Context(), nil)
			if !c.gone && (err != nil || !r.Published) || c.gone && !errors.Is(err, smelt.ErrDatabase) {
				t.Errorf("got %+v, %v", r, err)
			}
			if c.gone {
				if _, err := job.Published(t.Context()); !errors.Is(err, smelt.ErrDatabase) {
					t.Errorf("whether it has come through: %v", err)
				}
				catalog.gone = false
			}
			if published, err := job.Published(t.Context()); err != nil || published != (c.effect || !c.gone) {
				t.Errorf("published: got %v, %v", published, err)
			}
			if c.gone {
				w.run(backfill.Scope{ReferenceChanges: true})
			}
			if n := len(w.load(silverName).Ancestors()); n != snapshots+1 {
				t.Errorf("there are %d snapshots, want one more than %d", n, snapshots)
			}
			w.is(want)
		})
	}
}
