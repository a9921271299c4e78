package gold

import (
	"context"
	"errors"
	"slices"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// Common finds the newest silver snapshot that all of a pipeline's gold tables were
// computed from, and for each the gold snapshot with its result. A table that was not
// computed yet, or is nil, is left out: its snapshot is 0. ok is false when the others
// have none in common that silver still has.
func Common(silver *table.Table, tables []*table.Table) (at int64, of []int64, ok bool, err error) {
	all := make([]history, len(tables))
	first := -1
	for i, t := range tables {
		if all[i], err = historyOf(t); err != nil {
			return 0, nil, false, err
		}
		if first < 0 && len(all[i].from) > 0 {
			first = i
		}
	}
	if first < 0 {
		return 0, nil, false, nil
	}
	for _, at := range all[first].from {
		if _, there := silver.Snapshot(at); !there {
			continue
		}
		lacks := func(h history) bool { return len(h.from) > 0 && h.of[at] == 0 }
		if slices.ContainsFunc(all, lacks) {
			continue
		}
		for _, h := range all {
			of = append(of, h.of[at])
		}
		return at, of, true, nil
	}
	return 0, nil, false, nil
}

// history is what a gold table was computed from.
type history struct {
	from []int64         // silver snapshots, the newest first
	of   map[int64]int64 // by them: the gold snapshot with the result
}

// historyOf reads the history from the table's snapshots, for the model that the table has
// now.
func historyOf(t *table.Table) (h history, err error) {
	h.of = map[int64]int64{}
	if t == nil {
		return h, nil
	}
	now, _, _, err := ledger.Read[ledger.Gold](t)
	if err != nil {
		return h, err
	}
	result := int64(0) // compaction gives the same rows as the snapshot before it
	for _, s := range t.Ancestors() {
		if result == 0 {
			result = s.ID
		}
		l, ok, err := ledger.Of[ledger.Gold](s)
		if err != nil {
			return h, err
		}
		if !ok {
			if s.Operation != "replace" {
				result = 0
			}
			continue
		}
		if l.Model == now.Model && h.of[l.SilverSnapshot] == 0 {
			h.from, h.of[l.SilverSnapshot] = append(h.from, l.SilverSnapshot), result
		}
		result = 0
	}
	return h, nil
}

// meet is the silver snapshot of another gold table of the pipeline that is ahead of this
// one and was never at this one's snapshot. ok is false if there is none; then the newest
// snapshot is fine. So the tables of a pipeline regularly share a snapshot, whenever they
// are refreshed: see [Common].
func (s *Stage) meet(ctx context.Context, j job) (at table.Snapshot, ok bool, err error) {
	behind := slices.IndexFunc(j.silver.Ancestors(), func(a table.Snapshot) bool { return a.ID == j.before.SilverSnapshot })
	if behind < 2 || len(s.Pipeline.Gold) < 2 {
		return at, false, nil
	}
	between := j.silver.Ancestors()[1:behind]
	for _, m := range s.Pipeline.Gold {
		if m.Name == s.Model.Name {
			continue
		}
		t, err := s.Area.Lake.Load(ctx, TableName(s.Pipeline.Name, m.Name))
		if errors.Is(err, smelt.ErrNotFound) {
			continue
		}
		if err != nil {
			return at, false, err
		}
		h, err := historyOf(t)
		if err != nil {
			return at, false, err
		}
		if len(h.from) == 0 || h.of[j.before.SilverSnapshot] != 0 {
			continue
		}
		i := slices.IndexFunc(between, func(a table.Snapshot) bool { return a.ID == h.from[0] })
		if i >= 0 && (!ok || between[i].Sequence > at.Sequence) {
			at, ok = between[i], true
		}
	}
	return at, ok, nil
}
