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
		if _, err := c.Current(t.Context(), "silver.none"); !errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("Current: got %v, want ErrNotFound", err)
		}
		if err := c.Swap(t.Context(), "silver.none", "s3://lake/a", "s3://lake/b"); !errors.Is(err, smelt.ErrExists) {
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
			err := c.Swap(t.Context(), s.name, s.old, s.new)
			if errors.Is(err, smelt.ErrExists) != s.conflict || (err != nil && !s.conflict) {
				t.Fatalf("step %d: got error %v, want a conflict: %v", i, err, s.conflict)
			}
			if got, err := c.Current(t.Context(), s.name); err != nil || got != s.want {
				t.Fatalf("step %d: got %q, %v, want %q", i, got, err, s.want)
			}
		}
		expectList(t, c, "gold.a", "silver.a")
	})

	t.Run("drop", func(t *testing.T) {
		c := open(t)
		for _, name := range []string{"silver.a", "silver.b"} {
			if err := c.Swap(t.Context(), name, "", "s3://lake/1"); err != nil {
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
		if _, err := c.Current(t.Context(), "silver.a"); !errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("Current: got %v, want ErrNotFound", err)
		}
		if err := c.Swap(t.Context(), "silver.a", "s3://lake/1", "s3://lake/2"); !errors.Is(err, smelt.ErrExists) {
			t.Errorf("a swap of what was dropped: got %v, want ErrExists", err)
		}
		expectList(t, c, "silver.b")
		if err := c.Swap(t.Context(), "silver.a", "", "s3://lake/3"); err != nil {
			t.Errorf("a table of that name anew: %v", err)
		}
	})

	for _, old := range []string{"", "s3://lake/0"} {
		t.Run(fmt.Sprintf("%d race from %q", racers, old), func(t *testing.T) {
			c := open(t)
			if old != "" {
				if err := c.Swap(t.Context(), "gold.race", "", old); err != nil {
					t.Fatal(err)
				}
			}
			won := race(t, c, old)
			if len(won) != 1 {
				t.Fatalf("%d writers won, want 1", len(won))
			}
			if got, err := c.Current(t.Context(), "gold.race"); err != nil || got != won[0] {
				t.Errorf("got %q, %v, want the winner's %q", got, err, won[0])
			}
		})
	}

	t.Run("a cancelled context", func(t *testing.T) {
		c := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Swap(ctx, "silver.a", "", "s3://lake/1"); err == nil || errors.Is(err, smelt.ErrExists) {
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

// race lets writers swap from one old location at once and returns the
// locations of those that won.
func race(t *testing.T, c table.Catalog, old string) []string {
	var (
		mu  sync.Mutex
		won []string
		wg  sync.WaitGroup
	)
	for i := range racers {
		wg.Go(func() {
			location := fmt.Sprintf("s3://lake/race-%d", i)
			err := c.Swap(t.Context(), "gold.race", old, location)
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

func expectList(t *testing.T, c table.Catalog, want ...string) {
	t.Helper()
	if got, err := c.List(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("List: got %v, %v, want %v", got, err, want)
	}
}
