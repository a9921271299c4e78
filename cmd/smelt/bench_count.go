//go:build bench

package main

import (
	"context"
	"errors"
	"fmt"

	"smelt"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/silver"
)

// count counts what a drain has left in the tables. It fails when a row is missing, or
// there is one too many.
func (b *backlog) count(ctx context.Context) error {
	p := b.line.Pipeline
	var rows, rejected, twins int64
	err := errors.Join(
		askRows(ctx, b.parts, silver.TableName(p.Name), " SELECT count(*) FROM rows", &rows),
		askRows(ctx, b.parts, silver.QuarantineName(p.Name), " SELECT count(*), count(*) FILTER (reason = 'duplicate') FROM rows", &rejected, &twins),
	)
	wrong := func(what string, got, want int64) {
		if got != want {
			err = errors.Join(err, smelt.Mark(smelt.ErrVerify, fmt.Errorf("%d %s, want %d", got, what, want)))
		}
	}
	wrong("rows in silver and in quarantine", rows+rejected, b.waiting)
	if p.Topic == fleetTopic {
		wrong("duplicates", twins, b.waiting/fleetTwins)
		wrong("rejected rows", rejected, twins)
	}
	for _, m := range p.Gold {
		var sum int64
		name := gold.TableName(p.Name, m.Name)
		err = errors.Join(err, askRows(ctx, b.parts, name, " SELECT sum(readings)::BIGINT FROM rows", &sum))
		wrong("events in "+name, sum, rows)
	}
	return err
}

// askRows runs a query over a table for its first row. The query follows WITH rows
// AS (…), which are the table's.
func askRows(ctx context.Context, parts line.Parts, name, query string, dest ...any) (err error) {
	t, err := parts.Area.Lake.Load(ctx, name)
	if err != nil {
		return err
	}
	current, _ := t.Current()
	files, err := t.Files(ctx, current.ID)
	if err != nil {
		return err
	}
	paths, release, err := parts.Area.Fetch(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	session, err := parts.Duck.Session(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	return session.Row(ctx, "WITH rows AS (FROM "+duck.ReadParquet(t.Columns(), paths)+")"+query, dest...)
}
