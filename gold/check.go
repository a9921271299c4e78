package gold

import (
	"context"
	"fmt"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/sqlcheck"
)

// refused are the features that a model may not use: its rows of a window are a
// function of the silver rows of that window.
var refused = map[string]string{
	duck.FeatureLimit:      "which rows it leaves depends on the other windows",
	duck.FeatureSample:     "it leaves other rows at each run",
	duck.FeaturePositional: "rows have no order",
	duck.FeatureRecursive:  "a model is one plain SELECT",
	duck.FeatureAt:         "the stage decides what the model reads",
	duck.FeatureParameter:  "nothing gives it a value",
}

// Check checks a model against the columns of silver, without a database. Without columns,
// because silver.sql has faults, it checks what it can. The session has an empty
// silver.<pipeline> afterwards.
func Check(ctx context.Context, session *duck.Session, p *smelt.Pipeline, m smelt.Model, silver []smelt.Column) (sqlcheck.Result, error) {
	file, err := sqlcheck.Open(ctx, session, p, m.Name+".sql", m.SQL)
	if err != nil || file.Statement == nil {
		return file.Result, err
	}
	table := "silver." + p.Name
	readable := file.Reads(table)
	if len(file.Statement.Tables) == 0 && readable {
		file.Fault(0, "%s is not read", table)
	}
	file.Refuse(refused)
	file.Steady(sqlcheck.Names(silver)...)
	if !readable {
		return file.Result, nil
	}
	if silver == nil {
		file.Skipped = append(file.Skipped, m.Name+".sql against silver's columns: silver.sql has faults")
		return file.Result, nil
	}
	if err := sqlcheck.Show(ctx, session, "silver."+duck.Quote(p.Name), silver); err != nil {
		return sqlcheck.Result{}, err
	}
	bound, err := file.Bind(ctx, sqlcheck.Names(silver))
	if err != nil {
		return sqlcheck.Result{}, err
	}
	if bound {
		window(file, m)
	}
	return file.Result, nil
}

// window checks that each row has the start of its window.
func window(file *sqlcheck.File, m smelt.Model) {
	column, ok := file.Column(m.Column)
	if !ok {
		file.Declaration(fmt.Sprintf("%s.sql gives no column %q%s", m.Name, m.Column,
			smelt.DidYouMean(m.Column, sqlcheck.Names(file.Columns)...)), "gold", m.Name, "column")
		return
	}
	switch column.Type.Name {
	case "timestamptz", "timestamp", "date", sqlcheck.Unknown:
	default:
		file.Fault(file.Place(m.Column), "%s, the start of a window, is of type %s: it must be a time", m.Column, strings.ToLower(column.Type.String()))
	}
}
