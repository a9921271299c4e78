package silver

import (
	"bytes"
	"encoding/json"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/columns"
	"smelt/internal/events"
)

// Records are bronze records, read once and typed as their pipeline declares. All
// that reads events goes through them: the stage, backfills, and the shell.
type Records struct {
	Batch *columns.Batch // the declared columns, then recordColumns

	declared smelt.Events
	at       int // the declared column that is the event time
	decoder  events.Decoder
	repeated *int64 // names that occurred a second time in an object

	good       []int32 // rows that fit the declaration
	faults     []fault // of the rows that do not
	tombstones int64
}

// fault is why a row goes to quarantine.
type fault struct {
	row int32
	events.Fault
}

// recordColumns are the columns of a record beside those that its pipeline declares.
var recordColumns = []smelt.Column{
	{Name: colPartition, Type: smelt.Type{Name: "integer"}},
	{Name: colOffset, Type: smelt.Type{Name: "bigint"}},
	{Name: "_timestamp", Type: smelt.Type{Name: "timestamptz"}},
	{Name: "_key", Type: smelt.Type{Name: "varchar"}},   // in base64 if it is not UTF-8
	{Name: "_headers", Type: smelt.Type{Name: "json"}},  //
	{Name: "_value", Type: smelt.Type{Name: "varchar"}}, // as received; in base64 if it is not UTF-8
}

// The places of recordColumns after the declared ones.
const (
	atPartition = iota
	atOffset
	atTimestamp
	atKey
	atHeaders
	atValue
)

// RecordColumns gives the columns of a pipeline's records: the declared ones, and
// those that every record has.
func RecordColumns(declared []smelt.Column) []smelt.Column {
	return append(append([]smelt.Column{}, declared...), recordColumns...)
}

// NewRecords makes an empty set of records. Free gives its memory back.
func NewRecords(declared smelt.Events) *Records {
	decoder := events.NewJSON(declared.Columns)
	r := &Records{Batch: columns.New(RecordColumns(declared.Columns)), declared: declared, decoder: decoder, repeated: &decoder.Repeated}
	for i, c := range declared.Columns {
		if c.Name == declared.Time {
			r.at = i
		}
	}
	return r
}

// Reset forgets the records.
func (r *Records) Reset() {
	r.Batch.Reset()
	r.good, r.faults, r.tombstones, *r.repeated = r.good[:0], r.faults[:0], 0, 0
}

// Free gives the memory back. The records must not be used any more.
func (r *Records) Free() { r.Batch.Free() }

// column is one of recordColumns.
func (r *Records) column(at int) *columns.Column {
	return r.Batch.Columns[len(r.declared.Columns)+at]
}

// Add reads a line of bronze. An error says that the line is none.
func (r *Records) Add(line []byte) error {
	m, err := bronze.Cut(line)
	if err != nil {
		return err
	}
	return r.add(m)
}

func (r *Records) add(m bronze.Members) error {
	row := r.Batch.Add()
	r.column(atPartition).SetInt(row, int64(m.Partition))
	r.column(atOffset).SetInt(row, m.Offset)
	if m.Timestamp != smelt.NoTimestamp {
		r.column(atTimestamp).SetInt(row, m.Timestamp*1000)
	}
	if m.Key != nil {
		key, err := unquote(m.Key)
		if err != nil {
			return err
		}
		r.column(atKey).SetText(row, r.Batch.Keep(key))
	}
	if m.Headers != nil {
		r.column(atHeaders).SetText(row, r.Batch.Keep(m.Headers))
	}
	f, err := r.value(row, m)
	switch {
	case err != nil:
		return err
	case m.Kind == bronze.KindTombstone:
		r.tombstones++
	case f.Reason != "":
		r.faults = append(r.faults, fault{int32(row), f})
	default:
		r.good = append(r.good, int32(row))
	}
	return nil
}

// value reads what a record holds, and says what does not fit.
func (r *Records) value(row int, m bronze.Members) (events.Fault, error) {
	switch m.Kind {
	case bronze.KindValue:
		kept := r.Batch.Keep(m.Value)
		r.column(atValue).SetText(row, kept)
		f := r.decoder.Decode(r.Batch, row, kept)
		if f.Reason == "" && r.outOfBounds(row) {
			f = events.Fault{Reason: ReasonTimeBounds, Field: r.declared.Time}
		}
		return f, nil
	case bronze.KindRaw, bronze.KindBase64:
		text, err := unquote(m.Value)
		if err != nil {
			return events.Fault{}, err
		}
		r.column(atValue).SetText(row, r.Batch.Keep(text))
		f := events.Fault{Reason: events.ReasonNotJSON}
		if m.Kind == bronze.KindBase64 {
			f.Detail = "base64"
		}
		return f, nil
	case bronze.KindOversize:
		return events.Fault{Reason: ReasonTooLarge, Detail: string(m.Value)}, nil
	}
	return events.Fault{}, nil
}

// unquote gives the text of a JSON string that smelt has written.
func unquote(quoted []byte) ([]byte, error) {
	inside := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside, nil
	}
	var text string
	err := json.Unmarshal(quoted, &text)
	return []byte(text), err
}

// mostAhead is how much later than its arrival at the broker an event's time can be. Clocks of sensors may be wrong by up to a
// day.
const mostAhead = 24 * time.Hour

// earliest is the first event time that can be: nothing sent events before.
var earliest = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// outOfBounds says whether an event's time cannot be: before 1900, or more than a
// day after the broker had the record. A replay decides alike, since it looks at
// the record and not at the clock.
func (r *Records) outOfBounds(row int) bool {
	at, had := r.Batch.Columns[r.at], r.column(atTimestamp)
	if !at.Valid(row) {
		return false
	}
	v := at.Int(row)
	return v < earliest || had.Valid(row) && v-had.Int(row) > mostAhead.Microseconds()
}

// lineage is which record a row is.
func (r *Records) lineage(row int32) (partition int32, offset int64) {
	return int32(r.column(atPartition).Int(int(row))), r.column(atOffset).Int(int(row))
}
