package backfill_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/backfill"
)

// Audits see the replayed rows, as they were and as they will be. An audit that is false or NULL leaves everything
// unchanged.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.add(`x hel-001 "hot" 2026-11-02T12:00:00Z`)
	w.refresh()
	heads, stored := w.heads(), w.stored("")
	correction := backfill.Scope{ReferenceChanges: true}
	for _, c := range []struct {
		name     string
		declared []string // under silver in pipeline.yml
		scope    backfill.Scope
		failed   []string // what the message names; none: it publishes
	}{
		{"false", []string{"audit: {ten rows: (SELECT count(*) FROM new) = 10}"}, correction, []string{`audit "ten rows"`, "2 replayed records", "readings/pipeline.yml"}},
		{"NULL", []string{"audit: {hot: (SELECT max(v) FROM new WHERE v > 1000) > 0}"}, correction, []string{`audit "hot"`}},
		{"one of two", []string{"audit:", "  fine: (SELECT count(*) FROM old) = 2", "  empty: (SELECT count(*) FROM new) = 0"}, correction, []string{`audit "empty"`}},
		{"all go", []string{"expect: {small: v < 0}", "audit: {none lost: (SELECT count(*) FROM old) = (SELECT count(*) FROM new)}"}, backfill.Scope{All: true}, []string{`audit "none lost"`, "7 replayed records"}},
		{"true", []string{
			"audit:",
			"  none lost: (SELECT count(*) FROM old) = (SELECT count(*) FROM new)",
			"  as they were: (SELECT count(*) FROM old WHERE city = 'Espoo' AND _rebuilt_at IS NULL) = 2",
			"  as they will be: (SELECT count(*) FROM new WHERE city = 'Helsinki' AND _rebuilt_at IS NOT NULL) = 2",
		}, correction, nil},
	} {
		p := w.process()
		p.pipeline = newPipeline(t, c.declared...)
		r, err := w.open(p, c.scope).Run(t.Context(), nil)
		if len(c.failed) == 0 {
			if err != nil || !r.Published {
				t.Errorf("%s: got %+v, %v", c.name, r, err)
			}
			continue
		}
		if !errors.Is(err, smelt.ErrAudit) || r.Published {
			t.Fatalf("%s: got %+v, %v, want an ErrAudit", c.name, r, err)
		}
		for _, text := range append(c.failed, "nothing was published") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q does not say %q", c.name, err, text)
			}
		}
		if strings.Contains(err.Error(), "fine") {
			t.Errorf("%s: %q names one that is met", c.name, err)
		}
		if !maps.Equal(w.heads(), heads) {
			t.Errorf("%s: a table has changed", c.name)
		}
		if left := w.stored(""); !slices.Equal(left, stored) {
			t.Errorf("%s: the store has\n%v\nwant\n%v", c.name, left, stored)
		}
	}
	w.whole()
}

// A file that is rewritten in part shows each of its rows once, and so does one that was compacted after it was
// read.
func TestAuditSeesRowsOnce(t *testing.T) {
	t.Parallel()
	w := history(t)
	p := w.process()
	p.pipeline = newPipeline(t, "audit:",
		"  once before: (SELECT count(*) FROM old) = (SELECT count(DISTINCT id) FROM old)",
		"  once after: (SELECT count(*) FROM new) = (SELECT count(DISTINCT id) FROM new)",
		"  all: (SELECT count(*) FROM new) = 7")
	p.reach = func(step string) error {
		if step == "caught up" {
			w.compact(silverName, 1, 3) // neither has a row that differs
		}
		return nil
	}
	if r, err := w.open(p, backfill.Scope{All: true}).Run(t.Context(), nil); err != nil || !r.Published || r.Differing != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
	w.whole()
}
