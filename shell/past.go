package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// ErrNoPast means that Config.At matches no state of the lake.
var ErrNoPast = errors.New("no such state of the lake")

// past is the state of the lake that a shell shows in place of the newest one.
type past struct {
	when   time.Time            // of the main pipeline
	label  string               // "tag x"; "" for a time
	bronze map[string]time.Time // by pipeline: it shows the objects written by then
	// positions, when not nil, are where bronze ends in place of that: by pipeline and
	// partition. Such a state is one that fits, not one of a time.
	positions map[string]map[int32]int64
	tables    map[string]pastTable // by name: those that there were when the shell was opened
}

// pastTable is what a table was.
type pastTable struct {
	snapshot table.Snapshot
	none     bool         // it had no snapshot yet
	err      error        // its snapshot is not there any more
	table    *table.Table // as it was loaded; nil: it is loaded when it is shown
}

// moment is how times are shown.
const moment = "2006-01-02 15:04:05.999 UTC"

// String says which state it is.
func (p *past) String() string {
	if p.positions != nil {
		return "one state in which all tables fit each other, found again for each statement"
	}
	if p.label == "" {
		return p.when.Format(moment)
	}
	return p.when.Format(moment) + " (" + p.label + ")"
}

// remember finds the state of the lake that at means. A table with such a tag or snapshot is shown at it.
// Bronze and the other tables are shown as of that snapshot's time. If several tables have one,
// silver's time counts.
func (s *Shell) remember(ctx context.Context, at string) error {
	all, err := s.load(ctx)
	if err != nil {
		return err
	}
	named := map[string]table.Snapshot{}
	for _, t := range all {
		if snapshot, ok := lookUp(t, at); ok {
			named[t.Name()] = snapshot
		}
	}
	s.past = &past{bronze: map[string]time.Time{}, tables: map[string]pastTable{}}
	if err := s.past.place(all, named, at); err != nil {
		return err
	}
	for _, p := range s.cfg.Pipelines {
		when := s.past.when
		for _, it := range slices.Backward(s.tables(p)) { // silver is the first
			if snapshot, ok := named[it.name]; ok {
				when = snapshot.Time
			}
		}
		s.past.bronze[p.Name] = when
		for _, it := range s.tables(p) {
			if i := slices.IndexFunc(all, func(t *table.Table) bool { return t.Name() == it.name }); i >= 0 {
				s.past.tables[it.name] = tableAt(all[i], named, when)
			}
		}
	}
	return s.past.check(all)
}

// load loads the tables that there are, the main pipeline's first.
func (s *Shell) load(ctx context.Context) (all []*table.Table, err error) {
	rank := func(p *smelt.Pipeline) int {
		if p == s.main {
			return 0
		}
		return 1
	}
	mainFirst := slices.Clone(s.cfg.Pipelines)
	slices.SortStableFunc(mainFirst, func(a, b *smelt.Pipeline) int { return rank(a) - rank(b) })
	for _, p := range mainFirst {
		for _, it := range s.tables(p) {
			t, err := s.cfg.Tables.Load(ctx, it.name)
			if errors.Is(err, smelt.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// lookUp finds a table's snapshot by its id, or by a tag or branch.
func lookUp(t *table.Table, at string) (table.Snapshot, bool) {
	id, ok := t.Refs()[at]
	if !ok {
		var err error
		if id, err = strconv.ParseInt(at, 10, 64); err != nil {
			return table.Snapshot{}, false
		}
	}
	return t.Snapshot(id)
}

// place finds out which time it is.
func (p *past) place(all []*table.Table, named map[string]table.Snapshot, at string) error {
	var names []string // tags and branches
	for _, t := range all {
		if snapshot, ok := named[t.Name()]; ok {
			p.when, p.label = snapshot.Time, label(t, at)
			return nil
		}
		for _, ref := range t.Names() {
			names = append(names, ref.Name)
		}
	}
	slices.Sort(names)
	now := time.Now()
	when, ok := table.ParseTime(at, now)
	switch {
	case !ok:
		return smelt.Mark(ErrNoPast, fmt.Errorf("%q is neither a time (2026-11-29 22:45:01 in UTC, 2026-11-29, 2h for two hours ago) nor a tag or snapshot of any table%s",
			at, smelt.DidYouMean(at, slices.Compact(names)...)))
	case when.After(now):
		return smelt.Mark(ErrNoPast, fmt.Errorf("%s is yet to come", when.Format(moment)))
	}
	p.when = when
	return nil
}

// label says what the name or id of a table's snapshot is.
func label(t *table.Table, at string) string {
	for _, ref := range t.Names() {
		switch {
		case ref.Name != at:
		case ref.Branch:
			return "branch " + at
		default:
			return "tag " + at
		}
	}
	return "snapshot " + at + " of " + t.Name()
}

// tableAt finds what a table was.
func tableAt(t *table.Table, named map[string]table.Snapshot, when time.Time) pastTable {
	if snapshot, ok := named[t.Name()]; ok {
		return pastTable{snapshot: snapshot}
	}
	snapshot, err := t.Resolve(when.Format(time.RFC3339Nano))
	if err == nil {
		return pastTable{snapshot: snapshot}
	}
	chain := t.Ancestors()
	if len(chain) == 0 {
		return pastTable{none: true}
	}
	first := chain[len(chain)-1]
	if first.Parent == 0 && first.Time.After(when) {
		return pastTable{none: true}
	}
	return pastTable{err: err}
}

// check refuses a time at which nothing can be shown, because it is too long ago.
func (p *past) check(all []*table.Table) error {
	var expired error // of the first table
	for _, t := range all {
		then := p.tables[t.Name()]
		if then.snapshot.ID != 0 {
			return nil
		}
		expired = cmp.Or(expired, then.err)
	}
	return smelt.Mark(ErrNoPast, expired)
}

// pastBody is the SELECT over a table as it was. A table that had no snapshot
// yet has its columns of today and no rows. why says that the snapshot is lost.
func (it icebergTable) pastBody(t *table.Table, p *past) (body, why string, err error) {
	then, known := p.tables[it.name]
	if then.err != nil {
		return "", then.err.Error(), nil
	}
	id := then.snapshot.ID
	from := fmt.Sprintf("iceberg_scan(%s, snapshot_from_id => %d)", duck.Literal(t.MetadataLocation()), id)
	if !known || then.none {
		from = "(" + empty(t.Columns()) + ")"
	} else if _, ok := t.Snapshot(id); !ok {
		return "", fmt.Sprintf("snapshot %d of %s has expired by now", id, it.name), nil
	}
	if it.model == nil {
		return "SELECT * FROM " + from, "", nil
	}
	l, _, err := ledger.At[ledger.Gold](t, id)
	return it.final(from, l), "", err
}

// until is the last instant of a time: one to the second lasts as long, as it
// does for [table.Table.Resolve].
func until(when time.Time) time.Time {
	if when.Nanosecond() == 0 {
		return when.Add(time.Second - 1)
	}
	return when
}
