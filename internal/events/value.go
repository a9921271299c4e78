package events

import (
	"strconv"

	"smelt/internal/columns"
)

// value reads a value of a declared type into a row of its column. It checks and skips values of other types.
func (d *JSON) value(f *field, c *columns.Column, row int) verdict {
	first := d.next()
	if first == 'n' {
		if d.rest("ull") {
			return absent
		}
		return notJSON
	}
	switch f.kind {
	case text, date, isoTime, uuid:
		if first == '"' {
			return d.ofText(f, c, row)
		}
	case integer, float, decimal, epoch:
		if numeric(first) {
			return d.ofNumber(f, first, c, row)
		}
	case boolean:
		if first == 't' || first == 'f' {
			return d.truth(first, c, row)
		}
	case raw:
		return d.rawText(first, c, row)
	case list:
		if first == '[' {
			return d.list(f, c, row)
		}
	case structure:
		if first == '{' {
			return d.structure(f, c, row)
		}
	}
	d.inside = ""
	if !d.skip(first) {
		return notJSON
	}
	return wrongType
}

// truth reads true or false.
func (d *JSON) truth(first byte, c *columns.Column, row int) verdict {
	if !d.skip(first) {
		return notJSON
	}
	c.SetBool(row, first == 't')
	return good
}

// rawText takes any value as the text that it is.
func (d *JSON) rawText(first byte, c *columns.Column, row int) verdict {
	start := d.at - 1
	if !d.skip(first) {
		return notJSON
	}
	c.SetText(row, d.json[start:d.at])
	return good
}

// ofText reads a string, which the type of the field is written as.
func (d *JSON) ofText(f *field, c *columns.Column, row int) verdict {
	raw, escaped, ok := d.text()
	if !ok {
		return notJSON
	}
	switch f.kind {
	case text:
		if escaped {
			raw = unescape(d.batch.Take(len(raw))[:0], raw)
		}
		c.SetText(row, raw)
	case isoTime:
		micros, ok := parseTime(d.plain(raw, escaped))
		if !ok {
			return badTime
		}
		c.SetInt(row, micros)
	case date:
		days, ok := parseDay(d.plain(raw, escaped))
		if !ok {
			return badTime
		}
		c.SetInt(row, int64(days))
	case uuid:
		if !parseUUID(d.plain(raw, escaped), c, row) {
			return wrongType
		}
	}
	return good
}

// ofNumber reads a number, which the type of the field is written as.
func (d *JSON) ofNumber(f *field, first byte, c *columns.Column, row int) (v verdict) {
	var n number
	if !d.number(first, &n) {
		return notJSON
	}
	var whole int64
	switch f.kind {
	case integer:
		if whole, v = n.int(f.bits); v == good {
			c.SetInt(row, whole)
		}
	case epoch:
		if whole, v = n.epoch(f.scale); v == good {
			c.SetInt(row, whole)
		}
	case float:
		var x float64
		if x, v = n.float(f.bits); v == good {
			c.SetFloat(row, x)
		}
	case decimal:
		v = n.decimal(f, c, row)
	}
	return v
}

// list reads a list, up to its first fault; what follows that is checked only.
func (d *JSON) list(f *field, c *columns.Column, row int) verdict {
	first, length, fault, inside := c.Elem.Appended(), 0, good, ""
	for more, ok := d.open(']'); ; more, ok = d.more(']') {
		if !ok {
			return notJSON
		}
		if !more {
			break
		}
		if fault != good {
			if !d.skip(d.next()) {
				return notJSON
			}
			continue
		}
		switch got := d.value(f.elem, c.Elem, c.Elem.Append()); got {
		case good, absent:
		case notJSON:
			return notJSON
		default:
			fault, inside = got, "["+strconv.Itoa(length)+"]"+d.insideOf(f.elem)
		}
		length++
	}
	d.inside = inside
	if fault == good {
		c.SetList(row, first, length)
	}
	return fault
}

// structure reads a struct. It is NULL as a whole if one of its fields has a fault.
func (d *JSON) structure(f *field, c *columns.Column, row int) verdict {
	at, v := d.members(f.inner, c.Fields, row)
	switch v {
	case good:
		c.SetStruct(row)
	case notJSON:
	default:
		d.inside = "." + f.inner.fields[at].name + d.inside
		c.SetNull(row)
	}
	return v
}
