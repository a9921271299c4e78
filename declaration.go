package smelt

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	defaultWatermark = 10 * time.Minute // sensors and services that retry are done by then

	maxWatermark  = 31 * day    // a month of lateness is already not late but historic
	minWindow     = time.Minute // below it a window costs more than it holds
	maxWindow     = 31 * day    // a rewritten window must stay cheap
	maxColumns    = 1000        // an event that has more is several events
	maxCondition  = 64 << 10    // bytes; it becomes part of a statement
	maxTableName  = 64          // bytes, so that gold.<pipeline>_<model> fits every catalog
	maxPostgres   = 63          // bytes of a name; Postgres cuts what is longer
	maxKafkaTopic = 249         // characters, Kafka's own bound

	day = 24 * time.Hour
)

// What names may look like.
var (
	tableName    = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	plainName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	topicName    = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
	durationText = regexp.MustCompile(`^([0-9]{1,6})(s|m|h|d)$`)
	partitionBy  = regexp.MustCompile(`^([A-Za-z_]+) *\( *(.*?) *\)$`)
)

// transforms are the partition transforms, apart from a bare column's identity.
var transforms = []string{"year", "month", "day", "hour"}

func (root item) pipeline(p *Pipeline) {
	top := root.fields([]string{"source", "events"}, []string{"references", "silver", "gold"})
	if source, ok := top["source"]; ok {
		if topic, ok := source.fields([]string{"kafka"}, nil)["kafka"]; ok {
			p.Topic = topic.topic()
		}
	}
	if events, ok := top["events"]; ok {
		p.Events = events.events()
	}
	if references, ok := top["references"]; ok {
		for _, e := range references.entries() {
			p.References = append(p.References, e.reference(p.Events.Columns))
		}
	}
	if silver, ok := top["silver"]; ok {
		p.Silver = silver.silver()
	}
	if gold, ok := top["gold"]; ok {
		for _, e := range gold.entries() {
			if m, ok := e.model(); ok {
				p.Gold = append(p.Gold, m)
			}
		}
	}
}

func (it item) topic() string {
	name, ok := it.text()
	switch {
	case !ok:
	case len(name) > maxKafkaTopic:
		it.fault("a Kafka topic's name has %d characters at most", maxKafkaTopic)
	case !topicName.MatchString(name) || name == "." || name == "..":
		it.fault("%q is no name of a Kafka topic: letters, digits, \".\", \"_\" and \"-\" only", name)
	}
	return name
}

func (it item) events() Events {
	fields := it.fields([]string{"time", "columns"}, []string{"watermark"})
	events := Events{Watermark: defaultWatermark}
	if watermark, ok := fields["watermark"]; ok {
		events.Watermark = watermark.duration(0, maxWatermark)
	}
	if columns, ok := fields["columns"]; ok {
		events.Columns = columns.columns()
	}
	if when, ok := fields["time"]; ok {
		events.Time, _ = when.text()
		when.eventTime(events)
	}
	return events
}

// eventTime checks that the column of the event time can hold it.
func (it item) eventTime(events Events) {
	if events.Time == "" || len(events.Columns) == 0 {
		return
	}
	c, ok := it.declared(events.Time, events.Columns)
	switch {
	case !ok || c.Type.Name == "": // told already
	case c.Type.Name != "timestamptz":
		it.fault("the event time %q is a %s: it must be a timestamptz not null", c.Name, strings.ToLower(c.Type.String()))
	case !c.NotNull:
		it.fault("the event time %q may be null: declare it as timestamptz not null", c.Name)
	}
}

// declared looks a column up by its exact name. One that is not there is a fault.
func (it item) declared(name string, columns []Column) (Column, bool) {
	names := make([]string, len(columns))
	for i, c := range columns {
		if names[i] = c.Name; c.Name == name {
			return c, true
		}
	}
	it.fault("no column %q under events.columns%s", name, DidYouMean(name, names...))
	return Column{}, false
}

func (it item) columns() []Column {
	entries := it.entries()
	if len(entries) > maxColumns {
		it.fault("%d columns: %d are the most", len(entries), maxColumns)
		return nil
	}
	var columns []Column
	seen := map[string]string{}
	for _, e := range entries {
		folded := strings.ToLower(e.name)
		if other, twice := seen[folded]; twice {
			e.key.fault("columns %q and %q are one to SQL, which ignores case", other, e.name)
		}
		seen[folded] = e.name
		if fault := columnNameFault(e.name); fault != "" {
			e.key.fault("column %q: %s", e.name, fault)
		} else if e.name[0] == '_' {
			e.key.fault("column %q: names that begin with _ are smelt's own", e.name)
		}
		columns = append(columns, e.column())
	}
	return columns
}

// column reads "varchar not null" or {type: timestamptz not null, unit: ms}. Its
// type has no name when that is at fault.
func (e entry) column() Column {
	c := Column{Name: e.name}
	declared, unit := e.item, item{}
	if len(e.node.Content) > 0 {
		fields := e.fields([]string{"type"}, []string{"unit"})
		declared, unit = fields["type"], fields["unit"]
	}
	if declared.node == nil {
		return c
	}
	text, ok := declared.text()
	if !ok {
		return c
	}
	var err error
	if c.Type, c.NotNull, err = parseColumn(text); err != nil {
		fault := err.(*typeFault)
		declared.faultAt(fault.offset, "%s", fault.message)
		return c
	}
	if unit.node != nil {
		c.Type.Unit = unit.unit(c.Type)
	}
	return c
}

