package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"smelt/internal/ledger"
	"smelt/internal/table"
)

func TestRollbackPlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, tbl := memoryLake(t, "silver.a")
		tbl = step(t, tbl, 0) // of another engine
		foreign, _ := tbl.Current()
		tbl = step(t, tbl, 1000)
		early, _ := tbl.Current()
		tbl = step(t, tbl, 3000)
		late, _ := tbl.Current()
		command := rollbackCmd{Table: "silver.a"}

		plan, err := command.plan(tbl, late, early)
		if err != nil || !strings.Contains(plan, "2,000 records are read again") || !strings.Contains(plan, "of 2000-01-01 00:02:00 UTC, 2,468 rows") {
			t.Errorf("back: got %q, %v", plan, err)
		}
		if _, err := command.plan(tbl, late, foreign); err == nil || exitCode(err) != exitUsage {
			t.Errorf("to where nobody knows the positions: got %v, want a usage error", err)
		}
		if err := l.rollBack(t.Context(), "silver.a", late, early, "smelt-rollback-1"); err != nil {
			t.Fatal(err)
		}
		if tbl, err = l.Tables.Load(t.Context(), "silver.a"); err != nil {
			t.Fatal(err)
		}
		plan, err = command.plan(tbl, early, late)
		if err != nil || !strings.Contains(plan, "2,000 records more have been read there") {
			t.Errorf("and forth: got %q, %v", plan, err)
		}
	})
}

// The ledger goes along, and so does what was built on what was shown, but a
// table that was moved elsewhere is left alone.
func TestRollBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, tbl := memoryLake(t, "silver.a")
		var all []table.Snapshot
		for n := range int64(3) {
			tbl = step(t, tbl, 1000*(n+1))
			s, _ := tbl.Current()
			all = append(all, s)
		}
		if err := l.rollBack(t.Context(), "silver.a", all[1], all[0], "smelt-rollback-1"); err != nil {
			t.Fatal(err)
		}
		tbl, err := l.Tables.Load(t.Context(), "silver.a")
		if err != nil {
			t.Fatal(err)
		}
		if now, _ := tbl.Current(); now.ID != all[0].ID || tbl.Refs()["smelt-rollback-1"] != all[2].ID {
			t.Errorf("main is at %d and the tag at %d, want %d and %d", now.ID, tbl.Refs()["smelt-rollback-1"], all[0].ID, all[2].ID)
		}
		if read, _, ok, err := ledger.Read[ledger.Silver](tbl); err != nil || !ok || read.Records != 1000 {
			t.Errorf("got a ledger of %d records, %v, want 1000", read.Records, err)
		}
		if got, want := tbl.Properties()["smelt.ledger"], all[0].Summary["smelt.ledger"]; got != want {
			t.Errorf("the copy of the ledger is %s, want %s", got, want)
		}
		if err := l.rollBack(t.Context(), "silver.a", all[2], all[1], "smelt-rollback-2"); err == nil || !strings.Contains(err.Error(), "was moved away from snapshot") {
			t.Errorf("from where main is no more: got %v", err)
		}
	})
}
