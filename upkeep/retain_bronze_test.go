package upkeep_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt/backfill"
	"smelt/bronze"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/upkeep"
)

// lines are the offsets of the records that bronze still has, by partition.
func (l *lake) lines() map[int32][]int64 {
	l.t.Helper()
	out := map[int32][]int64{}
	reader := bronze.NewReader(l.Parts.Area.Store, "p")
	for id := range int32(2) {
		for position := int64(-1); ; {
			refs, err := reader.After(l.t.Context(), id, position, 1)
			if err != nil {
				l.t.Fatal(err)
			}
			if len(refs) == 0 {
				break
			}
			m, err := reader.Lines(l.t.Context(), refs[0], func(line []byte) error {
				decoded, err := bronze.Decode(line)
				out[id] = append(out[id], decoded.Record.Offset)
				return err
			})
			if err != nil {
				l.t.Fatal(err)
			}
			position = m.End
		}
	}
	return out
}

// fill sends a reading to each partition, an hour apart, in objects of their own.
func (l *lake) fill(hours int) {
	l.t.Helper()
	for range 2 * hours {
		l.send("a", time.Now())
		l.drain()
		time.Sleep(time.Hour / 2)
	}
}

// TestRetainBronze retires records below every position that silver may go back to, except those in quarantine. Retired
// records are not replayed.
func TestRetainBronze(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := openLakeOf(t, "bronze: 15d")
		l.fill(3)
		const set = int64(3) // a record of partition 0 that is set aside
		l.append(`{"id":"later","place":"a","v":1}`)
		l.drain()
		tagged, _ := l.load(silverName).Current()
		if err := l.Parts.Area.Lake.Tag(t.Context(), silverName, "mine", tagged.ID, 0); err != nil {
			t.Fatal(err)
		}
		l.fill(26)
		time.Sleep(keepBronze)
		l.fill(1)
		if l.retain(); l.lines()[1][0] > 1 {
			t.Errorf("silver may go back to its first snapshot, and yet there is only %v", l.lines())
		}
		l.expire()
		l.retain()
		if got := l.lines(); !slices.Equal(got[0], append([]int64{set}, sequence(4, 30)...)) || !slices.Equal(got[1], sequence(3, 29)) {
			t.Errorf("below the tag's position, but for what is in quarantine: %v are left", got)
		}
		l.verify()

		if err := l.Parts.Area.Lake.Untag(t.Context(), silverName, "mine"); err != nil {
			t.Fatal(err)
		}
		for range 55 { // so that there is something to expire
			l.send("a", time.Now())
			l.drain()
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Hour) // longer than the grace of expiry
		l.expire()
		held, err := l.Parts.Locker.TryLock(t.Context(), "backfill.p")
		if err != nil {
			t.Fatal(err)
		}
		before := l.lines()
		if lost := l.retain(); !slices.Contains(lost, "bronze.p: a backfill is under way") || !slices.Equal(l.lines()[0], before[0]) {
			t.Errorf("beside a backfill: %q, and %v are left", lost, l.lines())
		}
		held()
		l.retain()
		if got := l.lines(); !slices.Equal(got[0][:2], []int64{set, 30}) || got[1][0] != 29 {
			t.Errorf("without the tag: %v are left", got)
		}
		l.verify()

		l.trace(0, set, "is in quarantine")
		if l.clean() == 0 {
			t.Error("no object was deleted")
		}
		l.trace(1, 5, "retired: records below offset 29 were removed (retain: bronze) and cannot be replayed")
		l.trace(1, 5, "is in silver and gold")

		// Bronze has retired 29 readings of each partition.
		l.locate("Oulu")
		plan := l.plan(backfill.Scope{ReferenceChanges: true})
		if want := " · 58 rows can no longer be replayed: their records were retired (retain: bronze)"; plan.Retired != 58 || !strings.HasSuffix(plan.String(), want) {
			t.Errorf("the plan is %s", plan)
		}
		r := l.backfill(backfill.Scope{ReferenceChanges: true})
		if r.Retired != 58 || r.Replayed != int64(len(l.sent))-58 || r.Differing != r.Replayed || r.Departed != 0 {
			t.Errorf("a backfill of what has gone, among others: %+v", r)
		}
		cities := map[string]int{}
		for _, city := range l.rows() {
			cities[city]++
		}
		if cities["Espoo"] != 58 || cities["Oulu"] != len(l.sent)-58 {
			t.Errorf("rows by city: %v", cities)
		}
		if r := l.backfill(backfill.Scope{ReferenceChanges: true}); r.Retired+r.Replayed != 0 {
			t.Errorf("a second one: %+v", r)
		}
		if r := l.backfill(backfill.Scope{Quarantined: true}); r.Replayed != 1 || r.Retired != 0 {
			t.Errorf("a backfill of quarantine: %+v", r)
		}
		l.verify()
	})
}

// clean deletes the objects without remaining records, after the grace period, and returns their number.
func (l *lake) clean() (objects int) {
	l.t.Helper()
	time.Sleep(bronze.DefaultGrace + time.Second)
	m := bronze.NewMerger(bronze.MergerConfig{Pipeline: "p", Store: l.Parts.Area.Store, Log: l.Parts.Log})
	plan, err := m.Plan(l.t.Context(), nil, time.Now())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, left := range plan.Leftovers {
		if err := m.Clean(l.t.Context(), left); err != nil {
			l.t.Fatal(err)
		}
		objects += len(left.Keys)
	}
	return objects
}

// rows are the cities of silver's rows, by id.
func (l *lake) rows() map[string]string {
	l.t.Helper()
	rows, err := l.Rows(l.t.Context(), l.session, silverName, []string{"id", "city"}, "cells")
	if err != nil {
		l.t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range rows {
		out[r[0]] = r[1]
	}
	return out
}

// sequence is the numbers from one to another, both inclusive.
func sequence(from, to int64) (out []int64) {
	for n := from; n <= to; n++ {
		out = append(out, n)
	}
	return out
}

// What retention of bronze keeps records for are the rejects that quarantine has, and
// those that it had before some were released.
func TestRejects(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(2)
	released := r.files(readingsQuarantine)
	q := r.load(readingsQuarantine)
	have, _, _, err := ledger.Read[ledger.Quarantine](q)
	if err != nil {
		t.Fatal(err)
	}
	change := table.Change{Remove: released[:1]}
	if err := ledger.Write(&change, have); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Commit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	r.stream(1)

	files, err := upkeep.Rejects(t.Context(), r.config)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Key)
	}
	var want []string
	for _, f := range append(released, r.files(readingsQuarantine)...) {
		want = append(want, f.Key)
	}
	slices.Sort(got)
	slices.Sort(want)
	if want = slices.Compact(want); len(want) != 3 || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
