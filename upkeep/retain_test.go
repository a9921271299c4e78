package upkeep_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
	"smelt/upkeep"
)

// TestRetention runs a line for weeks, with late events, duplicates, rejects, rollbacks, backfills and changes of the model.
// Frozen windows of gold never change, and the receipt adds up.
func TestRetention(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	synctest.Test(t, func(t *testing.T) {
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		l := openLake(t)
		const step, steps = 22 * time.Hour, 36
		var before map[time.Time]string
		var floor time.Time
		cleaned := 0 // objects of bronze
		for i := range steps {
			time.Sleep(step)
			what := l.happen(rng, i)
			l.drain()
			if i > 0 {
				l.checkFrozen(what, before, floor)
			}
			if lost := l.retain(); len(lost) > 0 {
				t.Errorf("step %d, %s: %v", i, what, lost)
			}
			l.drain()
			l.expire()
			cleaned += l.clean()
			if i%9 == 8 {
				l.verify()
			}
			before, floor = l.windows(), l.floor()
		}
		if l.verify(); cleaned == 0 {
			t.Error("nothing went from bronze")
		}
		l.checkOld()
	})
}

// happen lets something happen, and says what.
func (l *lake) happen(rng *rand.Rand, i int) string {
	now := time.Now()
	for range 1 + rng.IntN(5) {
		l.send([]string{"a", "b"}[rng.IntN(2)], now.Add(-time.Duration(rng.Int64N(int64(12*time.Hour)))))
	}
	switch rng.IntN(12) {
	case 0, 1:
		l.send("a", now.Add(-time.Duration(rng.Int64N(int64(30*day)))))
		return "a late event"
	case 2:
		l.append(`{"id":"x"}`)
		return "an event that does not fit"
	case 3:
		l.append(`{"id":"1","place":"a","v":1,"ts":"` + l.sent["1"].UTC().Format(time.RFC3339Nano) + `"}`)
		return "a duplicate"
	case 4:
		l.restart([]string{hourly, other}[i%2])
		return "another model"
	case 5:
		if i == 0 {
			return "nothing"
		}
		l.locate([]string{"Espoo", "Oulu", "Vaasa"}[i%3])
		l.backfill(backfill.Scope{All: true})
		return "a backfill"
	case 6:
		if i == 0 {
			return "nothing"
		}
		l.rollBack(rng)
		return "a rollback"
	}
	return "nothing"
}

// checkFrozen compares the windows that were frozen before, and still are.
func (l *lake) checkFrozen(what string, before map[time.Time]string, floor time.Time) {
	l.t.Helper()
	if now := l.floor(); now.Before(floor) { // after a rollback
		floor = now
	}
	after := l.windows()
	for w, rows := range before {
		// A column that is new is NULL in what stays.
		if got := after[w]; w.Before(floor) && got != rows && strings.ReplaceAll(got, ",\n", "\n") != rows {
			l.t.Errorf("%s: the frozen window %s is %q, and was %q", what, w, got, rows)
		}
	}
	for w := range after {
		if _, there := before[w]; !there && w.Before(floor) {
			l.t.Errorf("%s: the window %s came, before the floor %s", what, w, floor)
		}
	}
}

// checkOld checks that old data was removed, within a file's day.
func (l *lake) checkOld() {
	l.t.Helper()
	for w := range l.windows() {
		if age := time.Since(w); age > keepGold+day {
			l.t.Errorf("gold has a window of %s ago", age)
		}
	}
	t := l.load(silverName)
	current, _ := t.Current()
	files, err := t.Files(l.t.Context(), current.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range files {
		if _, newest, _ := f.Range("ts"); time.Since(newest) > keepSilver+day {
			l.t.Errorf("silver has a file whose newest event is of %s", newest)
		}
	}
	if retired := read[ledger.Silver](l, silverName).Retired; retired == 0 {
		l.t.Error("nothing was retired")
	}
}

// TestRetainWaits has silver keep what gold does not have yet.
func TestRetainWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := openLake(t)
		l.send("a", time.Now())
		l.drain()
		time.Sleep(keepSilver + day)
		l.send("a", time.Now().Add(-keepSilver-time.Hour)) // late, and too old at once
		stages := l.Line.Gold
		l.Line.Gold = nil
		l.drain()
		want := []string{"silver.p: gold.p_hourly does not have all of it yet"}
		if got := l.retain(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		l.Line.Gold = stages
		l.drain()
		if got := l.retain(); len(got) > 0 {
			t.Errorf("got %q, want none", got)
		}
		if n := len(l.windows()); n != 2 {
			t.Errorf("gold has %d windows, want both", n)
		}
		l.verify()
		if s := l.verify().Receipt.String(); !strings.HasPrefix(s, "bronze 2 = silver 0 + quarantine 0 + retired 2 ✓") {
			t.Errorf("the receipt is %s", s)
		}
		l.trace(1, 0, "is in bronze alone: its row was retired, as those of before 2000-01-02 00:00:00 UTC are (retain: silver)")
		l.send("a", time.Now().Add(-keepSilver-time.Hour))
		l.drain()
		l.trace(1, 1, "is in silver and gold")
		l.trace(1, 1, "it does not change, and later events do not count in it")
		l.verify()
	})
}

