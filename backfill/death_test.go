package backfill_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/backfill"
	"smelt/ingest"
	"smelt/internal/pipetest"
	"smelt/internal/store"
	"smelt/internal/table"
)

// steps are the named steps of a backfill, in their order, and whether by then it
// has published.
var steps = []struct {
	name      string
	published bool
}{
	{"planned", false},
	{"rebuilt", false},
	{"caught up", false},
	{"locked", false},
	{"audited", false},
	{"tagged", false},
	{"committed", true},
}

// eventful is a lake in which a correction lets a row differ, one find its place,
// one turn bad and with that its twin come in, and a reject be good.
func eventful(t *testing.T) *world {
	t.Helper()
	w := setup(t, pipeline(t, "unique: [id]", "expect: {somewhere: city IS DISTINCT FROM 'Nowhere'}"))
	w.locate("hel-001=Espoo", "nyc-001=New York", "out-001=Nowhere")
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 2 2026-11-01T10:01:00Z", "x out-001 3 2026-11-01T10:02:00Z")
	w.add("a hel-001 4 2026-11-01T10:05:00Z", "b hel-001 5 2026-11-01T10:04:00Z", "c zzz-001 6 2026-11-02T10:00:00Z", "1/x nyc-001 7 2026-11-01T10:03:00Z")
	w.add("1/y out-001 8 2026-11-02T10:00:00Z", `z hel-001 "hot" 2026-11-02T10:00:00Z`, "d nyc-001 9 2026-11-03T10:00:00Z")
	w.locate("hel-001=Helsinki", "nyc-001=Nowhere", "out-001=Turku", "zzz-001=Oulu")
	return w
}

// A backfill that dies at any step has published all or nothing; and the next one
// makes of it what one would have that was never disturbed.
func TestDeath(t *testing.T) {
	t.Parallel()
	for _, scope := range []backfill.Scope{{ReferenceChanges: true}, {Quarantined: true}} {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			w := eventful(t)
			undisturbed := w.clone(t)
			if r := undisturbed.run(scope); !r.Differs {
				t.Fatalf("undisturbed: got %+v", r)
			}
			undisturbed.whole()
			before, after := w.state(), undisturbed.state()
			for _, step := range steps {
				c := w.clone(t)
				if err := c.dieAt(scope, step.name); !errors.Is(err, errDead) {
					t.Errorf("at %q: got %v", step.name, err)
				}
				silver, quarantine := before.silver, before.quarantine
				if step.published {
					silver = after.silver // it hands the rejects over to whoever comes
				}
				got := c.state()
				same(t, "silver after a death at "+step.name, got.silver, silver...)
				same(t, "quarantine after a death at "+step.name, got.quarantine, quarantine...)
				if r := c.run(scope); r.Published == step.published {
					t.Errorf("after a death at %q: got %+v", step.name, r)
				}
				got = c.state()
				same(t, "silver in the end", got.silver, after.silver...)
				same(t, "quarantine in the end", got.quarantine, after.quarantine...)
				if got.ledger != after.ledger {
					t.Errorf("after a death at %q the ledger is\n%s\nwant\n%s", step.name, got.ledger, after.ledger)
				}
			}
		})
	}
}

var errDead = errors.New("dead")

// dieAt has a process plan and run a backfill, and die at a step: nothing that it
// does from then on has an effect.
func (w *world) dieAt(scope backfill.Scope, name string) error {
	w.t.Helper()
	p := w.process()
	p.reach = func(step string) error {
		if step != name {
			return nil
		}
		p.fault = func(store.Op) store.Fault { return store.Crash }
		return errDead
	}
	job := w.open(p, scope)
	if _, err := job.Plan(w.t.Context()); err != nil {
		return err
	}
	_, err := job.Run(w.t.Context(), nil)
	return err
}

// Each step that the code names is one of those above.
func TestSteps(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, s := range steps {
		want = append(want, s.name)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\.reach\("([^"]*)"\)`).FindAllSubmatch(source, -1) {
			got = append(got, string(m[1]))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	same(t, "steps", slices.Compact(got), want...)
}

// state is what a backfill may change, without the times at which it did.
type state struct {
	silver, quarantine []string
	ledger             string
}

func (w *world) state() state {
	w.t.Helper()
	l := w.ledger()
	l.Rejects, l.Released = nil, nil
	return state{
		silver:     w.all(silverName, "_ingested_at", "_rebuilt_at"),
		quarantine: w.all(quarantineName, "quarantined_at"),
		ledger:     fmt.Sprintf("%+v", l),
	}
}

// clone copies the lake, with references that are the same for both.
func (w *world) clone(t *testing.T) *world {
	t.Helper()
	c := *w
	c.t = t
	c.objects, c.catalog, c.locks = store.NewMemory(), table.NewMemoryCatalog(), pipetest.NewLocks()
	c.topic, c.sent = ingest.NewLog(2), maps.Clone(w.sent)
	for partition, n := range w.sent {
		c.topic.Skip(partition, n)
	}
	for _, key := range w.stored("") {
		body, o, err := w.objects.Get(w.t.Context(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := c.objects.Put(w.t.Context(), key, strings.NewReader(string(data)), smelt.PutOptions{Meta: o.Meta}); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, location := range w.heads() {
		if err := c.catalog.Swap(w.t.Context(), name, "", location); err != nil {
			w.t.Fatal(err)
		}
	}
	c.start()
	return &c
}
