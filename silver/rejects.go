package silver

import (
	"time"

	"smelt"
	"smelt/internal/columns"
	"smelt/internal/duck"
	"smelt/internal/events"
)

// rejectColumns are the columns of every quarantine table.
var rejectColumns = []smelt.Column{
	{Name: colPartition, Type: smelt.Type{Name: "integer"}},
	{Name: colOffset, Type: smelt.Type{Name: "bigint"}},
	{Name: "_timestamp", Type: smelt.Type{Name: "timestamptz"}},
	{Name: "_key", Type: smelt.Type{Name: "varchar"}},
	{Name: "raw", Type: smelt.Type{Name: "varchar"}},
	{Name: "stage", Type: smelt.Type{Name: "varchar"}},
	{Name: "reason", Type: smelt.Type{Name: "varchar"}},
	{Name: "field", Type: smelt.Type{Name: "varchar"}},
	{Name: "detail", Type: smelt.Type{Name: "varchar"}},
	{Name: "quarantined_at", Type: smelt.Type{Name: "timestamptz"}},
}

// RejectColumns gives the columns of a quarantine table.
func RejectColumns() []smelt.Column { return append([]smelt.Column{}, rejectColumns...) }

// rejects are rows for quarantine.
type rejects struct {
	batch   *columns.Batch
	rows    *duck.BatchRows
	reasons map[string]int64
}

func newRejects() *rejects {
	b := columns.New(rejectColumns)
	return &rejects{batch: b, rows: duck.NewBatchRows(b), reasons: map[string]int64{}}
}

func (r *rejects) reset() {
	r.batch.Reset()
	r.rows.Only = r.rows.Only[:0]
	clear(r.reasons)
}

// add rejects a record. Its texts stay where the record has them.
func (r *rejects) add(of *Records, row int32, f events.Fault, now time.Time) {
	n := r.batch.Add()
	stage := "silver"
	if f.Reason == ReasonTooLarge {
		stage = "bronze"
	}
	c := r.batch.Columns
	partition, offset := of.lineage(row)
	c[0].SetInt(n, int64(partition))
	c[1].SetInt(n, offset)
	if had := of.column(atTimestamp); had.Valid(int(row)) {
		c[2].SetInt(n, had.Int(int(row)))
	}
	for i, from := range []*columns.Column{of.column(atKey), of.column(atValue)} {
		if from.Valid(int(row)) {
			c[3+i].SetText(n, from.Text(int(row)))
		}
	}
	for i, text := range []string{stage, f.Reason, f.Field, f.Detail} {
		if text != "" {
			c[5+i].SetText(n, r.batch.Keep([]byte(text)))
		}
	}
	c[9].SetInt(n, now.UnixMicro())
	r.rows.Only = append(r.rows.Only, int32(n))
	r.reasons[f.Reason]++
}

// count is how many rows there are.
func (r *rejects) count() int64 { return int64(len(r.rows.Only)) }
