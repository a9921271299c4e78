package silver

import (
	"fmt"

	"smelt"
	"smelt/bronze"
	"smelt/internal/ledger"
)

// whole fails if retention has removed records of bronze that the table does not have yet
// but has read past in that partition: it would miss them silently. A table that has read
// nothing of the partition starts with the records that are left.
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
		s.Log.Warn("the table starts without records that retain: has removed from bronze", "pipeline", s.Pipeline.Name,
			"partition", ref.Partition, "records", m.Retired.Count, "below", m.End)
	}
	return nil
}

// retire counts the records that a new table finds retired, as if it had had their rows.
// Their event times are unknown, but not much later than their write times.
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
