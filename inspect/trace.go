package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// Tracer follows single records through lakes.
type Tracer struct {
	Area staging.Area
	Duck *duck.DB
}

// What became of a record.
const (
	OutcomeSilver     = "silver"
	OutcomeQuarantine = "quarantine"
	OutcomeTombstone  = "tombstone"
	OutcomeWaiting    = "waiting" // silver has not read it yet
	OutcomeRetired    = "retired" // it is in bronze alone, as records are whose rows retention took out of silver
)

// Trace is a record's way through the lake. Its keys in JSON are stable.
type Trace struct {
	Pipeline   string          `json:"pipeline"`
	Partition  int32           `json:"partition"`
	Offset     int64           `json:"offset"`
	Outcome    string          `json:"outcome"`
	Object     TracedObject    `json:"object"`     // of bronze
	Record     json.RawMessage `json:"record"`     // its line in the object; null if it was retired
	Position   int64           `json:"position"`   // the next offset of the partition that silver reads
	Retained   *time.Time      `json:"retained"`   // event time up to which rows may have been retired; null when none were
	Silver     *TracedRow      `json:"silver"`     // null without a row
	Quarantine *TracedReject   `json:"quarantine"` // null without a row
	Gold       []TracedWindow  `json:"gold"`       // one a model, as declared; empty without a silver row

	line bronze.Line // of Record
}

// TracedObject is the bronze object that has a record.
type TracedObject struct {
	Key     string       `json:"key"`
	Bytes   int64        `json:"bytes"`
	Codec   bronze.Codec `json:"codec"`
	Start   int64        `json:"start"` // its position: where the object before it ended
	End     int64        `json:"end"`   // where the chain goes on
	First   int64        `json:"first"` // offset of its first record
	Last    int64        `json:"last"`  // offset of its last record
	Records int64        `json:"records"`
	Members int64        `json:"members"` // objects that were merged into it; 0 when it is as its writer put it
	Written time.Time    `json:"written"`
	Writer  string       `json:"writer"`
	Cluster string       `json:"cluster"` // ids of the source
	Topic   string       `json:"topic"`
}

// TracedSnapshot is a snapshot of a table.
type TracedSnapshot struct {
	ID        int64      `json:"id"`
	Time      *time.Time `json:"time"`      // null when it has expired
	Operation string     `json:"operation"` // empty when it has expired
}

// TracedRow is the row of a record in silver or quarantine.
type TracedRow struct {
	Table    string          `json:"table"`
	Row      Row             `json:"row"`
	File     string          `json:"file"`     // key of the data file that has it
	Snapshot *TracedSnapshot `json:"snapshot"` // that added the file; null when it is not known
}

// TracedReject is the row of a record in quarantine.
type TracedReject struct {
	TracedRow
	Silver *TracedSnapshot `json:"silver_snapshot"` // of silver, that rejected the record; null when it is not known
}

// TracedWindow is the window of a gold table that a silver row counts in.
type TracedWindow struct {
	Table      string          `json:"table"`
	Start      time.Time       `json:"start"`
	End        time.Time       `json:"end"`
	Rows       []Row           `json:"rows"`            // of the window, those most like the silver row first; tracedRows at most
	Count      int64           `json:"row_count"`       // of all rows of the window
	Snapshot   *TracedSnapshot `json:"snapshot"`        // the table's newest; null when it was not computed yet
	Silver     *TracedSnapshot `json:"silver_snapshot"` // that it was computed from; null likewise
	CaughtUp   *bool           `json:"caught_up"`       // that snapshot had the current silver row; null if unknown
	Final      bool            `json:"final"`           // the watermark has passed the window
	Frozen     bool            `json:"frozen"`          // retention removed some of its rows, so it is no longer computed
	Revision   int64           `json:"revision"`        // how often it was restated when it was final already
	ComputedAt *time.Time      `json:"computed_at"`     // null without rows
}

// ErrNoRecord says that bronze has no record of a lineage.
var ErrNoRecord = errors.New("no such record")

// errLost says that a record that silver has read is nowhere.
var errLost = errors.New("it is neither in silver nor in quarantine: smelt verify says what else is missing")

// Trace follows a record from bronze to gold. It fails with ErrNoRecord if bronze has no record of that
// partition and offset.
func (t Tracer) Trace(ctx context.Context, p *smelt.Pipeline, partition int32, offset int64) (*Trace, error) {
	for attempt := 1; ; attempt++ {
		trace, err := t.trace(ctx, p, partition, offset)
		gone := errors.Is(err, errGone) || errors.Is(err, smelt.ErrNotFound) || errors.Is(err, errLost)
		switch {
		case err == nil:
			return trace, nil
		case gone && attempt == attempts:
			err = smelt.Mark(smelt.ErrVerify, err)
			fallthrough
		case !gone:
			return nil, fmt.Errorf("trace %s %d:%d: %w", p.Name, partition, offset, err)
		}
	}
}

// tracing is one Trace in the making.
type tracing struct {
	Tracer
	tables
	*Trace
	pipeline *smelt.Pipeline
	session  *duck.Session
}

func (t Tracer) trace(ctx context.Context, p *smelt.Pipeline, partition int32, offset int64) (_ *Trace, err error) {
	r := &tracing{Tracer: t, pipeline: p, Trace: &Trace{Pipeline: p.Name, Partition: partition, Offset: offset, Gold: []TracedWindow{}}}
	if err := r.findRecord(ctx); err != nil {
		return nil, err
	}
	if r.tables, err = load(ctx, t.Area.Lake, p); err != nil {
		return nil, err
	}
	if r.session, err = t.Duck.Session(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.session.Close()) }()
	r.Position = r.silverLedger.Position[partition]
	if l := r.silverLedger; l.Retired > 0 {
		r.Retained = &l.Retained
	}
	switch {
	case r.Record == nil:
		if err := r.findRow(ctx); err != nil {
			return nil, err
		}
		if r.Outcome == OutcomeRetired {
			return nil, r.letGo()
		}
	case r.line.Kind == bronze.KindTombstone:
		r.Outcome = OutcomeTombstone
	case offset >= r.Position:
		r.Outcome = OutcomeWaiting
	default:
		if err := r.findRow(ctx); err != nil {
			return nil, err
		}
	}
	return r.Trace, nil
}

// findRow looks for the record's row in silver, and then in quarantine.
func (r *tracing) findRow(ctx context.Context) (err error) {
	if r.Silver, err = r.lookUp(ctx, r.silver); err != nil {
		return err
	}
	if r.Silver != nil {
		r.Outcome = OutcomeSilver
		return r.findWindows(ctx)
	}
	r.Outcome = OutcomeQuarantine
	if err := r.findReject(ctx); !errors.Is(err, errLost) || r.Retained == nil && r.Record != nil {
		return err
	}
	r.Outcome = OutcomeRetired
	return nil
}

// tracedSnapshot describes a snapshot of a table; an id of 0 is none.
func tracedSnapshot(t *table.Table, id int64) *TracedSnapshot {
	if id == 0 {
		return nil
	}
	out := &TracedSnapshot{ID: id}
	if s, ok := t.Snapshot(id); ok {
		out.Time, out.Operation = &s.Time, s.Operation
	}
	return out
}
