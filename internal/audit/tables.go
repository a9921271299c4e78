package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"smelt"
	"smelt/gold"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
)

// tables are a pipeline's tables as of one moment, with their ledgers.
type tables struct {
	gold             []goldTable  // one a model, as declared
	quarantine       *table.Table // nil: there is none yet
	quarantineLedger ledger.Quarantine
	silver           *table.Table // nil: there is none yet
	snapshot         int64        // silver's newest; 0: it has none
	silverLedger     ledger.Silver
	recorded         bool              // silver has a ledger
	pending          []silver.Handover // what silver has handed over and quarantine has not taken yet
	rolledBack       bool              // silver was rolled back, and quarantine has not followed yet
}

// goldTable is the table of one model.
type goldTable struct {
	model    smelt.Model
	name     string
	table    *table.Table // nil: there is none yet
	ledger   ledger.Gold
	recorded bool // it has a ledger, and so was computed
}

// load loads a pipeline's tables.
func load(ctx context.Context, lake *table.Lake, p *smelt.Pipeline) (t tables, err error) {
	for _, m := range p.Gold {
		g := goldTable{model: m, name: gold.TableName(p.Name, m.Name)}
		if g.table, g.ledger, g.recorded, err = open[ledger.Gold](ctx, lake, g.name); err != nil {
			return t, err
		}
		t.gold = append(t.gold, g)
	}
	if t.quarantine, t.quarantineLedger, _, err = open[ledger.Quarantine](ctx, lake, silver.QuarantineName(p.Name)); err != nil {
		return t, err
	}
	if t.silver, t.silverLedger, t.recorded, err = open[ledger.Silver](ctx, lake, silver.TableName(p.Name)); err != nil || t.silver == nil {
		return t, err
	}
	if current, ok := t.silver.Current(); ok {
		t.snapshot = current.ID
	}
	t.rolledBack = t.quarantine != nil && silver.RolledBack(t.silver.Ancestors(), t.quarantineLedger)
	t.pending, err = silver.Pending(t.silver.Ancestors(), t.quarantineLedger)
	return t, err
}

// all are those that are there: silver, quarantine, gold.
func (t tables) all() (there []*table.Table) {
	there = append(there, t.silver, t.quarantine)
	for _, g := range t.gold {
		there = append(there, g.table)
	}
	return slices.DeleteFunc(there, func(t *table.Table) bool { return t == nil })
}

// open loads a table and its ledger; one that is not there is nil.
func open[L ledger.Silver | ledger.Quarantine | ledger.Gold](ctx context.Context, lake *table.Lake, name string) (*table.Table, L, bool, error) {
	var none L
	t, err := lake.Load(ctx, name)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, none, false, nil
	}
	if err != nil {
		return nil, none, false, err
	}
	l, _, ok, err := ledger.Read[L](t)
	return t, l, ok, err
}

// files lists the data files of a table's newest snapshot; a table that is not
// there has none.
func files(ctx context.Context, t *table.Table) ([]table.File, error) {
	if t == nil {
		return nil, nil
	}
	current, ok := t.Current()
	if !ok {
		return nil, nil
	}
	return t.Files(ctx, current.ID)
}

// totalRecords is where Iceberg's writers note a snapshot's rows.
const totalRecords = "total-records"

// rows is how many rows a table says that it has.
func rows(ctx context.Context, t *table.Table) (int64, error) {
	if t == nil {
		return 0, nil
	}
	if current, ok := t.Current(); ok {
		if n, err := strconv.ParseInt(current.Summary[totalRecords], 10, 64); err == nil {
			return n, nil
		}
	}
	list, err := files(ctx, t)
	if err != nil {
		return 0, fmt.Errorf("rows of %s: %w", t.Name(), err)
	}
	var n int64
	for _, f := range list {
		n += f.Rows
	}
	return n, nil
}

// pendingRows counts by how many rows quarantine is about to grow.
func (t *tables) pendingRows() (n int64) {
	for _, h := range t.pending {
		n += h.Rows()
	}
	return n
}
