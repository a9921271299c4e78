package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"smelt/internal/pipetest"
)

// A keeper runs what is due, if no other process keeps the table. A failed task stays due, and does not hold back others.
func TestKeeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locks := pipetest.NewLocks()
		failing, planned := errors.New("the store is away"), map[string]int{}
		task := func(kind string, every time.Duration, err error) Task {
			return Task{Table: "silver.a", Kind: kind, Every: every, Plan: func(context.Context, time.Time) ([]Job, error) {
				planned[kind]++
				return nil, err
			}}
		}
		k := &Keeper{
			cfg: Config{Locker: locks, Log: slog.New(slog.DiscardHandler)}, table: "silver.a",
			tasks: []Task{task("rare", time.Hour, nil), task("failing", time.Hour, failing), task("often", time.Minute, nil)},
			next:  slices.Repeat([]time.Time{time.Now()}, 3), // all are due
		}
		step := func(want error, rare, fails, often int) {
			t.Helper()
			if _, err := k.Step(t.Context()); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			if planned["rare"] != rare || planned["failing"] != fails || planned["often"] != often {
				t.Errorf("planned %v", planned)
			}
		}
		unlock, err := locks.TryLock(t.Context(), Lock("silver.a"))
		if err != nil {
			t.Fatal(err)
		}
		step(nil, 0, 0, 0) // another process has it
		unlock()
		step(failing, 1, 1, 1)
		step(failing, 1, 2, 1)
		time.Sleep(2 * time.Minute)
		step(failing, 1, 3, 2)
		for _, d := range k.Due() {
			in := time.Until(d.Next)
			if most := map[string]time.Duration{"rare": 66 * time.Minute, "failing": 0, "often": 66 * time.Second}[d.Kind]; in > most || in < most*8/11-2*time.Minute {
				t.Errorf("%s is due in %s", d.Kind, in)
			}
		}
	})
}

// A task that comes once an hour is done within two by processes that are killed each
// minute: the times that one has noted are those of the next.
func TestKeeperGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var done []time.Time
		task := Task{Table: "silver.a", Kind: KindOrphans, Every: time.Hour, Plan: func(context.Context, time.Time) ([]Job, error) {
			done = append(done, time.Now())
			return nil, nil
		}}
		began := time.Now()
		noted := []Due{
			{"silver.b", KindOrphans, began},                       // of another table
			{"silver.a", KindExpire, began},                        // of another kind
			{"silver.a", KindOrphans, began.Add(90 * time.Minute)}, // by a clock that was ahead
		}
		for life := range 120 {
			k := &Keeper{
				cfg: Config{Locker: pipetest.NewLocks(), Log: slog.New(slog.DiscardHandler)}, table: "silver.a",
				tasks: []Task{task}, next: []time.Time{time.Now().Add(time.Hour)}, // the latest that it may be drawn
			}
			if k.GoOn(noted); life == 0 && k.next[0] != began.Add(time.Hour) {
				t.Errorf("it is due at %s by what is not its own", k.next[0])
			}
			time.Sleep(time.Minute)
			if _, err := k.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			noted = k.Due()
		}
		if len(done) == 0 || done[0] != began.Add(time.Hour) || len(done) > 2 {
			t.Errorf("began at %s, done at %s", began, done)
		}
	})
}
