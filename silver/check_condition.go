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

// CheckCondition returns what is wrong with a condition on rows with these columns, or "".
// A condition must be one boolean expression that reads its own row only and is
// repeatable. In parentheses it then fits into any statement that has the columns under
// their bare names. A cast in it may still throw on a row. The session must be idle. It
// has an empty view afterwards.
func CheckCondition(ctx context.Context, session *duck.Session, columns []smelt.Column, condition string) (fault string, err error) {
	functions, err := session.Functions(ctx)
	if err != nil {
		return "", err
	}
	rows, err := conditionsOn(ctx, session, functions, columns)
	if err != nil {
		return "", err
	}
	return rows.check(ctx, condition)
}

// expectations checks the conditions that each row must meet.
func (c *checker) expectations(ctx context.Context) error {
	rows, err := conditionsOn(ctx, c.session, c.Functions, c.Columns)
	if err != nil {
		return err
	}
	for _, x := range c.Pipeline.Silver.Expect {
		fault, err := rows.check(ctx, x.Condition)
		if err != nil {
			return err
		}
		if fault != "" {
			c.Declaration(fmt.Sprintf("the expectation %q: %s", x.Name, fault), "silver", "expect", x.Name)
		}
	}
	return nil
}

// conditions checks conditions on single rows.
type conditions struct {
	session   *duck.Session
	functions duck.Functions
	columns   []smelt.Column
}

// checked is the empty view that has the columns, under an alias that is no
// column of silver.sql.
const checked = "work.checked AS _row"

func conditionsOn(ctx context.Context, session *duck.Session, functions duck.Functions, columns []smelt.Column) (*conditions, error) {
	if err := sqlcheck.Show(ctx, session, "work.checked", columns); err != nil {
		return nil, err
	}
	return &conditions{session, functions, columns}, nil
}

// check says what is wrong with a condition, or nothing.
func (c *conditions) check(ctx context.Context, condition string) (fault string, err error) {
	parsed, err := c.session.ParseCondition(ctx, condition)
	if syntax, ok := duck.IsSyntax(err); ok {
		return syntax.Message, nil
	}
	if err != nil {
		return "", err
	}
	if fault := c.beyond(parsed); fault != "" {
		return fault, nil
	}
	names := sqlcheck.Names(c.columns)
	columns, faults, err := c.session.Bind(ctx, "SELECT ("+condition+") FROM "+checked, parsed)
	switch {
	case err != nil:
		return "", err
	case len(faults) > 0 && faults[0].Column != "":
		return missing(faults[0].Column, names), nil
	case len(faults) > 0:
		return faults[0].Message, nil
	case len(parsed.Columns) == 0:
		return "it looks at no column", nil
	}
	for _, column := range parsed.Columns { // one such as _row.city
		if len(column.Path) > 1 && !within(names, column.Path[0]) {
			return missing(column.Path[0], names), nil
		}
	}
	return noCondition(columns, c.columns), nil
}

// beyond says what in a condition looks at more than its row, or nothing. One
// that does must not be bound: that alone would read a file.
func (c *conditions) beyond(parsed *duck.Statement) string {
	const alone = ": a condition looks at its row alone"
	if len(parsed.Features) > 0 {
		switch what := parsed.Features[0].Text; what {
		case duck.FeatureParameter:
			return what + ": nothing gives it a value"
		case duck.FeatureColumns, duck.FeatureNumber:
			return what + ": name the column"
		default:
			return what + alone
		}
	}
	if reads := slices.Concat(parsed.Sources, parsed.Tables); len(reads) > 0 {
		return reads[0].Text + alone
	}
	for _, fn := range parsed.Functions {
		if c.functions.Aggregate[fn.Text] || c.functions.Unnest[fn.Text] {
			return fn.Text + alone
		}
	}
	return unsteady(parsed, c.functions, c.columns)
}

// unsteady says what in a condition gives another value at each run, or nothing.
func unsteady(parsed *duck.Statement, functions duck.Functions, columns []smelt.Column) string {
	if found := sqlcheck.Unsteady(parsed, functions, sqlcheck.Names(columns)); len(found) > 0 {
		return found[0].Text + " gives another value at each run"
	}
	return ""
}

// noCondition says why a result over columns is that of no condition, or nothing.
// Where the type of a column is not known its own is not either.
func noCondition(result []duck.OutputColumn, columns []smelt.Column) string {
	known := !slices.ContainsFunc(columns, func(c smelt.Column) bool { return c.Type.Name == sqlcheck.Unknown })
	switch {
	case len(result) != 1:
		return "it must be one condition"
	case result[0].Type != "BOOLEAN" && known:
		return "it is of type " + strings.ToLower(result[0].Type) + ": it must be a condition"
	}
	return ""
}

func missing(column string, names []string) string {
	return fmt.Sprintf("there is no column %q%s", column, smelt.DidYouMean(column, names...))
}

// within looks for a name as SQL does, in which case does not count.
func within(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
