package pipeline

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"smelt"
)

const (
	minWindow    = time.Minute // below it a window costs more than it holds
	maxWindow    = 31 * day    // a window that is rewritten must stay cheap
	maxCondition = 64 << 10    // bytes; it becomes part of a statement
)

var partitionBy = regexp.MustCompile(`^([A-Za-z_]+) *\( *(.*?) *\)$`)

// transforms are the partition transforms, apart from a bare column's identity.
var transforms = []string{"year", "month", "day", "hour"}

func (it item) silver() smelt.Silver {
	var s smelt.Silver
	fields := it.fields(nil, []string{"partition", "unique", "expect", "audit"})
	if partition, ok := fields["partition"]; ok {
		s.Partition = partition.partition()
	}
	if unique, ok := fields["unique"]; ok {
		s.Unique = unique.names()
	}
	if expect, ok := fields["expect"]; ok {
		for _, e := range expect.entries() {
			s.Expect = append(s.Expect, smelt.Expectation{Name: e.name, Condition: e.condition("expectation")})
		}
	}
	if audit, ok := fields["audit"]; ok {
		for _, e := range audit.entries() {
			s.Audit = append(s.Audit, smelt.Audit{Name: e.name, Condition: e.condition("audit")})
		}
	}
	return s
}

// partition reads one field, or a list of them.
func (it item) partition() []smelt.PartitionField {
	fields := []item{it}
	if len(it.node.Content) > 0 {
		fields = it.list()
	}
	var partition []smelt.PartitionField
	for _, f := range fields {
		text, ok := f.text()
		if !ok {
			continue
		}
		field := smelt.PartitionField{Transform: "identity", Column: text}
		if m := partitionBy.FindStringSubmatch(text); m != nil {
			field = smelt.PartitionField{Transform: strings.ToLower(m[1]), Column: m[2]}
			if !slices.Contains(transforms, field.Transform) {
				f.fault("unknown transform %q%s; a bare column means its value", m[1], smelt.DidYouMean(m[1], transforms...))
			}
		}
		if !plainName.MatchString(field.Column) {
			f.fault("%q is not a partitioning: write day(column), or a column", text)
		}
		for _, other := range partition {
			if strings.EqualFold(other.Column, field.Column) {
				f.fault("the column %q is in the partitioning twice", field.Column)
			}
		}
		partition = append(partition, field)
	}
	return partition
}

// names reads a list of columns of silver.
func (it item) names() []string {
	var names []string
	for _, each := range it.list() {
		name, ok := each.text()
		switch {
		case !ok:
		case !plainName.MatchString(name):
			each.fault("%q is not a column: letters, digits and _ only", name)
		case slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }):
			each.fault("the column %q is given twice", name)
		}
		names = append(names, name)
	}
	return names
}

// condition reads a named condition, which kind says what it is for.
func (e entry) condition(kind string) string {
	condition, _ := e.text()
	if len(condition) > maxCondition {
		e.fault("the condition is longer than %d bytes", maxCondition)
	}
	if fault := columnNameFault(e.name); fault != "" {
		e.key.fault("%s %q: %s", kind, e.name, fault)
	}
	return strings.TrimSpace(condition)
}

// model is not ok when no SQL can be read for it.
func (e entry) model() (m smelt.Model, ok bool) {
	m.Name = e.name
	fields := e.fields([]string{"window", "column"}, nil)
	if window, ok := fields["window"]; ok {
		m.Window = window.duration(minWindow, maxWindow)
		if m.Window > 0 && day%m.Window != 0 && m.Window%day != 0 {
			window.fault("a window must divide the day, or be whole days: 1m, 15m, 1h, 6h, 1d, 7d")
		}
	}
	if column, ok := fields["column"]; ok {
		if m.Column, ok = column.text(); ok && !plainName.MatchString(m.Column) {
			column.fault("%q is not a column: letters, digits and _ only", m.Column)
		}
	}
	fault := tableNameFault(e.name)
	if e.name == "silver" {
		fault = "silver.sql is taken: choose another name"
	}
	if fault != "" {
		e.key.fault("model %q: %s", e.name, fault)
	}
	return m, fault == ""
}
