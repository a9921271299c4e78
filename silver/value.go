package silver

import "smelt"

// Value writes the SQL of a declared field's typed value, from an expression
// that gives the field's JSON; it is NULL where silver would find a fault, and
// never an error. So bronze shows in the shell what silver makes of it.
func Value(t smelt.Type, leaf string) string { return valueOf(t, leaf, 0) }
