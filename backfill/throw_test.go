package backfill_test

import (
	"strings"
	"testing"

	"smelt/backfill"
)

// Records on which silver.sql throws are released once it is corrected. A backfill with
// SQL that throws on some rows moves these to quarantine, and the others are corrected.
func TestSQLErrorIsReleased(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	good := p.Silver.SQL
	throws := strings.Replace(good, "v::BIGINT AS v", "(CASE WHEN v = 13 THEN CAST(id AS INTEGER) ELSE v END)::BIGINT AS v", 1)
	p.Silver.SQL = throws
	w := setup(t, p)
	w.add("a hel-001 1 2026-11-01T10:00:00Z", "b hel-001 13 2026-11-01T10:00:00Z", "c nyc-001 3 2026-11-01T10:00:00Z")
	same(t, "rejected", w.rows(quarantineName, "_partition_offset", "reason", "field"), "1 sql error id")
	w.whole()

	p.Silver.SQL = good
	w.start()
	if r := w.run(backfill.Scope{Quarantined: true, Reason: "sql error"}); r.Entered != 1 || r.Released["sql error"] != 1 {
		t.Errorf("got %+v", r)
	}
	w.whole()
	same(t, "silver", w.rows(silverName, "_partition_offset", "v"), "0 1", "1 13", "2 3")

	p.Silver.SQL = throws
	w.start()
	if r := w.run(backfill.Scope{All: true}); r.Departed != 1 || r.Rejected["sql error"] != 1 {
		t.Errorf("got %+v", r)
	}
	w.whole()
	same(t, "rejected again", w.rows(quarantineName, "_partition_offset", "reason"), "1 sql error")
}
