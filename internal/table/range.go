package table

import (
	"time"

	"github.com/apache/iceberg-go"
)

// Range returns the smallest and the largest value of a timestamptz, timestamp
// or date column (of a date, its midnight in UTC) that the file may hold, both
// inclusive. When that is not known ok is false and the file has to be looked
// at.
func (f File) Range(column string) (lo, hi time.Time, ok bool) {
	field, ok := f.schema.FindFieldByName(column)
	if !ok {
		return lo, hi, false
	}
	lo, okLo := boundTime(field.Type, f.stats().lower[field.ID])
	hi, okHi := boundTime(field.Type, f.stats().upper[field.ID])
	return lo, hi, okLo && okHi
}

// AllNull says whether the file is known to have no value of a column.
func (f File) AllNull(column string) bool {
	field, ok := f.schema.FindFieldByName(column)
	if !ok {
		return false
	}
	nulls, counted := f.stats().nulls[field.ID]
	return counted && nulls == f.Rows
}

// Nulls returns how many rows have no value of a column, if the file's writer has
// counted them.
func (f File) Nulls(column string) (n int64, ok bool) {
	field, ok := f.schema.FindFieldByName(column)
	if !ok {
		return 0, false
	}
	n, ok = f.stats().nulls[field.ID]
	return n, ok
}

// Bounds returns the smallest and the largest value of a column that the file may
// hold, as bool, int32, int64, float32, float64, string or time.Time. When they
// are not known, or of another type, ok is false; so it is where there may be NaN,
// which other engines leave out of them.
func (f File) Bounds(column string) (lo, hi any, ok bool) {
	field, ok := f.schema.FindFieldByName(column)
	if !ok {
		return nil, nil, false
	}
	if nans, counted := f.stats().nans[field.ID]; floating(field.Type) && (!counted || nans > 0) {
		return nil, nil, false
	}
	lo, okLo := boundValue(field.Type, f.stats().lower[field.ID])
	hi, okHi := boundValue(field.Type, f.stats().upper[field.ID])
	return lo, hi, okLo && okHi
}

func boundValue(typ iceberg.Type, data []byte) (any, bool) {
	if data == nil {
		return nil, false
	}
	if t, ok := boundTime(typ, data); ok {
		return t, true
	}
	l, err := iceberg.LiteralFromBytes(writtenAs(typ, data), data)
	if err != nil {
		return nil, false
	}
	_, long := typ.(iceberg.Int64Type)
	_, double := typ.(iceberg.Float64Type)
	switch l := l.(type) {
	case iceberg.BoolLiteral:
		return bool(l), true
	case iceberg.Int32Literal:
		if long {
			return int64(l), true
		}
		return int32(l), true
	case iceberg.Int64Literal:
		return int64(l), true
	case iceberg.Float32Literal:
		if double {
			return float64(l), true
		}
		return float32(l), true
	case iceberg.Float64Literal:
		return float64(l), true
	case iceberg.StringLiteral:
		return string(l), true
	}
	return nil, false
}

func boundTime(typ iceberg.Type, data []byte) (time.Time, bool) {
	switch typ.(type) {
	case iceberg.TimestampType, iceberg.TimestampTzType, iceberg.DateType:
	default:
		return time.Time{}, false
	}
	if data == nil {
		return time.Time{}, false
	}
	l, err := iceberg.LiteralFromBytes(typ, data)
	if err != nil {
		return time.Time{}, false
	}
	switch l := l.(type) {
	case iceberg.DateLiteral:
		return l.Value().ToTime(), true
	case iceberg.TimestampLiteral:
		return l.Value().ToTime(), true
	}
	return time.Time{}, false
}

// IntRange returns the smallest and the largest value of an integer column that
// the file may hold, both inclusive. When that is not known ok is false and the
// file has to be looked at.
func (f File) IntRange(column string) (lo, hi int64, ok bool) {
	field, ok := f.schema.FindFieldByName(column)
	if !ok {
		return lo, hi, false
	}
	lo, okLo := boundInt(field.Type, f.stats().lower[field.ID])
	hi, okHi := boundInt(field.Type, f.stats().upper[field.ID])
	return lo, hi, okLo && okHi
}

func boundInt(typ iceberg.Type, data []byte) (int64, bool) {
	switch typ.(type) {
	case iceberg.Int32Type, iceberg.Int64Type:
	default:
		return 0, false
	}
	if data == nil {
		return 0, false
	}
	l, err := iceberg.LiteralFromBytes(writtenAs(typ, data), data)
	if err != nil {
		return 0, false
	}
	switch l := l.(type) {
	case iceberg.Int32Literal:
		return int64(l), true
	case iceberg.Int64Literal:
		return int64(l), true
	}
	return 0, false
}

// writtenAs is the type that a column had when a bound of it was written: one of
// four bytes is of before the column was widened.
func writtenAs(typ iceberg.Type, bound []byte) iceberg.Type {
	if len(bound) != 4 {
		return typ
	}
	switch typ.(type) {
	case iceberg.Int64Type:
		return iceberg.PrimitiveTypes.Int32
	case iceberg.Float64Type:
		return iceberg.PrimitiveTypes.Float32
	}
	return typ
}
