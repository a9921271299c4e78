package backfill_test

import (
	"testing"

	"smelt/backfill"
)

// A pipeline that has no references any more is not held to a version of theirs.
func TestWithoutReferences(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.run(backfill.Scope{ReferenceChanges: true})
	w.pipeline = newPipeline(t)
	w.pipeline.References = nil
	w.pipeline.Silver.SQL = `SELECT id, sensor_id, v::BIGINT AS v, ts, NULL::VARCHAR AS city, _partition_id, _partition_offset FROM bronze.readings`
	w.silver = nil
	w.add("h hel-001 8 2026-11-02T13:00:00Z")
	w.whole()
	w.run(backfill.Scope{All: true})
	w.whole()
}
