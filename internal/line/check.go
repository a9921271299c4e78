package line

import (
	"context"
	"errors"

	"smelt"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/sqlcheck"
	"smelt/silver"
)

// Check checks the SQL of a pipeline and what pipeline.yml says about it, without any service. skipped is what could not be
// checked, and why. The error holds all faults, as [smelt.Faults], or says why nothing could be checked. db must be idle.
func Check(ctx context.Context, db *duck.DB, p *smelt.Pipeline) (skipped []string, err error) {
	session, err := db.Session(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	result, err := silver.Check(ctx, session, p)
	if err != nil {
		return nil, err
	}
	columns := result.Columns
	if columns != nil {
		columns = silver.TableColumns(columns)
	}
	all := []sqlcheck.Result{result}
	for _, m := range p.Gold {
		result, err := gold.Check(ctx, session, p, m, columns)
		if err != nil {
			return nil, err
		}
		all = append(all, result)
	}
	var faults smelt.Faults
	for _, r := range all {
		faults = append(faults, r.Faults...)
		skipped = append(skipped, r.Skipped...)
	}
	return skipped, faults.Err()
}
