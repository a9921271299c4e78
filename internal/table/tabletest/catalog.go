// Package tabletest holds the contract that every table.Catalog passes.
package tabletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"smelt"
	"smelt/internal/table"
)

// racers is how many writers race for one swap.
const racers = 50

// RunCatalog checks a catalog against its contract. open returns a catalog that
// has no tables; it cleans up after itself with t.Cleanup.
func RunCatalog(t *testing.T, open func(t *testing.T) table.Catalog) {
	t.Run("a table that is not there", func(t *testing.T) {
		c := open(t)
		expectCurrent(t, c, "silver.none", "")
		if err := c.Swap(t.Context(), smelt.Move{Table: "silver.none", From: "s3://lake/a", To: "s3://lake/b"}); !errors.Is(err, smelt.ErrExists) {
			t.Errorf("Swap: got %v, want ErrExists", err)
		}
		expectList(t, c)
	})

	t.Run("create and move", func(t *testing.T) {
		c := open(t)
		steps := []struct {
			name, old, new string
			conflict       bool
			want           string
		}{
			{"silver.a", "", "s3://lake/1", false, "s3://lake/1"},
			{"silver.a", "", "s3://lake/2", true, "s3://lake/1"},
			{"silver.a", "s3://lake/1", "s3://lake/3", false, "s3://lake/3"},
			{"silver.a", "s3://lake/1", "s3://lake/4", true, "s3://lake/3"},
			{"gold.a", "", "s3://lake/5", false, "s3://lake/5"},
			{"silver.a", "s3://lake/3", "s3://lake/6", false, "s3://lake/6"},
		}
		for i, s := range steps {
			err := c.Swap(t.Context(), smelt.Move{Table: s.name, From: s.old, To: s.new})
			if errors.Is(err, smelt.ErrExists) != s.conflict || (err != nil && !s.conflict) {
				t.Fatalf("step %d: got error %v, want a conflict: %v", i, err, s.conflict)
			}
			expectCurrent(t, c, s.name, s.want)
		}
		expectList(t, c, "gold.a", "silver.a")
	})

	t.Run("drop", func(t *testing.T) {
		c := open(t)
		for _, name := range []string{"silver.a", "silver.b"} {
			if err := c.Swap(t.Context(), smelt.Move{Table: name, From: "", To: "s3://lake/1"}); err != nil {
				t.Fatal(err)
			}
		}
		steps := []struct {
			name, location string
			want           error
		}{
			{"silver.a", "s3://lake/0", smelt.ErrExists},
			{"silver.none", "s3://lake/1", smelt.ErrNotFound},
			{"silver.a", "s3://lake/1", nil},
			{"silver.a", "s3://lake/1", smelt.ErrNotFound},
		}
		for i, s := range steps {
			if err := c.Drop(t.Context(), s.name, s.location); !errors.Is(err, s.want) {
				t.Errorf("step %d: got %v, want %v", i, err, s.want)
			}
		}
		expectCurrent(t, c, "silver.a", "")
		if err := c.Swap(t.Context(), smelt.Move{Table: "silver.a", From: "s3://lake/1", To: "s3://lake/2"}); !errors.Is(err, smelt.ErrExists) {
			t.Errorf("a swap of what was dropped: got %v, want ErrExists", err)
		}
		expectList(t, c, "silver.b")
		if err := c.Swap(t.Context(), smelt.Move{Table: "silver.a", From: "", To: "s3://lake/3"}); err != nil {
			t.Errorf("a table of that name anew: %v", err)
		}
	})

	for _, old := range []string{"", "s3://lake/0"} {
		t.Run(fmt.Sprintf("%d race from %q", racers, old), func(t *testing.T) {
			c := open(t)
			if old != "" {
				if err := c.Swap(t.Context(), smelt.Move{Table: "gold.race", From: "", To: old}); err != nil {
					t.Fatal(err)
				}
			}
			won := race(t, c, old)
			if len(won) != 1 {
				t.Fatalf("%d writers won, want 1", len(won))
			}
			expectCurrent(t, c, "gold.race", won[0])
		})
	}

	t.Run("several moves, all or none", func(t *testing.T) {
		c := open(t)
		two := func(from, a, b string) error {
			return c.Swap(t.Context(), smelt.Move{Table: "silver.a", From: from, To: a}, smelt.Move{Table: "quarantine.a", From: from, To: b})
		}
		steps := []struct {
			err      error
			conflict bool
			a, b     string
		}{
			{two("", "s3://lake/1", "s3://lake/1"), false, "s3://lake/1", "s3://lake/1"},
			{two("", "s3://lake/2", "s3://lake/2"), true, "s3://lake/1", "s3://lake/1"},
			{two("s3://lake/1", "s3://lake/3", "s3://lake/3"), false, "s3://lake/3", "s3://lake/3"},
			{c.Swap(t.Context(), smelt.Move{Table: "quarantine.a", From: "s3://lake/3", To: "s3://lake/4"}), false, "s3://lake/3", "s3://lake/4"},
			{two("s3://lake/3", "s3://lake/5", "s3://lake/5"), true, "s3://lake/3", "s3://lake/4"},
			{c.Swap(t.Context(), smelt.Move{Table: "silver.a", From: "s3://lake/3", To: "s3://lake/6"}, smelt.Move{Table: "gold.a", To: "s3://lake/6"}), false, "s3://lake/6", "s3://lake/4"},
			{c.Swap(t.Context(), smelt.Move{Table: "silver.a", From: "s3://lake/6", To: "s3://lake/7"}, smelt.Move{Table: "gold.a", To: "s3://lake/7"}), true, "s3://lake/6", "s3://lake/4"},
		}
		for i, s := range steps {
			if errors.Is(s.err, smelt.ErrExists) != s.conflict || s.err != nil && !s.conflict {
				t.Errorf("step %d: got error %v, want a conflict: %v", i, s.err, s.conflict)
			}
		}
		want := []string{"s3://lake/6", "", "s3://lake/4"}
		if got, err := c.Current(t.Context(), "silver.a", "silver.none", "quarantine.a"); err != nil || !slices.Equal(got, want) {
			t.Errorf("in the end: got %v, %v, want %v", got, err, want)
		}
	})

	t.Run(fmt.Sprintf("%d race for two tables, named in either order", racers), func(t *testing.T) {
		c := open(t)
		start := []smelt.Move{{Table: "gold.a", To: "s3://lake/0"}, {Table: "gold.b", To: "s3://lake/0"}}
		if err := c.Swap(t.Context(), start...); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		var readers sync.WaitGroup
		readers.Go(func() {
			for {
				if got, err := c.Current(t.Context(), "gold.b", "gold.a"); err != nil || got[0] != got[1] {
					t.Errorf("a reader sees %v, %v: not one moment", got, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
		won := racing(t, func(i int, location string) error {
			moves := []smelt.Move{{Table: "gold.a", From: "s3://lake/0", To: location}, {Table: "gold.b", From: "s3://lake/0", To: location}}
			if i%2 == 0 {
				slices.Reverse(moves)
			}
			return c.Swap(t.Context(), moves...)
		})
		close(done)
		readers.Wait()
		if len(won) != 1 {
			t.Fatalf("%d writers won, want 1", len(won))
		}
		expectCurrent(t, c, "gold.a", won[0])
		expectCurrent(t, c, "gold.b", won[0])
	})

	t.Run("a cancelled context", func(t *testing.T) {
		c := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Swap(ctx, smelt.Move{Table: "silver.a", From: "", To: "s3://lake/1"}); err == nil || errors.Is(err, smelt.ErrExists) {
			t.Errorf("Swap: got %v, want an error that is no conflict", err)
		}
		if err := c.Drop(ctx, "silver.a", "s3://lake/1"); err == nil || errors.Is(err, smelt.ErrExists) || errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("Drop: got %v, want an error that is no answer", err)
		}
		if _, err := c.Current(ctx, "silver.a"); err == nil || errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("Current: got %v, want an error that is no answer", err)
		}
	})
}

// race lets writers swap a table from one old location at once and returns the
// locations of those that won.
func race(t *testing.T, c table.Catalog, old string) []string {
	return racing(t, func(_ int, location string) error {
		return c.Swap(t.Context(), smelt.Move{Table: "gold.race", From: old, To: location})
	})
}

// racing lets writers swap at once, each to a location of its own, and returns those of
// the ones that won.
func racing(t *testing.T, swap func(i int, location string) error) []string {
	var (
		mu  sync.Mutex
		won []string
		wg  sync.WaitGroup
	)
	for i := range racers {
		wg.Go(func() {
			location := fmt.Sprintf("s3://lake/race-%d", i)
			err := swap(i, location)
			switch {
			case err == nil:
				mu.Lock()
				won = append(won, location)
				mu.Unlock()
			case !errors.Is(err, smelt.ErrExists):
				t.Errorf("writer %d: got %v, want ErrExists", i, err)
			}
		})
	}
	wg.Wait()
	return won
}

// expectCurrent checks where a table is; "": there is none.
func expectCurrent(t *testing.T, c table.Catalog, name, want string) {
	t.Helper()
	if got, err := c.Current(t.Context(), name); err != nil || !slices.Equal(got, []string{want}) {
		t.Errorf("Current of %s: got %q, %v, want %q", name, got, err, want)
	}
}

func expectList(t *testing.T, c table.Catalog, want ...string) {
	t.Helper()
	if got, err := c.List(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("List: got %v, %v, want %v", got, err, want)
	}
}
