package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/store"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault store.Fault
		err   error // nil: none
		done  bool
		dead  bool
	}{
		{store.None, nil, true, false},
		{store.FailBefore, store.ErrInjected, false, false},
		{store.FailAfter, store.ErrInjected, true, false},
		{store.Crash, store.ErrCrash, false, true},
		{store.CrashAfter, store.ErrCrash, true, true},
	}
	calls := map[string]struct {
		op   store.Op
		call func(t *testing.T, s smelt.Store) error
		done func(t *testing.T, s smelt.Store) bool // nil: the call changes nothing
	}{
		"get": {op: store.Op{Name: "get", Key: "old"}, call: func(t *testing.T, s smelt.Store) error {
			body, _, err := s.Get(t.Context(), "old")
			if (body == nil) != (err != nil) {
				t.Errorf("get returned both a body and %v, or neither", err)
			}
			return err
		}},
		"stat": {op: store.Op{Name: "stat", Key: "old"}, call: func(t *testing.T, s smelt.Store) error {
			_, err := s.Stat(t.Context(), "old")
			return err
		}},
		"list": {op: store.Op{Name: "list", Key: "o"}, call: func(t *testing.T, s smelt.Store) error {
			_, err := s.List(t.Context(), "o", "", 5)
			return err
		}},
		"put": {op: store.Op{Name: "put", Key: "new"}, call: func(t *testing.T, s smelt.Store) error {
			return s.Put(t.Context(), "new", strings.NewReader("x"), smelt.PutOptions{IfAbsent: true})
		}, done: func(t *testing.T, s smelt.Store) bool { return exists(t, s, "new") }},
		"delete": {op: store.Op{Name: "delete", Key: "old"}, call: func(t *testing.T, s smelt.Store) error {
			return s.Delete(t.Context(), "old", "other")
		}, done: func(t *testing.T, s smelt.Store) bool { return !exists(t, s, "old") }},
	}
	for name, c := range calls {
		for _, tt := range tests {
			t.Run(fmt.Sprint(name, " fault ", tt.fault), func(t *testing.T) {
				t.Parallel()
				inner := store.NewMemory()
				for _, key := range []string{"old", "other"} {
					if err := inner.Put(t.Context(), key, strings.NewReader("x"), smelt.PutOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				var asked []store.Op
				s := store.NewFaulty(inner, func(op store.Op) store.Fault {
					asked = append(asked, op)
					return tt.fault
				})
				err := c.call(t, s)
				if !errors.Is(err, tt.err) {
					t.Errorf("got %v, want %v", err, tt.err)
				}
				if err != nil && (!errors.Is(err, store.ErrInjected) || !errors.Is(err, smelt.ErrStore)) {
					t.Errorf("%v is not marked as injected and the store's", err)
				}
				if c.done != nil && c.done(t, inner) != tt.done {
					t.Errorf("done: %v, want %v", !tt.done, tt.done)
				}
				if again := c.call(t, s); tt.dead && !errors.Is(again, store.ErrCrash) {
					t.Errorf("after a crash: %v", again)
				}
				if want := map[bool]int{false: 2, true: 1}[tt.dead]; len(asked) != want || asked[0] != c.op {
					t.Errorf("asked about %v, want %d times about %v", asked, want, c.op)
				}
			})
		}
	}
}

// TestLostAnswer says that a reply which is lost takes the store's answer along.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := store.NewFaulty(store.NewMemory(), func(store.Op) store.Fault { return store.FailAfter })
	if _, err := s.Stat(t.Context(), "missing"); !errors.Is(err, store.ErrInjected) || errors.Is(err, smelt.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func exists(t *testing.T, s smelt.Store, key string) bool {
	t.Helper()
	_, err := s.Stat(t.Context(), key)
	if err != nil && !errors.Is(err, smelt.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}
