package inspect

import (
	"context"
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
	gold         []goldTable  // one a model, as declared
	quarantine   *table.Table // nil: it does not exist yet
	silver       *table.Table // nil: it does not exist yet
	snapshot     int64        // silver's newest; 0: it has none
	silverLedger ledger.Silver
	recorded     bool // silver has a ledger
	parted       bool // silver and quarantine are not of one commit: another engine has rolled one back
}

// goldTable is the table of one model.
type goldTable struct {
	model    smelt.Model
	name     string
	table    *table.Table // nil: it does not exist yet
	ledger   ledger.Gold
	recorded bool // it has a ledger, and so was computed
}

// load loads a pipeline's tables at one moment.
func load(ctx context.Context, lake *table.Lake, p *smelt.Pipeline) (t tables, err error) {
	names := []string{silver.TableName(p.Name), silver.QuarantineName(p.Name)}
	for _, m := range p.Gold {
		names = append(names, gold.TableName(p.Name, m.Name))
	}
	loaded, err := lake.LoadAll(ctx, names...)
	if err != nil {
		return t, err
	}
	for i, m := range p.Gold {
		g := goldTable{model: m, name: names[2+i], table: loaded[2+i]}
		if g.table != nil {
			if g.ledger, _, g.recorded, err = ledger.Read[ledger.Gold](g.table); err != nil {
				return t, err
			}
		}
		t.gold = append(t.gold, g)
	}
	pair, err := silver.PairOf(loaded[0], loaded[1])
	if err != nil {
		return t, err
	}
	t.silver, t.quarantine, t.silverLedger, t.recorded = pair.Silver, pair.Quarantine, pair.Ledger, pair.Known
	if t.silver == nil {
		return t, nil
	}
	if current, ok := t.silver.Current(); ok {
		t.snapshot = current.ID
	}
	t.parted, err = pair.Parted()
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
