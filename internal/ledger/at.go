package ledger

import "smelt/internal/table"

// At fills a ledger as Read will once main is at a snapshot: from the nearest of
// its ancestors that has one. ok is false when none has.
func At[L Silver | Quarantine | Gold](t *table.Table, snapshot int64) (ledger L, ok bool, err error) {
	if s, ok := nearest(t, snapshot); ok {
		return Of[L](s)
	}
	return ledger, false, nil
}

// Carry is the property that a rollback to a snapshot sets: the ledger of that snapshot, so that the copy describes the same
// state. It is nil if no ancestor has one.
func Carry(t *table.Table, snapshot int64) map[string]string {
	if s, ok := nearest(t, snapshot); ok {
		return map[string]string{property: s.Summary[property]}
	}
	return nil
}

// Has says whether a snapshot has a ledger: whether smelt made it.
func Has(s table.Snapshot) bool {
	_, ok := s.Summary[property]
	return ok
}

func nearest(t *table.Table, snapshot int64) (table.Snapshot, bool) {
	for _, s := range t.AncestorsOf(snapshot) {
		if Has(s) {
			return s, true
		}
	}
	return table.Snapshot{}, false
}
