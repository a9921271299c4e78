package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/human"
	"smelt/internal/table"
	"smelt/silver"
	"smelt/upkeep"
)

// TableHealth is how a table is kept. In JSON the keys of Health are left out where it
// could not be read; bronze has files and bytes alone. A table that is not there yet
// is left out.
type TableHealth struct {
	Table string `json:"table"`
	*table.Health
	Next *upkeep.Due `json:"next"` // next upkeep; null if there is none
}

// mostListed bounds how many of bronze's objects are counted for a status.
const mostListed = 20000

// health fills in how the tables are kept.
func (g *gathering) health(ctx context.Context) {
	var due []upkeep.Due
	if g.Due != nil && g.here {
		due, g.dueErr = g.Due(ctx)
	}
	add := func(name string, h *table.Health, err error) {
		if err != nil {
			g.errs = append(g.errs, err)
		}
		g.Tables = append(g.Tables, TableHealth{name, h, next(due, name)})
	}
	if g.CountObjects {
		h, err := g.objects(ctx)
		add("bronze."+g.pipeline.Name, h, err)
	}
	if g.tablesErr != nil {
		return
	}
	of := func(name string, t *table.Table) {
		if t == nil {
			return
		}
		h, err := t.Health(ctx)
		if err != nil {
			add(name, nil, err)
			return
		}
		add(name, &h, nil)
	}
	of(silver.TableName(g.pipeline.Name), g.tables.silver)
	of(silver.QuarantineName(g.pipeline.Name), g.tables.quarantine)
	for _, t := range g.tables.gold {
		of(t.name, t.table)
	}
}

// next is what comes first for a table.
func next(due []upkeep.Due, name string) *upkeep.Due {
	var first *upkeep.Due
	for _, d := range due {
		if d.Table == name && (first == nil || d.Next.Before(first.Next)) {
			first = &d
		}
	}
	return first
}

// objects counts the objects of bronze, up to mostListed.
func (g *gathering) objects(ctx context.Context) (*table.Health, error) {
	const page = 1000
	prefix, after, h := bronze.Prefix(g.pipeline.Name), "", new(table.Health)
	for h.DataFiles < mostListed {
		objects, err := g.Store.List(ctx, prefix, after, page)
		if err != nil {
			return nil, smelt.Mark(smelt.ErrStore, err)
		}
		for _, o := range objects {
			h.DataFiles, h.Bytes, after = h.DataFiles+1, h.Bytes+o.Size, o.Key
		}
		if len(objects) < page {
			break
		}
	}
	return h, nil
}

// healthTable writes a line a table.
func (s *Status) healthTable() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  table\tfiles\taverage\tdeletes\tsnapshots\tmanifests\tmetadata\tmaintenance")
	for _, t := range s.Tables {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", t.Table, strings.Join(t.cells(), "\t"), t.due(s.At))
	}
	w.Flush()
	return trimmed(b.String())
}

// cells are what is known of the table, each a number and its unit.
func (t *TableHealth) cells() []string {
	h := t.Health
	if h == nil {
		return slices.Repeat([]string{"?"}, 6)
	}
	files := fmt.Sprint(h.DataFiles)
	if h.DataFiles >= mostListed {
		files += "+"
	}
	average := "-"
	if h.DataFiles > 0 {
		average = human.Bytes(h.Bytes / h.DataFiles)
	}
	if strings.HasPrefix(t.Table, "bronze.") {
		return []string{files, average, "-", "-", "-", "-"}
	}
	return []string{files, average, fmt.Sprint(h.DeleteFiles), fmt.Sprint(h.Snapshots), fmt.Sprint(h.Manifests), human.Bytes(h.MetadataBytes + h.ManifestBytes)}
}

// due says what comes next, and when.
func (t *TableHealth) due(now time.Time) string {
	if t.Next == nil {
		return "-"
	}
	in := t.Next.Next.Sub(now)
	if in <= 0 {
		return t.Next.Kind + " now"
	}
	return t.Next.Kind + " in " + age(in.Seconds())
}
