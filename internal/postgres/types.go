package postgres

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"smelt"
)

// column is a column of a reference table.
type column struct {
	name     string
	declared string // its type in PostgreSQL's words
	notNull  bool
	readable bool // the role may read it
	reading  reading
}

// reading is how a type of PostgreSQL is read.
type reading struct {
	duck string // DuckDB's type
	sql  string // the expression that gives it, with %s for the column
}

// maxDecimal is the most digits that a decimal of DuckDB and of Iceberg has.
const maxDecimal = 38

// readingOf maps a type by its name in PostgreSQL and its modifier. Decimals without precision, and types that DuckDB does not
// have, are read as text, which loses nothing. Infinite times, which DuckDB's files lack, become the first and the last
// instant of the years 1 to 9999, which keeps comparisons. A numeric's NaN becomes NULL.
func readingOf(name string, mod int32) reading {
	switch name {
	case "boolean":
		return reading{"boolean", "%s::boolean"}
	case "smallint", "integer", "bigint":
		return reading{"bigint", "%s::bigint"}
	case "real", "double precision":
		return reading{"double", "%s::double precision"}
	case "date":
		return reading{"date", finite("date", "0001-01-01", "9999-12-31")}
	case "timestamp without time zone":
		return reading{"timestamp", finite("timestamp", "0001-01-01", "9999-12-31 23:59:59.999999")}
	case "timestamp with time zone":
		return reading{"timestamptz", finite("timestamptz", "0001-01-01 00:00Z", "9999-12-31 23:59:59.999999Z")}
	case "numeric":
		if precision, scale, ok := decimal(mod); ok {
			return reading{fmt.Sprintf("decimal(%d,%d)", precision, scale), "NULLIF(%s, 'NaN'::numeric)::text"}
		}
	}
	return reading{"varchar", "%s::text"}
}

// finite reads a column of a time's type with its infinities replaced.
func finite(name, first, last string) string {
	return "CASE %[1]s WHEN '-infinity' THEN '" + first + "' WHEN 'infinity' THEN '" + last + "' ELSE %[1]s END::" + name
}

// decimal takes apart a numeric's modifier. Not ok: it has none, or DuckDB has
// no such decimal.
func decimal(mod int32) (precision, scale int32, ok bool) {
	if mod < 4 {
		return 0, 0, false
	}
	precision = (mod - 4) >> 16 & 0xffff
	scale = ((mod-4)&0x7ff ^ 1024) - 1024 // 11 bits with a sign
	return precision, scale, precision <= maxDecimal && scale >= 0 && scale <= precision
}

func (c column) quoted() string { return pgx.Identifier{c.name}.Sanitize() }

func (c column) sql() string { return fmt.Sprintf(c.reading.sql, c.quoted()) }

func (c column) declaration() smelt.Column {
	return smelt.Column{Name: c.name, Type: smelt.Type{Name: c.reading.duck}, NotNull: c.notNull}
}

// inUTC puts a row's times into UTC: the driver gives them in the local zone.
func inUTC(row []any) []any {
	for i, v := range row {
		if t, ok := v.(time.Time); ok {
			row[i] = t.UTC()
		}
	}
	return row
}
