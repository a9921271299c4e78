package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/gold"
	"smelt/internal/human"
	"smelt/internal/ledger"
	"smelt/silver"
	"smelt/upkeep"
)

// dropCmd deletes a table, or all that a pipeline has made.
type dropCmd struct {
	Name   string `arg:"" placeholder:"TABLE|PIPELINE" help:"Name of a gold table, such as gold.sensors_hourly, or of a pipeline: its silver, quarantine and gold."`
	Bronze bool   `help:"Bronze of the pipeline goes, too: what its topic still has is read again."`
	Yes    bool   `help:"Do not ask."`
}

// dropping is what a drop is about to delete.
type dropping struct {
	pipeline    string   // "" when a single table was named
	tables      []string // in their order
	unsure      []string // gold tables that may be another pipeline's
	bronze      []smelt.Object
	retired     int64     // records that bronze has retired
	lastRetired time.Time // when the last of them was written
	whole       time.Time // of a single gold table: from then on silver has all rows, by retain:
}

// Run shows what will go, asks, and deletes it.
func (c dropCmd) Run(ctx context.Context, s *settings, io *streams) error {
	if err := c.check(); err != nil {
		return err
	}
	pipelines, err := s.pipelines()
	if err != nil {
		return err
	}
	lake, err := s.openLake(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	d, err := c.choose(ctx, lake, pipelines)
	if err != nil {
		return err
	}
	if err := s.refuseAtWork(ctx, d); err != nil {
		return err
	}
	text, err := d.text(ctx, lake)
	if err != nil {
		return err
	}
	fmt.Fprint(io.Out, text)
	if !c.Yes {
		if err := ask(ctx, io, "Delete all that?"); err != nil {
			return err
		}
	}
	return d.run(ctx, lake, io)
}

// check refuses names that are parts of a whole.
func (c dropCmd) check() error {
	layer, pipeline, one := strings.Cut(c.Name, ".")
	switch {
	case c.Name == "": // as a variable that is not set leaves it
		return usagef("which? Name a gold table or a pipeline")
	case strings.Contains(c.Name, "/"): // of bronze it would be a part of a pipeline's folder
		return usagef("%q is not the name of a table or a pipeline: it has a slash", c.Name)
	case one && layer == "bronze":
		return usagef("bronze goes with all that was made of it: ./bin/smelt drop %s --bronze", pipeline)
	case one && (layer == "silver" || layer == "quarantine"):
		return usagef("silver.%s and quarantine.%[1]s go together, since each record is in one of the two: ./bin/smelt drop %[1]s deletes both, and the gold tables, which are computed from them", pipeline)
	case one && c.Bronze:
		return usagef("--bronze goes with the name of a pipeline: %s is a table", c.Name)
	}
	return nil
}

// choose finds the table or the pipeline of the name.
func (c dropCmd) choose(ctx context.Context, l *lake, pipelines []*smelt.Pipeline) (d dropping, err error) {
	tables, err := l.Tables.List(ctx)
	if err != nil {
		return d, err
	}
	all := newOwners(pipelines, tables)
	candidates := []string{c.Name}
	if !strings.Contains(c.Name, ".") {
		d.pipeline = c.Name
		d.tables, d.unsure = all.tablesOf(c.Name, tables)
		candidates = []string{silver.TableName(c.Name), silver.QuarantineName(c.Name)}
		for _, p := range pipelines {
			for _, m := range p.Gold {
				if p.Name == c.Name {
					candidates = append(candidates, gold.TableName(p.Name, m.Name))
				}
			}
		}
		if d.bronze, err = bronze.Objects(ctx, l.Store, c.Name); err != nil {
			return d, err
		}
		if d.retired, d.lastRetired, err = bronze.NewReader(l.Store, c.Name).RetiredRecords(ctx); err != nil && !c.Bronze {
			return d, err
		}
	}
	if slices.Contains(tables, c.Name) {
		d.tables = []string{c.Name}
		if d.whole, err = wholeSince(ctx, l, all.of(c.Name)); err != nil {
			return d, err
		}
	}
	for _, name := range candidates { // what a drop that died has left
		left, err := l.Tables.Leftovers(ctx, name)
		if err != nil {
			return d, err
		}
		if len(left) > 0 && !slices.Contains(d.tables, name) {
			d.tables = append(d.tables, name)
		}
	}
	nothing := len(d.tables) == 0 && (len(d.bronze) == 0 || !c.Bronze)
	known := slices.Contains(all.names, c.Name) || len(d.bronze) > 0
	if !c.Bronze {
		d.bronze = nil
	}
	if nothing && len(d.unsure) > 0 {
		return d, usagef("%s may be of another pipeline: name a table to drop it, ./bin/smelt drop %s", strings.Join(d.unsure, ", "), d.unsure[0])
	}
	if nothing && known {
		return d, usagef("pipeline %s has no tables in the lake, so there is nothing to delete; its bronze goes with --bronze", c.Name)
	}
	if nothing {
		return d, usagef("there is no table or pipeline %q in the lake%s", c.Name, smelt.DidYouMean(c.Name, slices.Concat(all.names, tables)...))
	}
	return d, nil
}

// wholeSince gives the time from which on silver of pipelines has all rows; it is zero
// when none went.
func wholeSince(ctx context.Context, l *lake, pipelines []string) (whole time.Time, err error) {
	for _, name := range pipelines {
		t, err := l.Tables.Load(ctx, silver.TableName(name))
		if errors.Is(err, smelt.ErrNotFound) {
			continue
		}
		if err != nil {
			return whole, err
		}
		has, _, _, err := ledger.Read[ledger.Silver](t)
		if err != nil {
			return whole, err
		}
		if has.Retained.After(whole) {
			whole = has.Retained
		}
	}
	return whole, nil
}

// run deletes, each table under its lock, and bronze last.
func (d dropping) run(ctx context.Context, l *lake, io *streams) error {
	for _, name := range d.tables {
		if err := dropTable(ctx, l, name, io); err != nil {
			return err
		}
	}
	if len(d.bronze) == 0 {
		return nil
	}
	unlock, err := l.lock(ctx, upkeep.Lock("bronze."+d.pipeline), io) // a merge would leave its object behind
	if err != nil {
		return err
	}
	defer unlock()
	if err := bronze.Drop(ctx, l.Store, d.bronze); err != nil {
		return fmt.Errorf("drop bronze.%s: %w", d.pipeline, err)
	}
	_, err = fmt.Fprintf(io.Out, "bronze.%s was deleted: %s\n", d.pipeline, amount(int64(len(d.bronze)), "object"))
	return err
}

func dropTable(ctx context.Context, l *lake, name string, io *streams) error {
	unlock, err := l.lock(ctx, name, io)
	if err != nil {
		return err
	}
	defer unlock()
	gone, err := l.Tables.Drop(ctx, name)
	if err != nil {
		return fmt.Errorf("%w; once more, and it goes on from there", err)
	}
	_, err = fmt.Fprintf(io.Out, "%s was deleted: %s, %s\n", name, amount(int64(gone.Objects), "object"), human.Bytes(gone.Bytes))
	return err
}
