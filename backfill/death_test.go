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
var steps = []step{
	{"planned", false},
	{"rebuilt", false},
	{"caught up", false},
	{"locked", false},
	{"audited", false},
	{"tagged", false},
	{"committed", true},
}

type step struct {
	name      string
	published bool
}

// eventful is a lake in which a correction lets a row differ, one find its place,
// one turn bad and with that its twin come in, and a reject be good.
func eventful(t *testing.T) *world {
	t.Helper()
	w := setup(t, newPipeline(t, "unique: [id]", "expect: {somewhere: city IS DISTINCT FROM 'Nowhere'}"))
	w.locate("hel-001=Espoo", "nyc-001=New York", "out-001=Nowhere")
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 2 2026-11-01T10:01:00Z", "x out-001 3 2026-11-01T10:02:00Z")
	w.add("a hel-001 4 2026-11-01T10:05:00Z", "b hel-001 5 2026-11-01T10:04:00Z", "c zzz-001 6 2026-11-02T10:00:00Z", "1/x nyc-001 7 2026-11-01T10:03:00Z")
	w.add("1/y out-001 8 2026-11-02T10:00:00Z", `z hel-001 "hot" 2026-11-02T10:00:00Z`, "d nyc-001 9 2026-11-03T10:00:00Z")
	w.locate("hel-001=Helsinki", "nyc-001=Nowhere", "out-001=Turku", "zzz-001=Oulu")
	return w
}

// A backfill that dies at any step has published all or nothing; and the next one,
// however many have died before it, makes of the lake what one would have that was
// never disturbed.
func TestDeath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scope backfill.Scope
		from  string // the first step at which to die
	}{
		{backfill.Scope{ReferenceChanges: true}, "planned"},
		{backfill.Scope{Quarantined: true}, "audited"},
		{backfill.Scope{Unmatched: true}, "tagged"},
	} {
		scope := c.scope
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			w := eventful(t)
			undisturbed := w.clone(t)
			if r := undisturbed.run(scope); !r.Differs {
				t.Fatalf("undisturbed: got %+v", r)
			}
			undisturbed.whole()
			before, after := w.state(), undisturbed.state()
			first := slices.IndexFunc(steps, func(s step) bool { return s.name == c.from })
			for _, step := range steps[first:] {
				if step.published {
					continue
				}
				w.dieAt(scope, step.name)
				got := w.state()
				same(t, "silver after a death at "+step.name, got.silver, before.silver...)
				same(t, "quarantine after a death at "+step.name, got.quarantine, before.quarantine...)
			}
			published := w.clone(t)
			if r := w.run(scope); !r.Published { // after all those deaths
				t.Errorf("the last one: got %+v", r)
			}
			w.is(after)

			published.dieAt(scope, "committed")
			got := published.state()
			same(t, "silver after a death when it was published", got.silver, after.silver...)
			same(t, "quarantine after a death when it was published", got.quarantine, after.quarantine...)
			if r := published.run(scope); r.Published {
				t.Errorf("the one after that: got %+v", r)
			}
			published.is(after)
		})
	}
}

// is checks that the lake is in a state.
func (w *world) is(want state) {
	w.t.Helper()
	got := w.state()
	same(w.t, "silver in the end", got.silver, want.silver...)
	same(w.t, "quarantine in the end", got.quarantine, want.quarantine...)
	if got.ledger != want.ledger {
		w.t.Errorf("the ledger in the end is\n%s\nwant\n%s", got.ledger, want.ledger)
	}
	w.whole()
}

var errDead = errors.New("dead")

// dieAt has a process plan and run a backfill, and die at a step: nothing that it
// does from then on has an effect.
func (w *world) dieAt(scope backfill.Scope, name string) {
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
	_, err := job.Plan(w.t.Context())
	if err == nil {
		_, err = job.Run(w.t.Context(), nil)
	}
	if !errors.Is(err, errDead) {
		w.t.Errorf("at %q: got %v", name, err)
	}
}

// The steps in the code are those above.
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
	l.Quarantine = "" // another each time
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
		if err := c.catalog.Swap(w.t.Context(), smelt.Move{Table: name, To: location}); err != nil {
			w.t.Fatal(err)
		}
	}
	c.start()
	return &c
}
