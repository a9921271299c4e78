package backfill_test

import (
	"cmp"
	"context"
	"errors"
	"testing"

	"smelt"
	"smelt/backfill"
	"smelt/internal/table"
)

// lossy is a catalog that is told what becomes of each swap of a table.
type lossy struct {
	table.Catalog
	table string                      // silver when empty
	swap  func(do func() error) error // nil: what it does
	gone  bool                        // it answers nothing
}

var errLost = errors.New("connection reset")

func (c *lossy) Current(ctx context.Context, name string) (string, error) {
	if c.gone {
		return "", errLost
	}
	return c.Catalog.Current(ctx, name)
}

func (c *lossy) Swap(ctx context.Context, name, old, new string) error {
	do := func() error { return c.Catalog.Swap(ctx, name, old, new) }
	if name != cmp.Or(c.table, silverName) || c.swap == nil {
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

// When the reply is lost by which quarantine lets records go, the files that were
// written anew for those that stay are kept: they are the table's.
func TestLostReplyOfQuarantine(t *testing.T) {
	t.Parallel()
	w := setup(t, pipeline(t, "expect: {somewhere: \"city <> 'Nowhere'\"}"))
	w.locate("hel-001=Espoo", "nyc-001=Nowhere")
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 2 2026-11-01T10:00:00Z", `c hel-001 "hot" 2026-11-01T10:00:00Z`)
	w.locate("hel-001=Espoo", "nyc-001=New York")
	p, catalog := w.process(), &lossy{Catalog: w.catalog, table: quarantineName}
	p.Parts.Area.Lake = table.Open(p.Parts.Area.Store, catalog, "s3://test")
	lose := func(do func() error) error {
		catalog.swap = nil
		if err := do(); err != nil {
			t.Error(err)
		}
		return errLost
	}
	p.reach = func(step string) error {
		if step == "committed" { // by silver
			catalog.swap = lose
		}
		return nil
	}
	if r, err := w.open(p, backfill.Scope{Quarantined: true}).Run(t.Context(), nil); !errors.Is(err, smelt.ErrDatabase) || !r.Published {
		t.Errorf("got %+v, %v", r, err)
	}
	w.add("d hel-001 4 2026-11-01T11:00:00Z")
	same(t, "set aside", w.rows(quarantineName, "_partition_offset"), "2")
	w.whole()
}
