package silver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/sqlcheck"
	"smelt/pipeline"
)

// refused are the features that silver.sql may not use: each record gives
// exactly one row, which depends on nothing but the record and, by their keys,
// its reference rows.
var refused = map[string]string{
	duck.FeatureGroupBy:    "it makes one row of several: each record must give its own row",
	duck.FeatureHaving:     "it makes one row of several: each record must give its own row",
	duck.FeatureQualify:    "it reads other rows: each record must be transformed alone",
	duck.FeatureWindow:     "it reads other rows: each record must be transformed alone",
	duck.FeatureDistinct:   "it drops rows that are alike: declare what is a duplicate as unique: in pipeline.yml",
	duck.FeatureLimit:      "it drops rows: each record must give its row",
	duck.FeatureSample:     "it drops rows: each record must give its row",
	duck.FeatureUnion:      "it reads rows twice: each record must give one row",
	duck.FeatureExcept:     "it drops rows because of other rows: each record must be transformed alone",
	duck.FeatureIntersect:  "it drops rows because of other rows: each record must be transformed alone",
	duck.FeatureRecursive:  "it makes several rows of one: each record must give one row",
	duck.FeatureSubquery:   "read a reference by a LEFT JOIN on its key",
	duck.FeatureFull:       "it makes rows that are of no record: use a LEFT JOIN",
	duck.FeatureRight:      "it makes rows that are of no record: begin with bronze and use a LEFT JOIN",
	duck.FeatureCross:      "it makes several rows of one: use a LEFT JOIN on the reference's key",
	duck.FeatureNatural:    "what it joins by changes with the tables: use USING or ON",
	duck.FeaturePositional: "rows have no order: use a LEFT JOIN on the reference's key",
	duck.FeatureAt:         "the stage decides what silver.sql reads",
	duck.FeatureParameter:  "nothing gives it a value",
}

// inputs are what silver.sql may read of a record beside the declared columns.
var inputs = []smelt.Column{
	{Name: colPartition, Type: smelt.Type{Name: "integer"}},
	{Name: colOffset, Type: smelt.Type{Name: "bigint"}},
	{Name: "_timestamp", Type: smelt.Type{Name: "timestamptz"}},
	{Name: "_key", Type: smelt.Type{Name: "varchar"}},
	{Name: "_headers", Type: smelt.Type{Name: "json"}},
}

// checker checks one silver.sql and what pipeline.yml says about its result.
type checker struct {
	*sqlcheck.File
	session *duck.Session
	known   []string // columns that silver.sql may name
	guessed bool     // the columns of a reference are not known
}

// Check checks a pipeline's silver.sql, and the declarations about its result,
// without a database. References are known by their rows in test.txtar; the
// columns of one that has none there are skipped, which the result says. The
// session must be new, and is left with empty tables.
func Check(ctx context.Context, session *duck.Session, p *smelt.Pipeline) (sqlcheck.Result, error) {
	file, err := sqlcheck.Open(ctx, session, p, "silver.sql", p.Silver.SQL)
	if err != nil {
		return sqlcheck.Result{}, err
	}
	c := &checker{File: file, session: session}
	if c.Statement == nil {
		c.Skipped = append(c.Skipped, "what pipeline.yml says about silver's columns: silver.sql is not a SELECT")
		return c.Result, nil
	}
	readable := c.reads()
	c.Refuse(refused)
	c.RowWise()
	c.Steady(sqlcheck.Names(p.Events.Columns)...)
	if err := c.bind(ctx, readable); err != nil {
		return sqlcheck.Result{}, err
	}
	return c.Result, nil
}

// reads checks that each record is read once, and nothing that may not be.
func (c *checker) reads() bool {
	bronze := "bronze." + c.Pipeline.Name
	allowed := []string{bronze}
	for _, r := range c.Pipeline.References {
		allowed = append(allowed, "reference."+r.Name)
	}
	readable := c.Reads(allowed...)
	times := 0
	for _, t := range c.Statement.Tables {
		if !strings.EqualFold(t.Text, bronze) {
			continue
		}
		if times++; times > 1 {
			c.Fault(t.Position, "%s is read twice: each record must be transformed alone", bronze)
		}
	}
	if times == 0 && readable {
		c.Fault(0, "%s is not read: each of its records must give a row", bronze)
	}
	return readable
}

