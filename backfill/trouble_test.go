package backfill_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/internal/store"
	"smelt/internal/table"
)

// refused runs a backfill that must fail, and makes sure that nothing has come of
// it.
func (w *world) refused(p *process, scope backfill.Scope, kind error, says ...string) {
	w.t.Helper()
	heads := w.heads()
	r, err := w.open(p, scope).Run(w.t.Context(), nil)
	if !errors.Is(err, kind) || r.Published {
		w.t.Fatalf("got %+v, %v, want %v", r, err, kind)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			w.t.Errorf("%q does not say %q", err, text)
		}
	}
	if !maps.Equal(w.heads(), heads) {
		w.t.Error("a table has changed")
	}
}

// Bronze that is not as it was is named, and nothing is published.
func TestBronzeDamaged(t *testing.T) {
	t.Parallel()
	past := history(t)
	other := setup(t, newPipeline(t)) // objects with fewer records at the same places
	other.receive("d hel-001 4 2026-11-02T10:00:00Z")
	objects := past.stored("bronze/")
	read := func(w *world, key string) ([]byte, smelt.Object) {
		body, o, err := w.objects.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return data, o
	}
	fewer, _ := read(other, other.stored("bronze/")[0])
	remove := func(place int) func(*world) {
		return func(w *world) {
			if err := w.objects.Delete(t.Context(), objects[place]); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace := func(place int, change func([]byte) []byte) func(*world) {
		return func(w *world) {
			data, o := read(w, objects[place])
			if err := w.objects.Put(t.Context(), objects[place], bytes.NewReader(change(data)), smelt.PutOptions{Meta: o.Meta}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*world)
		says   string // the object or the record
	}{
		{"the first is missing", remove(0), objects[1]},
		{"one in the middle is missing", remove(2), objects[3]},
		{"the last is missing", remove(4), "0:6"},
		{"cut off", replace(2, func(b []byte) []byte { return b[:len(b)/2] }), objects[2]},
		{"empty", replace(2, func([]byte) []byte { return nil }), objects[2]},
		{"something else", replace(2, func([]byte) []byte { return []byte("not zstd") }), objects[2]},
		{"fewer records", replace(2, func([]byte) []byte { return fewer }), objects[2]},
		{"other records", replace(3, func([]byte) []byte { return fewer }), "0:5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := past.clone(t)
			c.damage(w)
			stored := w.stored("")
			w.refused(w.process(), backfill.Scope{All: true}, smelt.ErrStore, c.says)
			same(t, "objects", w.stored(""), stored...)
		})
	}
	// Rows outside the scope do not matter.
	w := past.clone(t)
	remove(3)(w)
	if r := w.run(day); r.Differing != 1 {
		t.Errorf("an object out of scope is missing: got %+v", r)
	}
}

// failing are references that are not there any more from some moment on.
type failing struct {
	smelt.References
	gone bool
}

func (f *failing) Version(ctx context.Context, refs []smelt.Reference) (int64, error) {
	if f.gone {
		return 0, smelt.Mark(smelt.ErrDatabase, errors.New("connection refused"))
	}
	return f.References.Version(ctx, refs)
}

// After any error in between, nothing has changed. Files remain only if the outcome of a commit is unknown.
func TestTrouble(t *testing.T) {
	t.Parallel()
	past := history(t)
	at := func(when string, then func()) func(string) error {
		return func(step string) error {
			if step == when {
				then()
			}
			return nil
		}
	}
	puts := func(op store.Op) store.Fault {
		if op.Name == "put" {
			return store.FailBefore
		}
		return store.None
	}
	for _, c := range []struct {
		name  string
		kind  error
		open  bool // at the commit
		setup func(w *world, p *process)
	}{
		{"the references are gone at first", smelt.ErrDatabase, false, func(w *world, p *process) {
			p.Parts.References = &failing{w.refs, true}
		}},
		{"the references are gone midway", smelt.ErrDatabase, false, func(w *world, p *process) {
			refs := &failing{w.refs, false}
			p.Parts.References, p.reach = refs, at("caught up", func() { refs.gone = true })
		}},
		{"the store takes nothing", smelt.ErrStore, false, func(_ *world, p *process) { p.fault = puts }},
		{"the store takes nothing any more", smelt.ErrStore, true, func(_ *world, p *process) {
			p.reach = at("caught up", func() { p.fault = puts })
		}},
		{"the store gives nothing of bronze", smelt.ErrStore, false, func(_ *world, p *process) {
			p.fault = func(op store.Op) store.Fault {
				if op.Name == "get" && strings.HasPrefix(op.Key, "bronze/") {
					return store.FailBefore
				}
				return store.None
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := past.clone(t)
			p := w.process()
			c.setup(w, p)
			stored := w.stored("")
			w.refused(p, backfill.Scope{ReferenceChanges: true}, c.kind)
			if left := w.stored(""); !slices.Equal(left, stored) && !c.open {
				t.Errorf("the store has\n%v\nwant\n%v", left, stored)
			}
			if c.open { // what is left is in nobody's way
				if r := w.run(backfill.Scope{ReferenceChanges: true}); r.Differing != 2 {
					t.Errorf("when the trouble is over: got %+v", r)
				}
				w.whole()
			}
		})
	}
}

// One that is interrupted ends soon, and deletes its files.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	past := history(t)
	for _, when := range []string{"rebuilt", "locked", "tagged"} {
		w := past.clone(t)
		heads, stored := w.heads(), w.stored("silver/")
		ctx, cancel := context.WithCancel(t.Context())
		p := w.process()
		p.reach = func(step string) error {
			if step == when {
				cancel()
			}
			return nil
		}
		if _, err := w.open(p, backfill.Scope{ReferenceChanges: true}).Run(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("at %q: got %v", when, err)
		}
		left := w.stored("silver/")
		if w.heads()[silverName] != heads[silverName] || !slices.Equal(left, stored) && when != "tagged" {
			t.Errorf("at %q: it left something", when)
		}
	}
}

// Two rows of a reference for one key would make two of each record.
func TestTwoRowsForAKey(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.locate("hel-001=Helsinki", "hel-001=Espoo", "nyc-001=New York")
	w.refused(w.process(), backfill.Scope{ReferenceChanges: true}, smelt.ErrPipeline, "more than one row for record 0:0")
}

// A backfill whose first files have been waiting for their commit for so long that
// they may be taken for orphans is refused, and leaves nothing behind.
func TestTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := history(t)
		w.locate("hel-001=Helsinki", "nyc-001=New York")
		p := w.process()
		p.reach = func(step string) error {
			if step == "caught up" {
				time.Sleep(table.FileAge + time.Hour)
			}
			return nil
		}
		objects := w.stored("silver/")
		w.refused(p, backfill.Scope{ReferenceChanges: true}, table.ErrOld, "run it again")
		if now := w.stored("silver/"); !slices.Equal(now, objects) {
			t.Errorf("objects %q, were %q", now, objects)
		}
	})
}