// TestRetainWaitsForTheEdge: silver keeps its rows until gold has the whole window of the cutoff, which is then frozen.
func TestRetainWaitsForTheEdge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := openLake(t)
		l.send("a", time.Now())
		l.drain()
		time.Sleep(keepSilver + day + 30*time.Minute)
		l.send("a", time.Now().Add(-keepSilver+15*time.Minute)) // young enough, but not its window
		stages := l.Line.Gold
		l.Line.Gold = nil
		l.drain()
		want := []string{"silver.p: gold.p_hourly does not have all of it yet"}
		if got := l.retain(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		l.Line.Gold = stages
		l.drain()
		if got := l.retain(); len(got) > 0 {
			t.Errorf("got %q, want none", got)
		}
		if n := len(l.windows()); n != 2 {
			t.Errorf("gold has %d windows, want both", n)
		}
		l.verify()
	})
}

// TestRetainLonger: retention gets longer. Frozen windows stay frozen, and later data is retired when it is due.
func TestRetainLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := openLake(t)
		l.send("a", time.Now())
		l.drain()
		time.Sleep(keepGold + day)
		l.send("a", time.Now())
		l.drain()
		l.retain()
		silverFloor, goldFloor := read[ledger.Silver](l, silverName).Retained, read[ledger.Gold](l, goldName).Retained
		l.retains = []string{"silver: 30d", "gold: 40d"}
		l.restart(hourly)
		before := l.windows()
		l.send("a", time.Now().Add(-50*day))
		l.drain()
		time.Sleep(day)
		if lost := l.retain(); len(lost) > 0 {
			t.Errorf("left for later: %q", lost)
		}
		s := read[ledger.Silver](l, silverName)
		if s.Retired != 2 || !s.Retained.Equal(silverFloor) || silverFloor.IsZero() {
			t.Errorf("silver: %d retired, from %s on it is whole, want 2 and %s", s.Retired, s.Retained, silverFloor)
		}
		if g := read[ledger.Gold](l, goldName); !g.Retained.Equal(goldFloor) || goldFloor.IsZero() {
			t.Errorf("gold is kept from %s on, want %s", g.Retained, goldFloor)
		}
		l.restart(other)
		l.send("a", time.Now().Add(-keepGold))
		l.drain()
		if got := l.windows(); len(got) != len(before) {
			t.Errorf("gold has %d windows, want %d", len(got), len(before))
		}
		l.verify()
	})
}

// TestRetainPlan has the plan say what would go, and change nothing.
func TestRetainPlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := openLake(t)
		l.send("a", time.Now())
		l.send("b", time.Now())
		l.drain()
		time.Sleep(keepGold + day)
		before := l.load(silverName).MetadataLocation()
		got := map[string]string{}
		for _, task := range upkeep.Retention(l.config()) {
			jobs, err := task.Plan(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				got[j.Table] = j.What
			}
		}
		if got["silver.p"] != "2 rows from before 2000-01-12 00:00:00" || got["gold.p_hourly"] != "2 rows from before 2000-01-02 00:00:00" {
			t.Errorf("got %q", got)
		}
		if l.load(silverName).MetadataLocation() != before {
			t.Error("the plan has changed silver")
		}
	})
}

// errDied is what a process gets from the catalog when it dies.
var errDied = errors.New("died")

// dying is a catalog whose swap fails, before or after its effect.
type dying struct {
	table.Catalog
	after bool
	left  int // swaps until then; negative: never
}

func (d *dying) Swap(ctx context.Context, moves ...smelt.Move) error {
	d.left--
	if d.left != -1 {
		return d.Catalog.Swap(ctx, moves...)
	}
	if d.after {
		if err := d.Catalog.Swap(ctx, moves...); err != nil {
			return err
		}
	}
	return errDied
}

// TestRetainDeath has retention die at each of its commits, before and after them.
func TestRetainDeath(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for commit := range 2 { // silver's, and gold's
			synctest.Test(t, func(t *testing.T) {
				l := openLake(t)
				for i := range 4 {
					l.send("a", time.Now())
					l.send("b", time.Now())
					l.drain()
					if i == 1 {
						time.Sleep(keepGold + day)
					}
				}
				whole := l.windows()
				catalog := &dying{table.NewMemoryCatalog(), after, commit}
				for _, name := range []string{silverName, silver.QuarantineName("p"), goldName} {
					if err := catalog.Catalog.Swap(t.Context(), smelt.Move{Table: name, To: l.load(name).MetadataLocation()}); err != nil {
						t.Fatal(err)
					}
				}
				l.Parts.Area.Lake = table.Open(l.Parts.Area.Store, catalog, "s3://test")
				if _, err := retainOnce(t.Context(), l.config()); !errors.Is(err, errDied) {
					t.Fatalf("got %v, want it to die", err)
				}
				l.restart(hourly)
				l.drain()
				l.verify()
				l.retain()
				l.drain()
				if s := l.verify(); s.Retired != 4 || s.Silver != 4 {
					t.Errorf("the receipt is %s", s.Receipt)
				}
				if got := l.windows(); len(got) != len(whole)-1 {
					t.Errorf("gold has %d windows, want all but the oldest of %d", len(got), len(whole))
				}
			})
		}
	}
}
