package backfill_test

import (
	"testing"

	"smelt/backfill"
)

// Columns may be called as those that smelt reads files by.
func TestColumnNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"filename", "path", "n", "r", "f", "s", "file", "key", "q", "happened", "piece"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t)
			p.Silver.SQL = `SELECT id AS "` + name + `", sensor_id, v::BIGINT AS v, ts, city, _partition_id, _partition_offset
FROM bronze.readings LEFT JOIN reference.locations USING (sensor_id)`
			w := setup(t, p)
			w.add("a hel-001 1 2026-11-01T10:00:00Z", "b nyc-001 2 2026-11-01T10:00:00Z")
			w.locate("hel-001=Helsinki", "nyc-001=New York")
			w.run(backfill.Scope{Where: `"` + name + `" = 'a'`})
			same(t, "rows", w.rows(silverName, name, "city"), "a Helsinki", "b New York")
		})
	}
}
