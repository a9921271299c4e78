package backfill_test

import (
	"testing"

	"smelt/backfill"
)

// The second of two backfills waits for the first, and finds nothing left to do.
func TestSecondWaits(t *testing.T) {
	t.Parallel()
	w := history(t)
	scope := backfill.Scope{ReferenceChanges: true}
	type end struct {
		result backfill.Result
		err    error
	}
	waiting, ended := make(chan struct{}), make(chan end, 1)
	second := w.open(w.process(), scope)
	first := w.process()
	first.reach = func(step string) error {
		if step != "caught up" {
			return nil
		}
		go func() {
			r, err := second.Run(t.Context(), func(p backfill.Progress) {
				if p.Waiting {
					close(waiting)
				}
			})
			ended <- end{r, err}
		}()
		<-waiting
		return nil
	}
	if r, err := w.open(first, scope).Run(t.Context(), nil); err != nil || r.Differing != 2 {
		t.Fatalf("the first: got %+v, %v", r, err)
	}
	if got := <-ended; got.err != nil || got.result.Published || got.result.Replayed > 0 {
		t.Errorf("the second: got %+v, %v", got.result, got.err)
	}
	w.whole()
}

// Locks only save work. Without them a backfill that ends during another one makes that one repeat its work, and silver
// is right.
func TestWithoutLocks(t *testing.T) {
	t.Parallel()
	past := eventful(t)
	for _, c := range []struct {
		scope backfill.Scope
		whens []string
	}{
		{backfill.Scope{ReferenceChanges: true}, []string{"rebuilt", "tagged"}},
		{backfill.Scope{Quarantined: true}, []string{"locked"}},
	} {
		undisturbed, scope := past.clone(t), c.scope
		undisturbed.run(scope)
		want := undisturbed.state()
		for _, when := range c.whens {
			t.Run(scope.String()+" at "+when, func(t *testing.T) {
				t.Parallel()
				w := past.clone(t)
				w.locks = free{}
				p, done := w.process(), false
				p.reach = func(step string) error {
					if step == when && !done {
						done = true
						if r := w.run(scope); !r.Published {
							t.Errorf("the one in the midst: got %+v", r)
						}
					}
					return nil
				}
				if r, err := w.open(p, scope).Run(t.Context(), nil); err != nil || r.Published {
					t.Errorf("the other: got %+v, %v", r, err)
				}
				got := w.state()
				same(t, "silver", got.silver, want.silver...)
				same(t, "quarantine", got.quarantine, want.quarantine...)
				w.whole()
			})
		}
	}
}

// Two backfills with scopes of their own leave what both would have done one after
// the other.
func TestTwoScopes(t *testing.T) {
	t.Parallel()
	past := eventful(t)
	one, other := backfill.Scope{ReferenceChanges: true}, backfill.Scope{Quarantined: true}
	after := past.clone(t)
	after.run(other)
	after.run(one)
	want := after.state()
	for _, when := range []string{"locked"} {
		w := past.clone(t)
		w.locks = free{}
		p, done := w.process(), false
		p.reach = func(step string) error {
			if step == when && !done {
				done = true
				w.run(other)
			}
			return nil
		}
		if r, err := w.open(p, one).Run(t.Context(), nil); err != nil || !r.Published {
			t.Fatalf("at %q: got %+v, %v", when, r, err)
		}
		got := w.state()
		same(t, "silver after one at "+when, got.silver, want.silver...)
		same(t, "quarantine after one at "+when, got.quarantine, want.quarantine...)
		w.whole()
	}
}
