// Package events reads events: it turns the value of a record into typed
// columns, strictly and exactly, and says what does not fit. It is the one place
// that decides what a value of a declared type is.
package events

import "smelt/internal/columns"

// Reasons why a value is not what its pipeline declares.
const (
	ReasonNotJSON    = "not json"
	ReasonNotObject  = "not an object"
	ReasonMissing    = "missing"
	ReasonWrongType  = "wrong type"
	ReasonOutOfRange = "out of range"
	ReasonTooPrecise = "too precise"
	ReasonBadTime    = "bad time"
)

// Fault says why a value is not what its pipeline declares. The zero Fault says
// that it is.
type Fault struct {
	Reason string // one of the constants above
	Field  string // the declared column; "" for the value as a whole
	Detail string // more, for a person; often ""
}

// Decoder reads the values of one format. It is used by one goroutine at a time.
type Decoder interface {
	// Decode sets the declared columns, which are the batch's first ones, of a row
	// that was just added. value is memory that the batch keeps. A column that the
	// value lacks, or has not as declared, stays NULL; the fault is that of the
	// first such column in the order declared.
	Decode(b *columns.Batch, row int, value []byte) Fault
}
