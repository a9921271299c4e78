package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smelt"
	"smelt/gold"
	"smelt/internal/table"
	"smelt/silver"
)

// owners tells whose the tables of the catalog are. Which pipelines there were
// once only their silver tables tell.
type owners struct {
	pipelines []*smelt.Pipeline // those of the folder
	names     []string          // of these, and of all that have a silver or quarantine table
}

func newOwners(pipelines []*smelt.Pipeline, tables []string) owners {
	o := owners{pipelines: pipelines}
	for _, p := range pipelines {
		o.names = append(o.names, p.Name)
	}
	for _, t := range tables {
		if layer, name, _ := strings.Cut(t, "."); layer == "silver" || layer == "quarantine" {
			o.names = append(o.names, name)
		}
	}
	slices.Sort(o.names)
	o.names = slices.Compact(o.names)
	return o
}

// of lists the pipelines that a table may be of. It is of one for certain when that
// declares it. gold.a_b_c, which none declares, may be the model b_c of a or the
// model c of a_b.
func (o owners) of(table string) (names []string) {
	layer, rest, _ := strings.Cut(table, ".")
	switch layer {
	case "silver", "quarantine":
		return []string{rest}
	case "gold":
	default: // another engine's
		return nil
	}
	for _, p := range o.pipelines {
		if declares(p, table) {
			names = append(names, p.Name)
		}
	}
	if len(names) > 0 {
		return names
	}
	for _, name := range o.names {
		if strings.HasPrefix(rest, name+"_") {
			names = append(names, name)
		}
	}
	return names
}

// declares says whether a pipeline of the folder has a table.
func declares(p *smelt.Pipeline, table string) bool {
	if table == silver.TableName(p.Name) || table == silver.QuarantineName(p.Name) {
		return true
	}
	return slices.ContainsFunc(p.Gold, func(m smelt.Model) bool { return gold.TableName(p.Name, m.Name) == table })
}

// tablesOf picks the tables of a pipeline in the order of dropping: silver first, so that an interrupted drop can be repeated.
// unsure are those that may belong to another pipeline.
func (o owners) tablesOf(pipeline string, tables []string) (own, unsure []string) {
	o.names = append(slices.Clone(o.names), pipeline)
	rank := func(t string) int { return slices.Index([]string{"silver", "quarantine", "gold"}, layerOf(t)) }
	for _, t := range tables {
		switch of := slices.Compact(slices.Sorted(slices.Values(o.of(t)))); {
		case len(of) == 1 && of[0] == pipeline:
			own = append(own, t)
		case slices.Contains(of, pipeline):
			unsure = append(unsure, t)
		}
	}
	slices.SortStableFunc(own, func(a, b string) int { return rank(a) - rank(b) })
	return own, unsure
}

// unowned are smelt's tables of no pipeline in the folder, and what drops them: the names of removed pipelines, and gold tables of
// removed models.
func (o owners) unowned(tables []string) (left, drops []string) {
	for _, t := range tables {
		layer, name, _ := strings.Cut(t, ".")
		if o.of(t) == nil && layer != "gold" || slices.ContainsFunc(o.pipelines, func(p *smelt.Pipeline) bool { return declares(p, t) }) {
			continue
		}
		left = append(left, t)
		drop := t
		if layer != "gold" {
			drop = name
		} else if of := o.of(t); len(of) == 1 && !slices.ContainsFunc(o.pipelines, func(p *smelt.Pipeline) bool { return p.Name == of[0] }) {
			drop = of[0]
		}
		drops = append(drops, drop)
	}
	slices.Sort(drops)
	return left, slices.Compact(drops)
}

// unownedText says which tables no pipeline keeps, and the commands that drop them;
// it is empty when each has one.
func unownedText(ctx context.Context, lake *table.Lake, pipelines []*smelt.Pipeline) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	tables, err := lake.List(ctx)
	if err != nil {
		return "", err
	}
	left, drops := newOwners(pipelines, tables).unowned(tables)
	if len(left) == 0 {
		return "", nil
	}
	text := fmt.Sprintf("Tables of no pipeline: %s. They stay until they are dropped:\n", strings.Join(left, ", "))
	for _, d := range drops {
		text += "    ./bin/smelt drop " + d + "\n"
	}
	return text, nil
}

func layerOf(table string) string {
	layer, _, _ := strings.Cut(table, ".")
	return layer
}
