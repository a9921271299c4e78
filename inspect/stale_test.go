package inspect_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/inspect"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// backfilled makes a snapshot of silver like that of a backfill, but of no rows.
func (w *world) backfilled(t *testing.T, scope string) {
	t.Helper()
	silver, err := w.Parts.Area.Lake.Load(t.Context(), "silver.readings")
	if err != nil {
		t.Fatal(err)
	}
	l, _, _, err := ledger.Read[ledger.Silver](silver)
	if err != nil {
		t.Fatal(err)
	}
	var change table.Change
	if err := ledger.Write(&change, l); err != nil {
		t.Fatal(err)
	}
	change.Summary["smelt.backfill-scope"] = scope
	if _, err := silver.Commit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

// found counts stale rows that are known.
func found(stale ...inspect.Stale) func(context.Context, *smelt.Pipeline, *table.Table) ([]inspect.Stale, error) {
	return func(context.Context, *smelt.Pipeline, *table.Table) ([]inspect.Stale, error) { return stale, nil }
}

func TestStatusStale(t *testing.T) {
	t.Parallel()
	const command = "\n      ./bin/smelt backfill readings --reference-changes\n"
	for _, test := range []struct {
		name  string
		count func(context.Context, *smelt.Pipeline, *table.Table) ([]inspect.Stale, error)
		heals bool
		text  []string
		not   string // in the text
	}{
		{"none", found(), false, nil, "older version"},
		{
			"some", found(inspect.Stale{Reference: "places", Rows: 3412, Unmatched: 5, Exact: true}, inspect.Stale{Reference: "units", Rows: 1, Exact: true}), true,
			[]string{
				"  stale by places: 3,412 rows\n  stale by units: 1 row\n",
				"3,412 rows of silver.readings were enriched with an older version of places." + command,
				"1 row of silver.readings was enriched with an older version of units." + command,
			},
			"SMELT_HEAL",
		},
		{
			"too many to be counted", found(inspect.Stale{Reference: "places", Rows: 1234567}), true,
			[]string{"  stale by places: up to 1,234,567 rows\n", "Up to 1,234,567 rows of silver.readings were enriched with an older version of places. They are too many to be counted here: the command counts them, and asks." + command},
			"SMELT_HEAL",
		},
		{
			"not healed", found(inspect.Stale{Reference: "places", Unmatched: 5, Exact: true}), false,
			[]string{"5 rows of silver.readings found no row of places, which has changed since; they are not healed because SMELT_HEAL=false." + command},
			"stale by",
		},
		{
			"not known", func(context.Context, *smelt.Pipeline, *table.Table) ([]inspect.Stale, error) { return nil, errDown }, true,
			[]string{"It is unknown whether rows were enriched with older versions of references: kafka on 127.0.0.1:9092: connection refused.\n      ./bin/smelt config\n"},
			"older version of places",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := healthy(t)
			probe := w.probe(true)
			probe.CountStale, probe.Heals = test.count, test.heals
			s := inspect.Gather(t.Context(), probe, w.pipeline, time.Now())
			got := s.Text(false)
			for _, want := range test.text {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			if strings.Contains(got, test.not) {
				t.Errorf("%q in\n%s", test.not, got)
			}
			if failed := test.name == "not known"; failed != (s.Stale == nil) || failed != errors.Is(s.Err(), smelt.ErrSource) {
				t.Errorf("got %+v, %v", s.Stale, s.Err())
			}
		})
	}
}

func TestStatusLastBackfill(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	if s := inspect.Gather(t.Context(), w.probe(true), w.pipeline, time.Now()); s.LastBackfill != nil {
		t.Errorf("got %+v of a table without any", s.LastBackfill)
	}
	w.backfilled(t, "--all")
	w.backfilled(t, `--where "sensor = 'a'"`)
	w.send(0, "a")
	w.drain(t)
	got := text(inspect.Gather(t.Context(), w.probe(true), w.pipeline, time.Now()))
	if want := `, --where "sensor = 'a'"` + "\n"; strings.Count(got, "last backfill: 20") != 1 || !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}
