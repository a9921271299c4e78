package backfill_test

import (
	"testing"

	"smelt/backfill"
)

// If silver.sql joins a reference by another value than the declared one, the rows of a changed key cannot be found by
// key.
func TestLookedUpOtherwise(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{
		"an expression":  "LEFT JOIN reference.locations AS l ON l.sensor_id = lower(b.sensor_id)",
		"another column": "LEFT JOIN reference.locations AS l ON l.sensor_id = b.id",
		"a second time": `LEFT JOIN reference.locations AS first ON first.sensor_id = b.sensor_id
			LEFT JOIN reference.locations AS l ON l.sensor_id = b.id`,
		"no key": "LEFT JOIN reference.locations AS l ON l.note = b.id",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t)
			p.Silver.SQL = "SELECT b.id, b.sensor_id, b.v::BIGINT AS v, b.ts, l.city, b._partition_id, b._partition_offset\nFROM bronze.readings AS b " + from
			w := setup(t, p)
			w.locate("hel-001=Espoo=hel-001", "nyc-001=New York")
			w.add("hel-001 HEL-001 1 2026-11-01T10:00:00Z")
			same(t, "cities", w.rows(silverName, "city"), "Espoo")
			w.locate("hel-001=Helsinki=hel-001", "nyc-001=New York")
			w.run(backfill.Scope{ReferenceChanges: true})
			same(t, "cities after the correction", w.rows(silverName, "city"), "Helsinki")
		})
	}
}
