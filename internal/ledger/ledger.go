// Package ledger is what smelt writes into the summaries of its snapshots: how
// far a table has got, and the running counts that make the receipt. A table's
// ledger is that of the nearest ancestor of main that has one (compaction and
// other engines' commits have none), so that a rollback takes it along. A copy
// among the table's properties stands in when no ancestor has it any more.
package ledger

import (
	"encoding/json"
	"fmt"
	"time"

	"smelt/internal/table"
)

// property holds the ledger, as JSON, in a snapshot's summary and among a
// table's properties.
const property = "smelt.ledger"

// What the snapshot of a backfill says of itself, beside the ledger.
const (
	BackfillID    = "smelt.backfill"
	BackfillScope = "smelt.backfill-scope" // as the flags of the command
)

// Maintenance is what the snapshot of maintenance says of itself: its kind.
const Maintenance = "smelt.maintenance"

// Silver is the ledger of a silver table. The counts are of all records up to
// the position. Silver and quarantine are committed together.
type Silver struct {
	Position         map[int32]int64  `json:"position"`          // by partition: the next offset to read
	Records          int64            `json:"records"`           // read from bronze
	Tombstones       int64            `json:"tombstones"`        // of them
	Quarantined      map[string]int64 `json:"quarantined"`       // by reason
	Unmatched        int64            `json:"unmatched"`         // rows that found no reference row
	Newest           time.Time        `json:"newest"`            // event time; zero without events
	ReferenceVersion int64            `json:"reference_version"` // of the last step
	// ReferenceFloor is the lowest version that may still be committed: that of the
	// last backfill, which an older one would undo. 0: any.
	ReferenceFloor int64 `json:"reference_floor,omitempty"`
	// Corrected is the version up to which every change of a reference row is in
	// every row that it concerns. 0: none was looked for.
	Corrected int64 `json:"corrected,omitempty"`

	// Retired is how many rows retention has taken out of the table, and Retained the
	// event time from which on it has taken none: rows of before may be gone.
	Retired  int64     `json:"retired,omitempty"`
	Retained time.Time `json:"retained,omitzero"`

	// Quarantine is the ID in the ledger of the quarantine table that belongs to this
	// state of silver. "": nothing was ever rejected.
	Quarantine string `json:"quarantine_id,omitempty"`
}

// Rows is how many rows silver should have: records read, without rejects, tombstones and retired rows.
func (s Silver) Rows() int64 { return s.Records - s.Tombstones - s.Rejected() - s.Retired }

// Rejected is how many records were rejected, for any reason.
func (s Silver) Rejected() int64 {
	var n int64
	for _, c := range s.Quarantined {
		n += c
	}
	return n
}

// Quarantine is the ledger of a quarantine table. The counts are in silver's.
type Quarantine struct {
	ID string `json:"id"` // of this state of the table; silver's ledger names it
}

// Gold is the ledger of a gold table.
type Gold struct {
	SilverSnapshot int64     `json:"silver_snapshot"` // the one that it was computed from
	SilverRows     int64     `json:"silver_rows"`     // that it had
	Watermark      time.Time `json:"watermark"`       // windows that ended by then are final
	Newest         time.Time `json:"newest"`          // event time in that silver snapshot
	Model          string    `json:"model"`           // digest of the model's SQL and window
	Windows        int64     `json:"windows"`         // recomputed by this snapshot
	All            string    `json:"all,omitempty"`   // why this snapshot recomputed everything
	// Retained is the time from which on retention has taken no window out of the
	// table: windows that begin before it may be gone, and are not computed again.
	Retained time.Time `json:"retained,omitzero"`
	// Held are the windows on whose rows the model throws: the table keeps what it had
	// of them. They are computed again when their rows or the model change.
	Held []Held `json:"held,omitempty"`
}

// Held is a window of gold that is held back.
type Held struct {
	Start time.Time `json:"start"`
	Error string    `json:"error"` // DuckDB's message
}

// Read fills a ledger from a table: the snapshot that has it and how many
// snapshots ago that was. ok is false for a table that has none yet.
func Read[L Silver | Quarantine | Gold](t *table.Table) (ledger L, at table.Snapshot, ok bool, err error) {
	for _, s := range t.Ancestors() {
		if text, ok := s.Summary[property]; ok {
			err := json.Unmarshal([]byte(text), &ledger)
			if err != nil {
				err = fmt.Errorf("ledger of %s in snapshot %d: %w", t.Name(), s.ID, err)
			}
			return ledger, s, true, err
		}
	}
	if text, ok := t.Properties()[property]; ok {
		if err := json.Unmarshal([]byte(text), &ledger); err != nil {
			return ledger, at, true, fmt.Errorf("ledger of %s among its properties: %w", t.Name(), err)
		}
		return ledger, at, true, nil
	}
	return ledger, at, false, nil
}

// Of reads the ledger of one snapshot.
func Of[L Silver | Quarantine | Gold](s table.Snapshot) (ledger L, ok bool, err error) {
	text, ok := s.Summary[property]
	if !ok {
		return ledger, false, nil
	}
	if err := json.Unmarshal([]byte(text), &ledger); err != nil {
		return ledger, true, fmt.Errorf("ledger of snapshot %d: %w", s.ID, err)
	}
	return ledger, true, nil
}

// Write puts a ledger into a change, beside what its summary and properties have.
func Write[L Silver | Quarantine | Gold](c *table.Change, ledger L) error {
	text, err := json.Marshal(ledger)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for _, into := range []*map[string]string{&c.Summary, &c.Properties} {
		if *into == nil {
			*into = map[string]string{}
		}
		(*into)[property] = string(text)
	}
	return nil
}

// Properties is a ledger as a table's properties have it.
func Properties[L Silver | Quarantine | Gold](ledger L) (map[string]string, error) {
	var c table.Change
	err := Write(&c, ledger)
	return c.Properties, err
}
