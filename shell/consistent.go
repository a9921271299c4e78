package shell

import (
	"context"
	"fmt"

	"smelt"
	"smelt/bronze"
	"smelt/gold"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
)

// SetConsistent makes each statement see, of every pipeline, a state in which its tables fit each other. Silver and
// quarantine are at the newest silver snapshot that all gold tables were computed from. Gold is as computed from it, and
// bronze ends at its position. By default each table is at its newest snapshot, and gold may be a little behind.
func (s *Shell) SetConsistent(on bool) {
	s.consistent, s.past = on, nil
	clear(s.defined)
}

// agree finds that state of all pipelines, as of one moment.
func (s *Shell) agree(ctx context.Context) (*past, error) {
	var names []string
	for _, p := range s.cfg.Pipelines {
		for _, it := range s.tables(p) {
			names = append(names, it.name)
		}
	}
	loaded, err := s.cfg.Tables.LoadAll(ctx, names...)
	if err != nil {
		return nil, err
	}
	out := &past{tables: map[string]pastTable{}, positions: map[string]map[int32]int64{}}
	for _, p := range s.cfg.Pipelines {
		tables := loaded[:2+len(p.Gold)]
		loaded = loaded[len(tables):]
		if err := out.agree(p, tables); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// agree adds a pipeline: its silver, its quarantine and its gold tables, nil where there
// is none yet.
func (p *past) agree(of *smelt.Pipeline, tables []*table.Table) error {
	p.positions[of.Name] = map[int32]int64{}
	pair, err := silver.PairOf(tables[0], tables[1])
	if err != nil || pair.Silver == nil {
		return err
	}
	ids := make([]int64, len(tables)) // what is shown; 0: the table has no rows yet
	at, golds, ok, err := gold.Common(pair.Silver, tables[2:])
	if err != nil {
		return err
	}
	if !ok { // nothing was computed yet
		current, _ := pair.Silver.Current()
		at = current.ID
		for _, t := range tables[2:] {
			if t == nil {
				continue
			}
			if _, _, computed, err := ledger.Read[ledger.Gold](t); err != nil || computed {
				return fmt.Errorf("the gold tables of %s were computed from different states of silver only, so far: wait for their next refreshes (%w)", of.Name, err)
			}
		}
	}
	copy(ids[2:], golds)
	if at != 0 {
		l, ok, err := ledger.At[ledger.Silver](pair.Silver, at)
		if err != nil {
			return err
		}
		if !ok {
			l = pair.Ledger
		}
		p.positions[of.Name] = l.Position
		ids[0] = at
		if ids[1], err = pair.At(l); err != nil {
			return err
		}
	}
	for i, t := range tables {
		if t == nil {
			continue
		}
		shown := pastTable{none: true, table: t}
		if snapshot, ok := t.Snapshot(ids[i]); ok {
			shown = pastTable{snapshot: snapshot, table: t}
		}
		p.tables[t.Name()] = shown
	}
	return nil
}

// partsUpTo picks of a chain's objects the records before a position.
func partsUpTo(ctx context.Context, reader *bronze.Reader, refs []bronze.Ref, position int64) (parts []part, err error) {
	for i, ref := range refs {
		if ref.From >= position {
			break
		}
		o := part{Ref: ref}
		if i+1 == len(refs) || refs[i+1].From > position {
			m, err := reader.Stat(ctx, ref)
			if err != nil {
				return nil, err
			}
			if m.End > position {
				o.upto = position
			}
		}
		parts = append(parts, o)
	}
	return parts, nil
}
