package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// historyCmd shows how a table came to be what it is.
type historyCmd struct {
	Table string `arg:"" help:"Name of the table, such as silver.sensors."`
	Limit int    `default:"20" help:"How many entries to show; 0 for all."`
	JSON  bool   `help:"Print JSON, a line an entry."`
}

// entry is a snapshot of a table, or a rollback to one.
type entry struct {
	Snapshot         int64     `json:"snapshot"`
	Parent           *int64    `json:"parent"` // null: none
	Time             time.Time `json:"time"`
	By               string    `json:"by"`
	Operation        string    `json:"operation"` // append, overwrite, replace, delete, or rollback
	Added            *int64    `json:"rows_added"`
	Removed          *int64    `json:"rows_removed"`
	Rows             *int64    `json:"rows"` // that the table had then; null: its writer does not say
	ReferenceVersion *int64    `json:"reference_version"`
	Scope            string    `json:"scope,omitempty"` // of a backfill
	Current          bool      `json:"current"`
	RolledBack       bool      `json:"rolled_back"` // main does not have it any more
	Names            []name    `json:"names"`       // tags and branches

	sequence int64
}

// name is a tag or a branch.
type name struct {
	Name  string     `json:"name"`
	Kind  string     `json:"kind"`
	Until *time.Time `json:"until"` // null: without limit
}

// Run prints the entries, the newest first.
func (c historyCmd) Run(ctx context.Context, s *settings, io *streams) error {
	if c.Limit < 0 {
		return usagef("--limit: %d entries cannot be shown", c.Limit)
	}
	lake, err := s.openReader(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	t, err := lake.named(ctx, c.Table)
	if err != nil {
		return err
	}
	entries, err := history(t)
	if err != nil {
		return err
	}
	shown := entries
	if c.Limit > 0 {
		shown = entries[:min(c.Limit, len(entries))]
	}
	if c.JSON {
		out := json.NewEncoder(io.Out)
		for _, e := range shown {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintf(io.Err, "%s has no snapshot yet\n", c.Table)
		return err
	}
	if _, err := fmt.Fprint(io.Out, historyText(shown)); err != nil {
		return err
	}
	if len(shown) < len(entries) {
		fmt.Fprintf(io.Err, "the newest %d of %d; --limit 0 shows all\n", len(shown), len(entries))
	}
	return nil
}

// named loads a table that a person named.
func (l *lake) named(ctx context.Context, name string) (*table.Table, error) {
	if strings.Contains(name, ".") { // one without a layer is not there
		t, err := l.Tables.Load(ctx, name)
		if !errors.Is(err, smelt.ErrNotFound) {
			return t, err
		}
	}
	known, err := l.Tables.List(ctx)
	if err != nil {
		return nil, err
	}
	return nil, usagef("there is no table %q%s", name, smelt.DidYouMean(name, known...))
}

// history lists a table's snapshots, of any branch, and rollbacks, the newest
// first.
func history(t *table.Table) ([]entry, error) {
	names := map[int64][]name{}
	reached := map[int64]bool{} // by a branch
	for _, ref := range t.Names() {
		n := name{Name: ref.Name, Kind: "tag"}
		if !ref.Until.IsZero() {
			n.Until = &ref.Until
		}
		if ref.Branch {
			n.Kind = "branch"
			for _, s := range t.AncestorsOf(ref.Snapshot) {
				reached[s.ID] = true
			}
		}
		names[ref.Snapshot] = append(names[ref.Snapshot], n)
	}
	// Older states than the oldest remaining ancestor are unknown.
	var known int64
	if chain := t.Ancestors(); len(chain) > 0 {
		known = chain[len(chain)-1].Sequence
	}
	current, _ := t.Current()
	var out []entry
	byID := map[int64]entry{}
	for _, s := range t.Snapshots() {
		e, err := snapshotEntry(t.Name(), s)
		if err != nil {
			return nil, err
		}
		e.Names = append([]name{}, names[s.ID]...) // never null
		e.Current, e.RolledBack = s.ID == current.ID, !reached[s.ID] && s.Sequence > known
		out, byID[s.ID] = append(out, e), e
	}
	out = append(out, rollbacks(t, byID)...)
	slices.SortStableFunc(out, func(a, b entry) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.sequence, a.sequence))
	})
	return out, nil
}

// rollbacks lists the moves of main that made no snapshot.
func rollbacks(t *table.Table, snapshots map[int64]entry) []entry {
	var out []entry
	for _, a := range t.Arrivals() {
		if to, ok := snapshots[a.Snapshot]; ok && !a.Time.Equal(to.Time) {
			out = append(out, entry{
				Snapshot: a.Snapshot, Parent: to.Parent, Time: a.Time, By: "rollback", Operation: "rollback",
				Rows: to.Rows, Current: to.Current, RolledBack: to.RolledBack, Names: to.Names,
			})
		}
	}
	return out
}

// snapshotEntry says what a snapshot did, and who made it.
func snapshotEntry(tableName string, s table.Snapshot) (entry, error) {
	e := entry{
		Snapshot: s.ID, Time: s.Time, Operation: s.Operation, By: "another engine",
		Rows: figure(s, "total-records"), Added: figure(s, "added-records"), Removed: figure(s, "deleted-records"),
		Scope: s.Summary[ledger.BackfillScope], sequence: s.Sequence,
	}
	if s.Parent != 0 {
		e.Parent = &s.Parent
	}
	if e.Rows != nil { // who counts rows leaves out those that are none
		e.Added, e.Removed = cmp.Or(e.Added, new(int64)), cmp.Or(e.Removed, new(int64))
	}
	layer, _, _ := strings.Cut(tableName, ".")
	switch kind := s.Summary[ledger.Maintenance]; {
	case kind != "":
		e.By = "maintenance, " + kind
	case !ledger.Has(s):
		if engine := s.Summary["engine-name"]; engine != "" {
			e.By = engine
		}
	case s.Summary[ledger.BackfillID] != "":
		e.By = "backfill"
	case layer == "silver":
		e.By = "silver step"
	case layer == "gold":
		e.By = "gold refresh"
	default:
		e.By = layer
	}
	if layer == "silver" {
		l, ok, err := ledger.Of[ledger.Silver](s)
		if err != nil {
			return e, fmt.Errorf("%s: %w", tableName, err)
		}
		if ok {
			e.ReferenceVersion = &l.ReferenceVersion
		}
	}
	return e, nil
}

// figure is a number of a snapshot's summary; nil without one.
func figure(s table.Snapshot, key string) *int64 {
	n, err := strconv.ParseInt(s.Summary[key], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
