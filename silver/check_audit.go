package silver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/sqlcheck"
)

// AuditQuery gives the statement of an audit, whose result is one boolean. It
// reads the views old and new of the session's main schema, which have silver's
// columns.
func AuditQuery(a smelt.Audit) string { return "SELECT (" + a.Condition + ") IS TRUE" }

// audited are the tables that an audit reads.
var audited = []string{"old", "new"}

// refusedInAudit are the features that an audit may not use: it ends, and says
// the same of the same rows.
var refusedInAudit = map[string]string{
	duck.FeatureSample:     "it leaves other rows at each run",
	duck.FeaturePositional: "rows have no order",
	duck.FeatureRecursive:  "an audit must come to an end",
	duck.FeatureAt:         "old and new are all that there is",
	duck.FeatureParameter:  "nothing gives it a value",
}

// audits checks the conditions over what a backfill replays.
func (c *checker) audits(ctx context.Context) error {
	columns := TableColumns(c.Columns)
	for _, table := range audited {
		if err := sqlcheck.Show(ctx, c.session, table, columns); err != nil {
			return err
		}
	}
	for _, a := range c.Pipeline.Silver.Audit {
		fault, err := c.audit(ctx, a.Condition, columns)
		if err != nil {
			return err
		}
		if fault != "" {
			c.Declaration(fmt.Sprintf("the audit %q: %s", a.Name, fault), "silver", "audit", a.Name)
		}
	}
	return nil
}

// audit says what is wrong with a condition, or nothing.
func (c *checker) audit(ctx context.Context, condition string, columns []smelt.Column) (fault string, err error) {
	parsed, err := c.session.ParseCondition(ctx, condition)
	if syntax, ok := duck.IsSyntax(err); ok {
		if _, err := c.session.Parse(ctx, condition); err == nil {
			return "it is a SELECT: put it in parentheses, and say what it must give", nil
		}
		return syntax.Message, nil
	}
	if err != nil {
		return "", err
	}
	if fault := c.elsewhere(parsed, columns); fault != "" {
		return fault, nil
	}
	result, faults, err := c.session.Bind(ctx, "SELECT ("+condition+")", parsed)
	if err != nil {
		return "", err
	}
	if len(faults) > 0 {
		return unbound(faults[0], parsed, sqlcheck.Names(columns)), nil
	}
	if fault := noCondition(result, columns); fault != "" {
		return fault, nil
	}
	// What a WHERE takes too is about no rows but those of its SELECTs.
	_, faults, err = c.session.Bind(ctx, "SELECT 1 WHERE ("+condition+")", parsed)
	if err != nil || len(faults) == 0 {
		return "", err
	}
	return "there are no rows outside a SELECT: write (SELECT count(*) FROM new)", nil
}

// elsewhere says what in an audit looks at more than old and new, or nothing.
// One that does must not be bound: that alone would read a file.
func (c *checker) elsewhere(parsed *duck.Statement, columns []smelt.Column) string {
	for _, feature := range parsed.Features {
		if why, refused := refusedInAudit[feature.Text]; refused {
			return feature.Text + ": " + why
		}
	}
	for _, t := range parsed.Tables {
		if !within(audited, t.Text) {
			return t.Text + " cannot be read here" + smelt.DidYouMean(t.Text, audited...)
		}
	}
	switch {
	case len(parsed.Sources) > 0:
		return parsed.Sources[0].Text + ": only old and new can be read here"
	case len(parsed.Tables) == 0:
		return "it reads neither old nor new"
	}
	return unsteady(parsed, c.Functions, columns)
}

// unbound says why a condition does not fit the tables old and new. Both have the columns
// of these names.
func unbound(fault duck.BindError, parsed *duck.Statement, names []string) string {
	for _, u := range parsed.Using {
		if !within(names, u.Text) && strings.Contains(fault.Message, `"`+u.Text+`"`) {
			return missing(u.Text, names)
		}
	}
	at := slices.IndexFunc(parsed.Columns, func(c duck.Name) bool { return c.Position == fault.Position })
	if at < 0 {
		return fault.Message
	}
	// For a table inside an aggregate, DuckDB reports that the table does not exist.
	path := parsed.Columns[at].Path
	column, table := path[0], "new"
	if len(path) > 1 {
		i := slices.IndexFunc(parsed.Tables, func(t duck.Name) bool { return strings.EqualFold(t.Alias, path[0]) })
		if i < 0 {
			return fault.Message
		}
		column, table = path[1], parsed.Tables[i].Text
	}
	switch {
	case !within(names, column):
		return missing(column, names)
	case strings.HasPrefix(fault.Message, "Referenced table"), strings.Contains(fault.Message, "FROM clause is missing"):
		return fmt.Sprintf("%s is read from no table: put it into a SELECT, such as (SELECT max(%s) FROM %s)", strings.Join(path, "."), column, table)
	}
	return fault.Message
}
