package silver

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/sqlcheck"
)

// lineage checks that a row says of which record it is.
func (c *checker) lineage() {
	for _, want := range inputs[:2] {
		got, ok := c.Column(want.Name)
		if !ok {
			c.Fault(0, "the result lacks %s, a row's way back to its record: select it as it is", want.Name)
			continue
		}
		altered := got.Type.Name != want.Type.Name
		for _, o := range c.Statement.Outputs {
			if strings.EqualFold(o.Text, want.Name) && (len(o.Path) == 0 || !strings.EqualFold(o.Path[len(o.Path)-1], want.Name)) {
				altered = true
			}
		}
		if altered {
			c.Fault(c.Place(want.Name), "%s must stay as it is in bronze: it is a row's way back to its record", want.Name)
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
		fits := typ.Scalar()
		switch field.Transform {
		case "identity":
			fits = fits && typ.Name != "float" && typ.Name != "double" && typ.Name != "blob"
		case "hour":
			fits = typ.Name == "timestamp" || typ.Name == "timestamptz"
		default:
			fits = typ.Name == "timestamp" || typ.Name == "timestamptz" || typ.Name == "date"
		}
		if !fits && typ.Name != sqlcheck.Unknown {
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

// expectations checks the conditions that each row must meet.
func (c *checker) expectations(ctx context.Context) error {
	if err := sqlcheck.Show(ctx, c.session, "work.checked", c.Columns); err != nil {
		return err
	}
	for _, x := range c.Pipeline.Silver.Expect {
		fault, err := c.expectation(ctx, x)
		if err != nil {
			return err
		}
		if fault != "" {
			c.Declaration(fmt.Sprintf("the expectation %q: %s", x.Name, fault), "silver", "expect", x.Name)
		}
	}
	return nil
}

// expectation says what is wrong with a condition, or nothing.
func (c *checker) expectation(ctx context.Context, x smelt.Expectation) (string, error) {
	parsed, err := c.session.Parse(ctx, "SELECT "+x.Condition)
	if err == nil { // in the form in which it will run
		_, err = c.session.Parse(ctx, "SELECT ("+x.Condition+") IS NOT TRUE")
	}
	if syntax, ok := duck.IsSyntax(err); ok {
		return syntax.Message, nil
	}
	if err != nil {
		return "", err
	}
	names := sqlcheck.Names(c.Columns)
	switch unsteady := sqlcheck.Unsteady(parsed, c.Functions, names); {
	case len(parsed.Outputs) != 1 || len(parsed.Tables)+len(parsed.Sources) > 0:
		return "it must be one condition on silver's columns", nil
	case len(parsed.Features) > 0:
		return parsed.Features[0].Text + ": a condition looks at its row alone", nil
	case len(unsteady) > 0:
		return unsteady[0].Text + " gives another value at each run", nil
	}
	for _, fn := range parsed.Functions {
		if c.Functions.Aggregate[fn.Text] || c.Functions.Unnest[fn.Text] {
			return fn.Text + ": a condition looks at its row alone", nil
		}
	}
	text := "SELECT (" + x.Condition + ") FROM work.checked"
	if parsed, err = c.session.Parse(ctx, text); err != nil {
		return "", err
	}
	columns, faults, err := c.session.Bind(ctx, text, parsed)
	switch {
	case err != nil:
		return "", err
	case len(faults) > 0 && faults[0].Column != "":
		return fmt.Sprintf("there is no column %q%s", faults[0].Column, smelt.DidYouMean(faults[0].Column, names...)), nil
	case len(faults) > 0:
		return faults[0].Message, nil
	case columns[0].Type != "BOOLEAN" && !c.guessed:
		return "it is of type " + strings.ToLower(columns[0].Type) + ": it must be a condition", nil
	case len(parsed.Columns) == 0:
		return "it looks at no column", nil
	}
	return "", nil
}

func lower(t smelt.Type) string { return strings.ToLower(t.String()) }