// bind binds silver.sql to empty tables, and checks its result. It does not when
// it reads what it may not.
func (c *checker) bind(ctx context.Context, readable bool) error {
	if err := c.tables(ctx); err != nil {
		return err
	}
	mine := []string{colPartition, colOffset}
	bound := false
	if readable {
		var err error
		if bound, err = c.Bind(ctx, c.known, mine...); err != nil {
			return err
		}
	}
	if !bound {
		c.Columns = nil
		c.Skipped = append(c.Skipped, "what pipeline.yml says about silver's columns: silver.sql has faults")
		return nil
	}
	if c.guessed {
		for i, column := range c.Columns {
			// What a column that is always NULL turns into.
			if column.Type.Name == "integer" && !slices.Contains(mine, column.Name) {
				c.Columns[i].Type = smelt.Type{Name: sqlcheck.Unknown}
			}
		}
	}
	c.lineage()
	c.eventTime()
	c.partition()
	c.unique()
	if err := c.expectations(ctx); err != nil {
		return err
	}
	return c.audits(ctx)
}

// tables makes empty tables, as silver.sql will see them.
func (c *checker) tables(ctx context.Context) error {
	columns := slices.Concat(c.Pipeline.Events.Columns, inputs)
	c.known = sqlcheck.Names(columns)
	if err := sqlcheck.Show(ctx, c.session, "bronze."+duck.Quote(c.Pipeline.Name), columns); err != nil {
		return err
	}
	var given []pipeline.TestTable
	if c.Pipeline.Test != nil {
		test, err := pipeline.ReadTest(c.Pipeline.Test)
		if err != nil {
			return err
		}
		given = test.References
	}
	own := slices.Clone(c.known)
	for _, r := range c.Pipeline.References {
		i := slices.IndexFunc(given, func(t pipeline.TestTable) bool { return t.Name == r.Name })
		var columns []smelt.Column
		if i >= 0 {
			columns, _ = duck.Sniff(given[i].Columns, given[i].Rows, sqlcheck.TextKeys(c.Pipeline, r)...)
		} else {
			columns = c.guess(r, own)
			c.Skipped = append(c.Skipped, fmt.Sprintf("the columns of reference.%s: test.txtar has no reference/%s.csv", r.Name, r.Name))
		}
		c.known = append(c.known, sqlcheck.Names(columns)...)
		if err := sqlcheck.Show(ctx, c.session, "reference."+duck.Quote(r.Name), columns); err != nil {
			return err
		}
	}
	return nil
}

// guess gives a reference that is not known its key and the columns that
// silver.sql names and that no other table has.
func (c *checker) guess(r smelt.Reference, known []string) []smelt.Column {
	var columns []smelt.Column
	add := func(name string) {
		if !slices.ContainsFunc(columns, func(c smelt.Column) bool { return strings.EqualFold(c.Name, name) }) {
			columns = append(columns, smelt.Column{Name: name, Type: smelt.Type{Name: sqlcheck.Unknown}})
		}
	}
	add(r.Key)
	for _, u := range c.Statement.Using {
		add(u.Text)
	}
	alias := r.Name
	for _, t := range c.Statement.Tables {
		if strings.EqualFold(t.Text, "reference."+r.Name) {
			alias = t.Alias
		}
	}
	for _, column := range c.Statement.Columns {
		switch {
		case len(column.Path) > 1 && strings.EqualFold(column.Path[0], alias):
			add(column.Path[1])
		case len(column.Path) == 1 && !c.guessed && !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, column.Text) }):
			add(column.Text)
		}
	}
	c.guessed = true
	return columns
}
