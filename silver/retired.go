package silver

import (
	"fmt"

	"smelt"
	"smelt/bronze"
	"smelt/internal/ledger"
)

// whole refuses to read on where retention has let records of bronze go that the
// table has had: it would lack them without a word. A table that has read nothing
// of the partition begins with what there is.
func (s *Stage) whole(before ledger.Silver, refs []bronze.Ref, metas []bronze.Meta) error {
	for i, ref := range refs {
		m := metas[i]
		if m.Retired.Count == 0 {
			continue
		}
		if position, had := before.Position[ref.Partition]; had {
			return smelt.Mark(smelt.ErrStore, fmt.Errorf(
				"%d records of partition %d below offset %d were retired from bronze by retain:, but silver was rolled back to %d and would have to read them. Undo that (smelt rollback, to the tag that the rollback printed or to a snapshot of smelt history), or bring the objects of %s from before back from a backup",
				m.Retired.Count, ref.Partition, m.End, position, bronze.PartitionPrefix(ref.Pipeline, ref.Partition)))
		}
		s.Log.Warn("the table begins without records that retain: has let go from bronze", "pipeline", s.Pipeline.Name,
			"partition", ref.Partition, "records", m.Retired.Count, "below", m.End)
	}
	return nil
}

// retire accounts for the records that a new table finds retired, as if it had had
// their rows: nobody knows when their events were, but not much later than they
// were written.
func retire(after *ledger.Silver, metas []bronze.Meta) {
	for _, m := range metas {
		if m.Retired.Count == 0 {
			continue
		}
		after.Records += m.Retired.Count
		after.Tombstones += m.Retired.Tombstones
		after.Retired += m.Retired.Count - m.Retired.Tombstones
		if m.Written.After(after.Retained) {
			after.Retained = m.Written.UTC()
		}
	}
}
