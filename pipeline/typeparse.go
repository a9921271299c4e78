package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"smelt"
)

// A column is declared as its type, and "not null" where it holds:
//
//	column = type [ "not" "null" ]
//	type   = name | "decimal" "(" p "," s ")" | "struct" "(" field { "," field } ")" | type "[" "]"
//	field  = name type
//
// Keywords and types are read in any case. A field's name is a plain word, or
// anything in double quotes.

const (
	maxTypeDepth = 16 // types within types; more is a mistake, and the parser recurses
	maxPrecision = 38 // decimal digits, of DuckDB and of Iceberg
)

// typeNames are the types of a column that stand alone. decimal(p,s), struct(…)
// and lists, T[], are the others.
var typeNames = []string{
	"varchar", "boolean", "tinyint", "smallint", "integer", "bigint",
	"float", "double", "date", "timestamptz", "uuid", "json",
}

// typeAliases maps names that other systems use to ours. They are refused with
// the suggestion: one spelling a type, the one that every later message uses.
var typeAliases = map[string]string{
	"string": "varchar", "text": "varchar", "char": "varchar", "bpchar": "varchar",
	"bool": "boolean", "logical": "boolean",
	"int1": "tinyint", "int2": "smallint", "short": "smallint",
	"int": "integer", "int4": "integer", "signed": "integer",
	"int8": "bigint", "long": "bigint",
	"real": "float", "float4": "float", "float8": "double", "number": "double",
	"numeric": "decimal(10,2)", "dec": "decimal(10,2)",
	"timestamp": "timestamptz", "datetime": "timestamptz", "time": "timestamptz",
	"list": "varchar[]", "array": "varchar[]",
	"row": "struct(a varchar)", "record": "struct(a varchar)", "object": "struct(a varchar)",
	"map": "json", "variant": "json", "jsonb": "json",
}

// typeFault is what is wrong with a column's declaration, and where in its text.
type typeFault struct {
	offset  int // in bytes
	message string
}

func (f *typeFault) Error() string { return f.message }

// parseColumn reads a column's declaration. Its error is a *typeFault.
func parseColumn(text string) (t smelt.Type, notNull bool, err error) {
	p := &typeParser{text: text}
	if t, err = p.parse(0); err != nil {
		return smelt.Type{}, false, err
	}
	start := p.skip()
	if strings.EqualFold(p.word(), "not") && strings.EqualFold(p.word(), "null") {
		notNull = true
	} else {
		p.pos = start
	}
	if at := p.skip(); at < len(text) {
		return smelt.Type{}, false, p.faultf(at, "unexpected %q after the type: only \"not null\" may follow", text[at:])
	}
	return t, notNull, nil
}

type typeParser struct {
	text string
	pos  int
}

func (p *typeParser) faultf(offset int, format string, args ...any) error {
	return &typeFault{offset, fmt.Sprintf(format, args...)}
}

func (p *typeParser) parse(depth int) (smelt.Type, error) {
	if depth > maxTypeDepth {
		return smelt.Type{}, p.faultf(p.pos, "more than %d types within one another", maxTypeDepth)
	}
	t, err := p.base(depth)
	for err == nil && p.accept('[') {
		if depth++; depth > maxTypeDepth {
			return smelt.Type{}, p.faultf(p.pos, "more than %d types within one another", maxTypeDepth)
		}
		if !p.accept(']') {
			return smelt.Type{}, p.faultf(p.pos, `expected "]": a list is written varchar[]`)
		}
		t = smelt.Type{Name: "list", Elem: &smelt.Type{Name: t.Name, Elem: t.Elem, Fields: t.Fields}}
	}
	return t, err
}

func (p *typeParser) base(depth int) (smelt.Type, error) {
	start := p.skip()
	name := strings.ToLower(p.word())
	switch {
	case name == "":
		return smelt.Type{}, p.faultf(start, "expected a type, such as varchar")
	case name == "decimal":
		return p.decimal(start)
	case name == "struct":
		return p.structure(start, depth)
	}
	for _, known := range typeNames {
		if name == known {
			return smelt.Type{Name: name}, nil
		}
	}
	written := p.text[start:p.pos]
	if alias, ok := typeAliases[name]; ok {
		return smelt.Type{}, p.faultf(start, "unknown type %q: did you mean %q?", written, alias)
	}
	known := append([]string{"decimal(p,s)", "struct(…)"}, typeNames...)
	return smelt.Type{}, p.faultf(start, "unknown type %q%s", written, smelt.DidYouMean(written, known...))
}

