package silver

// Reasons for which a record is in quarantine, beside those of package events for
// its values; an expectation's own name is one as well. They are few and fixed,
// since metrics count by them.
const (
	ReasonTimeBounds = "time out of bounds"
	ReasonFiltered   = "filtered"
	ReasonDuplicate  = "duplicate"
	ReasonTooLarge   = "too large"
	ReasonSQLError   = "sql error" // silver.sql, or an expectation, throws on the record
)
