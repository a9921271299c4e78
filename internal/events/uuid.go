package events

import "smelt/internal/columns"

// parseUUID reads 6ba7b810-9dad-11d1-80b4-00c04fd430c8 into a column.
func parseUUID(b []byte, c *columns.Column, row int) bool {
	if len(b) != 36 || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return false
	}
	a, okA := hex(b[:8])
	m, okM := hex(b[9:13])
	v, okV := hex(b[14:18])
	s, okS := hex(b[19:23])
	e, okE := hex(b[24:])
	if !okA || !okM || !okV || !okS || !okE {
		return false
	}
	const top = 1 << 63 // as DuckDB has it, so that UUIDs sort as signed numbers
	c.SetInt128(row, int64((a<<32|m<<16|v)^top), s<<48|e)
	return true
}