func (p *typeParser) decimal(start int) (smelt.Type, error) {
	if !p.accept('(') {
		return smelt.Type{}, p.faultf(start, "a decimal needs its digits and how many of them are decimals: decimal(10,2)")
	}
	at := p.skip()
	precision, okP := p.number()
	comma := p.accept(',')
	scale, okS := p.number()
	if !okP || !comma || !okS || !p.accept(')') {
		return smelt.Type{}, p.faultf(p.skip(), "a decimal is written decimal(10,2), and in braces with quotes: {type: 'decimal(10,2)'}")
	}
	if precision < 1 || precision > maxPrecision || scale > precision {
		return smelt.Type{}, p.faultf(at, "a decimal has 1 to %d digits, and at most as many decimals", maxPrecision)
	}
	return smelt.Type{Name: fmt.Sprintf("decimal(%d,%d)", precision, scale)}, nil
}

func (p *typeParser) structure(start, depth int) (smelt.Type, error) {
	if !p.accept('(') {
		return smelt.Type{}, p.faultf(start, "a struct needs its fields: struct(lat double, lon double)")
	}
	t := smelt.Type{Name: "struct"}
	seen := map[string]bool{}
	for {
		at := p.skip()
		name, err := p.fieldName()
		if err != nil {
			return smelt.Type{}, err
		}
		if seen[strings.ToLower(name)] {
			return smelt.Type{}, p.faultf(at, "two fields are named %q, as SQL sees it", name)
		}
		seen[strings.ToLower(name)] = true
		field, err := p.parse(depth + 1)
		if err != nil {
			return smelt.Type{}, err
		}
		t.Fields = append(t.Fields, smelt.Column{Name: name, Type: field})
		if p.accept(')') {
			return t, nil
		}
		if !p.accept(',') {
			return smelt.Type{}, p.faultf(p.skip(), `expected "," or ")" after the field %q; "not null" goes with whole columns only`, name)
		}
	}
}

func (p *typeParser) fieldName() (string, error) {
	start := p.skip()
	name := p.word()
	if name == "" && p.accept('"') {
		end := strings.IndexByte(p.text[p.pos:], '"')
		if end < 0 {
			return "", p.faultf(start, "the quote is not closed")
		}
		name = p.text[p.pos : p.pos+end]
		p.pos += end + 1
	} else if name == "" {
		return "", p.faultf(start, "expected a field's name")
	}
	if fault := columnNameFault(name); fault != "" {
		return "", p.faultf(start, "field %q: %s", name, fault)
	}
	return name, nil
}

// skip goes past spaces and returns where it is.
func (p *typeParser) skip() int {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
	return p.pos
}

func (p *typeParser) accept(c byte) bool {
	if at := p.skip(); at == len(p.text) || p.text[at] != c {
		return false
	}
	p.pos++
	return true
}

func (p *typeParser) word() string {
	start := p.skip()
	for p.pos < len(p.text) && isWord(p.text[p.pos], p.pos > start) {
		p.pos++
	}
	return p.text[start:p.pos]
}

func (p *typeParser) number() (int, bool) {
	start := p.skip()
	for p.pos < len(p.text) && '0' <= p.text[p.pos] && p.text[p.pos] <= '9' {
		p.pos++
	}
	n, err := strconv.Atoi(p.text[start:p.pos])
	return n, err == nil
}

func isWord(c byte, inside bool) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || inside && '0' <= c && c <= '9'
}

// hasDecimal says whether a type is a decimal, or has one in it.
func hasDecimal(t smelt.Type) bool {
	if t.Elem != nil {
		return hasDecimal(*t.Elem)
	}
	return decimal(t) || slices.ContainsFunc(t.Fields, func(f smelt.Column) bool { return hasDecimal(f.Type) })
}

// setRound has a type's decimals rounded: itself, or those in it.
func setRound(t *smelt.Type) {
	if t.Round = decimal(*t); t.Elem != nil {
		setRound(t.Elem)
	}
	for i := range t.Fields {
		setRound(&t.Fields[i].Type)
	}
}

func decimal(t smelt.Type) bool { return strings.HasPrefix(t.Name, "decimal(") }