func (it item) unit(t Type) string {
	unit, ok := it.text()
	switch {
	case !ok:
	case t.Name != "timestamptz":
		it.fault("a unit goes with a timestamptz, not with a %s", strings.ToLower(t.String()))
	case !slices.Contains([]string{"s", "ms", "us", "ns"}, unit):
		it.fault("unknown unit %q: s, ms, us or ns since 1970; without a unit the time is ISO 8601 text", unit)
	}
	return unit
}

func (e entry) reference(columns []Column) Reference {
	r := Reference{Name: e.name}
	if fault := tableNameFault(e.name); fault != "" {
		e.key.fault("reference %q: %s", e.name, fault)
	}
	fields := e.fields([]string{"table", "key", "on"}, nil)
	if table, ok := fields["table"]; ok {
		if r.Table, ok = table.text(); ok {
			schema, name, two := strings.Cut(r.Table, ".")
			if !two || !postgresName(schema) || !postgresName(name) {
				table.fault("%q is no table: write schema.table, in letters, digits and _", r.Table)
			}
		}
	}
	if key, ok := fields["key"]; ok {
		if r.Key, ok = key.text(); ok && !postgresName(r.Key) {
			key.fault("%q is no column: letters, digits and _ only", r.Key)
		}
	}
	if on, ok := fields["on"]; ok {
		if r.On, ok = on.text(); ok && len(columns) > 0 {
			if c, ok := on.declared(r.On, columns); ok && !c.Type.Scalar() {
				on.fault("%q is a %s, which can be no key", r.On, strings.ToLower(c.Type.String()))
			}
		}
	}
	return r
}

func (it item) silver() Silver {
	var s Silver
	fields := it.fields(nil, []string{"partition", "unique", "expect"})
	if partition, ok := fields["partition"]; ok {
		s.Partition = partition.partition()
	}
	if unique, ok := fields["unique"]; ok {
		s.Unique = unique.names()
	}
	if expect, ok := fields["expect"]; ok {
		for _, e := range expect.entries() {
			s.Expect = append(s.Expect, e.expectation())
		}
	}
	return s
}

// partition reads one field, or a list of them.
func (it item) partition() []PartitionField {
	fields := []item{it}
	if len(it.node.Content) > 0 {
		fields = it.list()
	}
	var partition []PartitionField
	for _, f := range fields {
		text, ok := f.text()
		if !ok {
			continue
		}
		field := PartitionField{Transform: "identity", Column: text}
		if m := partitionBy.FindStringSubmatch(text); m != nil {
			field = PartitionField{Transform: strings.ToLower(m[1]), Column: m[2]}
			if !slices.Contains(transforms, field.Transform) {
				f.fault("unknown transform %q%s; a bare column is taken as it is", m[1], DidYouMean(m[1], transforms...))
			}
		}
		if !plainName.MatchString(field.Column) {
			f.fault("%q is no partitioning: write day(column), or a column", text)
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
			each.fault("%q is no column: letters, digits and _ only", name)
		case slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }):
			each.fault("the column %q is given twice", name)
		}
		names = append(names, name)
	}
	return names
}

func (e entry) expectation() Expectation {
	condition, _ := e.text()
	if len(condition) > maxCondition {
		e.fault("the condition is longer than %d bytes", maxCondition)
	}
	if fault := columnNameFault(e.name); fault != "" {
		e.key.fault("expectation %q: %s", e.name, fault)
	}
	return Expectation{Name: e.name, Condition: strings.TrimSpace(condition)}
}

// model is not ok when no SQL can be read for it.
func (e entry) model() (m Model, ok bool) {
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
			column.fault("%q is no column: letters, digits and _ only", m.Column)
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

// duration reads 10m: a number and s, m, h or d. It is 0 when that is at fault.
func (it item) duration(least, most time.Duration) time.Duration {
	text, ok := it.text()
	if !ok {
		return 0
	}
	m := durationText.FindStringSubmatch(text)
	if m == nil {
		it.fault("%q is no duration: write a number and s, m, h or d, such as 10m", text)
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // at most six digits
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": day}[m[2]]
	d := time.Duration(n) * unit
	if d < least || d > most {
		it.fault("%s must be %s at least and %s at most", it.name(), shortDuration(least), shortDuration(most))
		return 0
	}
	return d
}

func shortDuration(d time.Duration) string {
	switch {
	case d >= day:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// columnNameFault says why a text can be no column of events, or nothing. JSON
// has odd names, which must match exactly; what would break a quoted name is out.
func columnNameFault(name string) string {
	switch {
	case name == "" || strings.TrimSpace(name) != name:
		return "a name neither is empty nor begins or ends with a space"
	case len(name) > maxNameLength:
		return fmt.Sprintf("a name has %d bytes at most", maxNameLength)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`"'\`, r) }):
		return `a name holds neither quotes, nor \, nor what cannot be printed`
	}
	return ""
}

// tableNameFault says why a text can be no part of a table's name, or nothing.
func tableNameFault(name string) string {
	switch {
	case !tableName.MatchString(name):
		return "begin with a lower-case letter, then lower-case letters, digits and _"
	case len(name) > maxTableName:
		return fmt.Sprintf("%d characters at most", maxTableName)
	}
	return ""
}

func postgresName(name string) bool {
	return plainName.MatchString(name) && len(name) <= maxPostgres
}
