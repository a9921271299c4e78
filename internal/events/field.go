package events

import (
	"fmt"

	"smelt"
	"smelt/internal/columns"
)

// verdict is what a value turned out to be.
type verdict uint8

const (
	good verdict = iota
	absent
	notJSON
	missing
	wrongType
	outOfRange
	tooPrecise
	badTime
)

// reasons are the verdicts as others read them.
var reasons = [...]string{
	notJSON: ReasonNotJSON, missing: ReasonMissing, wrongType: ReasonWrongType,
	outOfRange: ReasonOutOfRange, tooPrecise: ReasonTooPrecise, badTime: ReasonBadTime,
}

// kind is how a value is read.
type kind uint8

const (
	boolean kind = iota
	integer
	float
	decimal
	epoch
	text
	date
	isoTime
	uuid
	raw
	list
	structure
)

// field is a declared column, a field of a struct or the elements of a list.
type field struct {
	name  string
	kind  kind
	bits  int     // of an integer or a float
	scale int     // of a decimal; of an epoch: a unit is 10^scale microseconds
	limit uint128 // of a decimal: it is below this, unscaled
	round bool    // of a decimal: digits beyond its scale are rounded away
	elem  *field  // of a list
	inner *object // of a struct
}

func newField(c smelt.Column) field {
	f := field{name: c.Name}
	switch c.Type.Name {
	case "boolean":
		f.kind = boolean
	case "tinyint":
		f.kind, f.bits = integer, 8
	case "smallint":
		f.kind, f.bits = integer, 16
	case "integer":
		f.kind, f.bits = integer, 32
	case "bigint":
		f.kind, f.bits = integer, 64
	case "float":
		f.kind, f.bits = float, 32
	case "double":
		f.kind, f.bits = float, 64
	case "varchar":
		f.kind = text
	case "date":
		f.kind = date
	case "timestamptz":
		f.kind = isoTime
		if c.Type.Unit != "" {
			f.kind, f.scale = epoch, map[string]int{"s": 6, "ms": 3, "us": 0, "ns": -3}[c.Type.Unit]
		}
	case "uuid":
		f.kind = uuid
	case "json":
		f.kind = raw
	case "list":
		elem := newField(smelt.Column{Type: *c.Type.Elem})
		f.kind, f.elem = list, &elem
	case "struct":
		f.kind, f.inner = structure, newObject(c.Type.Fields)
	default:
		precision, scale, ok := columns.Decimal(c.Type)
		if !ok {
			panic(fmt.Sprintf("events: no reader of the type %s", c.Type)) // only types that pipeline.yml can declare come here
		}
		f.kind, f.scale, f.limit, f.round = decimal, scale, tens(precision), c.Type.Round
	}
	return f
}

// object is the declared fields of an object: those of an event or of a struct.
type object struct {
	fields   []field
	required []int          // the fields that are not null
	byName   map[string]int // their numbers
	lengths  uint64         // a bit for each length of a name, modulo 64
	next     []int          // for each field, the one that followed it last; the last one here: the first one
	seen     []uint64       // for each field, the turn in which it was there
	turn     uint64         // counts the objects
}

func newObject(declared []smelt.Column) *object {
	n := len(declared)
	o := &object{fields: make([]field, n), byName: make(map[string]int, n), next: make([]int, n+1), seen: make([]uint64, n)}
	for i, c := range declared {
		o.fields[i] = newField(c)
		o.byName[c.Name] = i
		o.lengths |= 1 << (len(c.Name) % 64)
		o.next[i] = (i + 1) % n
		if c.NotNull {
			o.required = append(o.required, i)
		}
	}
	return o
}

// find looks a name up; i is -1 if it is not declared.
func (o *object) find(name []byte) (i int) {
	if o.lengths&(1<<(len(name)%64)) == 0 {
		return -1
	}
	if i, ok := o.byName[string(name)]; ok {
		return i
	}
	return -1
}
