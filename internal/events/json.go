package events

import (
	"smelt"
	"smelt/internal/columns"
)

// JSON reads values that are JSON objects, in one pass and strictly: by RFC 8259,
// with every escaped surrogate in a pair, nested no deeper than MaxDepth.
//
// Names are matched exactly. A member that is null counts as absent. Of members
// that share a declared name, the first counts. Members that are not declared are
// checked and skipped.
type JSON struct {
	// Repeated counts the members that were ignored since an earlier one of the
	// same object has the same declared name.
	Repeated int64

	scanner
	object  *object
	batch   *columns.Batch
	scratch []byte // texts without their escapes, each until the next
	inside  string // where in the list or struct that was just read the fault is
}

// NewJSON makes the decoder of declared columns. Their names, and those of fields,
// hold no quotes and no backslashes, as pipeline.yml ensures.
func NewJSON(declared []smelt.Column) *JSON {
	return &JSON{object: newObject(declared)}
}

// Decode implements [Decoder]. A fault in a list or a struct is one of the whole
// column; Detail says where it is.
func (d *JSON) Decode(b *columns.Batch, row int, value []byte) Fault {
	d.json, d.at, d.depth, d.batch = value, 0, 0, b
	fault := d.decode(row)
	d.json, d.batch = nil, nil // memory of the batch, which may be given back
	return fault
}

func (d *JSON) decode(row int) Fault {
	first := d.next()
	if first != '{' {
		if d.skip(first) && d.end() {
			return Fault{Reason: ReasonNotObject}
		}
		return Fault{Reason: ReasonNotJSON}
	}
	at, v := d.members(d.object, d.batch.Columns, row)
	switch {
	case v == notJSON || !d.end():
		for _, c := range d.batch.Columns[:len(d.object.fields)] {
			c.SetNull(row)
		}
		return Fault{Reason: ReasonNotJSON}
	case v == good:
		return Fault{}
	}
	f := Fault{Reason: reasons[v], Field: d.object.fields[at].name}
	if d.inside != "" {
		f.Detail = f.Field + d.inside + ": " + f.Reason
	}
	return f
}

// members reads the members of an object, after its brace, into a row of the fields' columns. It returns the fault of the field
// that is declared first among those with a fault, and that field's number in at.
func (d *JSON) members(o *object, cols []*columns.Column, row int) (at int, v verdict) {
	o.turn++
	at = len(o.fields)
	inside, last := "", at
	for more, ok := d.open('}'); ; more, ok = d.more('}') {
		if !ok {
			return 0, notJSON
		}
		if !more {
			break
		}
		i, ok := d.name(o, last)
		if !ok {
			return 0, notJSON
		}
		if i < 0 || o.seen[i] == o.turn {
			if i >= 0 {
				d.Repeated++
			}
			if !d.skip(d.next()) {
				return 0, notJSON
			}
			continue
		}
		o.seen[i] = o.turn
		last = i
		switch got := d.value(&o.fields[i], cols[i], row); {
		case got <= absent:
		case got == notJSON:
			return 0, notJSON
		case i < at:
			at, v, inside = i, got, d.insideOf(&o.fields[i])
		}
	}
	for _, i := range o.required {
		if i >= at {
			break
		}
		if !cols[i].Valid(row) {
			at, v, inside = i, missing, ""
		}
	}
	if v != good {
		d.inside = inside
	}
	return at, v
}

// name takes the name of a member and its colon. i is its field's number, or -1
// if it is not declared; last is that of the field before it. Events of one
// source mostly have their members in the same order.
func (d *JSON) name(o *object, last int) (i int, ok bool) {
	if d.next() != '"' {
		return 0, false
	}
	if i = o.next[last]; i < len(o.fields) {
		name, rest := o.fields[i].name, d.json[d.at:]
		if len(rest) > len(name) && rest[len(name)] == '"' && string(rest[:len(name)]) == name {
			d.at += len(name) + 1
			return i, d.next() == ':'
		}
	}
	raw, escaped, ok := d.text()
	if !ok || d.next() != ':' {
		return 0, false
	}
	if i = o.find(d.plain(raw, escaped)); i >= 0 {
		o.next[last] = i
	}
	return i, true
}

// insideOf says where in a value of a field, which was just read, its fault is.
func (d *JSON) insideOf(f *field) string {
	if f.kind == list || f.kind == structure {
		return d.inside
	}
	return ""
}

// plain gives a text without its escapes, until the next call.
func (d *JSON) plain(raw []byte, escaped bool) []byte {
	if !escaped {
		return raw
	}
	d.scratch = unescape(d.scratch[:0], raw)
	return d.scratch
}
