package silver

// Reasons for which a record is in quarantine; an expectation's own name is one
// as well. They are few and fixed, since metrics count by them.
const (
	ReasonNotJSON    = "not json"
	ReasonNotObject  = "not an object"
	ReasonMissing    = "missing"
	ReasonWrongType  = "wrong type"
	ReasonOutOfRange = "out of range"
	ReasonBadTime    = "bad time"
	ReasonTimeBounds = "time out of bounds"
	ReasonFiltered   = "filtered"
	ReasonDuplicate  = "duplicate"
	ReasonTooLarge   = "too large"
)
