package pipeline

import (
	"slices"
	"strings"
	"time"

	"smelt"
)

const (
	defaultWatermark = 10 * time.Minute // services that retry are done by then

	maxWatermark = 31 * day // what comes later is history, not late
)

func (root item) pipeline(p *smelt.Pipeline) {
	top := root.fields([]string{"source", "events"}, []string{"references", "silver", "gold", "retain"})
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
	if retain, ok := top["retain"]; ok {
		p.Retain = retain.retain(p)
	}
}

func (it item) topic() string {
	name, ok := it.text()
	switch {
	case !ok:
	case len(name) > maxKafkaTopic:
		it.fault("a Kafka topic's name has %d characters at most", maxKafkaTopic)
	case !topicName.MatchString(name) || name == "." || name == "..":
		it.fault("%q is not the name of a Kafka topic: letters, digits, \".\", \"_\" and \"-\" only", name)
	}
	return name
}

func (it item) events() smelt.Events {
	fields := it.fields([]string{"time", "columns"}, []string{"watermark"})
	events := smelt.Events{Watermark: defaultWatermark}
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
func (it item) eventTime(events smelt.Events) {
	if events.Time == "" || len(events.Columns) == 0 {
		return
	}
	c, ok := it.declared(events.Time, events.Columns)
	switch {
	case !ok || c.Type.Name == "": // reported already
	case c.Type.Name != "timestamptz":
		it.fault("the event time %q is a %s: it must be a timestamptz not null", c.Name, strings.ToLower(c.Type.String()))
	case !c.NotNull:
		it.fault("the event time %q may be null: declare it as timestamptz not null", c.Name)
	}
}

// declared looks a column up by its exact name. One that is not there is a fault.
func (it item) declared(name string, columns []smelt.Column) (smelt.Column, bool) {
	names := make([]string, len(columns))
	for i, c := range columns {
		if names[i] = c.Name; c.Name == name {
			return c, true
		}
	}
	it.fault("no column %q under events.columns%s", name, smelt.DidYouMean(name, names...))
	return smelt.Column{}, false
}

func (it item) columns() []smelt.Column {
	var columns []smelt.Column
	seen := map[string]string{}
	for _, e := range it.entries() {
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
// type has no name when that is invalid.
func (e entry) column() smelt.Column {
	c := smelt.Column{Name: e.name}
	declared, unit, round := e.item, item{}, item{}
	if len(e.node.Content) > 0 {
		fields := e.fields([]string{"type"}, []string{"unit", "round"})
		declared, unit, round = fields["type"], fields["unit"], fields["round"]
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
	if round.node != nil && round.round(c.Type) {
		setRound(&c.Type)
	}
	return c
}

func (it item) unit(t smelt.Type) string {
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

// round reads whether the decimals of a type are rounded.
func (it item) round(t smelt.Type) bool {
	text, ok := it.text()
	switch {
	case !ok:
	case !hasDecimal(t):
		it.fault("round goes with a decimal, not with a %s", strings.ToLower(t.String()))
	case text != "true" && text != "false":
		it.fault("%q is not true or false", text)
	}
	return text == "true"
}

func (e entry) reference(columns []smelt.Column) smelt.Reference {
	r := smelt.Reference{Name: e.name}
	if fault := tableNameFault(e.name); fault != "" {
		e.key.fault("reference %q: %s", e.name, fault)
	}
	fields := e.fields([]string{"table", "key", "on"}, nil)
	if table, ok := fields["table"]; ok {
		if r.Table, ok = table.text(); ok {
			schema, name, two := strings.Cut(r.Table, ".")
			if !two || !postgresName(schema) || !postgresName(name) {
				table.fault("%q is not a table: write schema.table, in letters, digits and _", r.Table)
			}
		}
	}
	if key, ok := fields["key"]; ok {
		if r.Key, ok = key.text(); ok && !postgresName(r.Key) {
			key.fault("%q is not a column: letters, digits and _ only", r.Key)
		}
	}
	if on, ok := fields["on"]; ok {
		if r.On, ok = on.text(); ok && len(columns) > 0 {
			if c, ok := on.declared(r.On, columns); ok && !c.Type.Scalar() {
				on.fault("%q is a %s, which cannot be a key", r.On, strings.ToLower(c.Type.String()))
			}
		}
	}
	return r
}
