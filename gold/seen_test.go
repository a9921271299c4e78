package gold_test

import (
	"testing"

	"smelt/internal/ledger"
	"smelt/internal/table"
)

// A silver snapshot that changed nothing, when it was seen, is one to compute from
// when silver or gold was rolled back since.
func TestRollbackToWhatWasSeen(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("Espoo 1 2026-11-29T10:05:00Z")
	l.refresh()
	first, _ := l.load("gold.p_hourly").Current()
	l.commit(func(*table.Table, []table.File) table.Change { return table.Change{} })
	l.refresh()
	seen, _ := l.load("silver.p").Current()
	l.add("Oulu 2 2026-11-29T10:15:00Z")
	l.refresh()

	back := func(name string, to int64) {
		t.Helper()
		tbl := l.load(name)
		if _, err := tbl.Rollback(t.Context(), to, ledger.Carry(tbl, to), ""); err != nil {
			t.Fatal(err)
		}
	}
	back("silver.p", seen.ID)
	l.refresh()

	l.commit(func(*table.Table, []table.File) table.Change { return table.Change{} })
	l.refresh()
	l.add("Vaasa 3 2026-11-29T10:25:00Z")
	l.refresh()
	l.commit(func(*table.Table, []table.File) table.Change { return table.Change{} })
	l.refresh()
	back("gold.p_hourly", first.ID)
	l.refresh()
}
