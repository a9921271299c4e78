package silver

import (
	"fmt"
	"strconv"
	"strings"

	"smelt"
	"smelt/internal/sqlcheck"
	"smelt/internal/table"
)

// lineage checks that each row has the lineage of its record.
func (c *checker) lineage() {
	for _, want := range inputs[:2] {
		got, ok := c.Column(want.Name)
		if !ok {
			c.Fault(0, "the result lacks %s, which links a row to its record: select it unchanged", want.Name)
			continue
		}
		altered := got.Type.Name != want.Type.Name
		for _, o := range c.Statement.Outputs {
			if strings.EqualFold(o.Text, want.Name) && (len(o.Path) == 0 || !strings.EqualFold(o.Path[len(o.Path)-1], want.Name)) {
				altered = true
			}
		}
		if altered {
			c.Fault(c.Place(want.Name), "%s must stay unchanged: it links a row to its record", want.Name)
		}
	}
}

func (c *checker) eventTime() {
	at := c.Pipeline.Events.Time
	switch column, ok := c.Column(at); {
	case !ok:
		c.Fault(0, "the result lacks %s, the event time: select it under its name", at)
	case column.Type.Name != "timestamptz" && column.Type.Name != sqlcheck.Unknown:
		c.Fault(c.Place(at), "%s, the event time, is of type %s in the result: it must stay a timestamptz", at, lower(column.Type))
	}
}

func (c *checker) partition() {
	for i, field := range c.Pipeline.Silver.Partition {
		keys := []string{"silver", "partition", strconv.Itoa(i)}
		column, ok := c.declared(field.Column, keys...)
		if !ok {
			continue
		}
		typ := column.Type
		if !table.Partitionable(typ, field.Transform) && typ.Name != sqlcheck.Unknown {
			c.Declaration(fmt.Sprintf("%s is of type %s, which cannot be partitioned by %s", field.Column, lower(typ), field.Transform), keys...)
		}
	}
}

func (c *checker) unique() {
	for i, name := range c.Pipeline.Silver.Unique {
		c.declared(name, "silver", "unique", strconv.Itoa(i))
	}
}

// declared looks up a column of silver that pipeline.yml names.
func (c *checker) declared(name string, keys ...string) (smelt.Column, bool) {
	column, ok := c.Column(name)
	if !ok {
		c.Declaration(fmt.Sprintf("silver.sql gives no column %q%s", name, smelt.DidYouMean(name, sqlcheck.Names(c.Columns)...)), keys...)
	}
	return column, ok
}

func lower(t smelt.Type) string { return strings.ToLower(t.String()) }
