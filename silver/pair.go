package silver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// Pair is a pipeline's silver and quarantine table as of one moment. One commit
// changes both, so they belong together: silver's ledger names the state of quarantine
// that is its own. Another engine may roll one of the two back, and part them.
type Pair struct {
	Silver, Quarantine *table.Table // nil: the table does not exist yet
	Ledger             ledger.Silver
	Known              bool // silver has a ledger
}

// LoadPair loads a pipeline's silver and quarantine.
func LoadPair(ctx context.Context, lake *table.Lake, pipeline string) (p Pair, err error) {
	tables, err := lake.LoadAll(ctx, TableName(pipeline), QuarantineName(pipeline))
	if err != nil {
		return p, err
	}
	return PairOf(tables[0], tables[1])
}

// PairOf is the pair of tables that were loaded at one moment; nil for one that is not there.
func PairOf(silver, quarantine *table.Table) (p Pair, err error) {
	p = Pair{Silver: silver, Quarantine: quarantine}
	if silver != nil {
		p.Ledger, _, p.Known, err = ledger.Read[ledger.Silver](silver)
	}
	return p, err
}

// Parted says whether the two do not belong together.
func (p Pair) Parted() (bool, error) {
	id, err := p.quarantineID()
	return p.Silver != nil && id != p.Ledger.Quarantine, err
}

// quarantineID is the id of the state that quarantine is in, as a ledger of silver names it.
func (p Pair) quarantineID() (string, error) {
	if p.Quarantine == nil {
		return "", nil
	}
	l, _, _, err := ledger.Read[ledger.Quarantine](p.Quarantine)
	return l.ID, err
}

// At is the snapshot of quarantine that belongs to a ledger of silver; 0 when quarantine
// had none yet. It fails with smelt.ErrNotFound when the snapshot has expired.
func (p Pair) At(l ledger.Silver) (int64, error) {
	if l.Quarantine == "" {
		return 0, nil
	}
	id, err := p.quarantineID()
	if err != nil {
		return 0, err
	}
	var snapshots []table.Snapshot
	if p.Quarantine != nil {
		if id == l.Quarantine {
			current, _ := p.Quarantine.Current() // it may have been compacted since
			return current.ID, nil
		}
		snapshots = p.Quarantine.Snapshots()
	}
	for _, s := range slices.Backward(snapshots) {
		q, ok, err := ledger.Of[ledger.Quarantine](s)
		if err != nil {
			return 0, err
		}
		if ok && q.ID == l.Quarantine {
			return s.ID, nil
		}
	}
	return 0, fmt.Errorf("%s no longer has the snapshot that belongs to that of silver: %w", QuarantineName(p.name()), smelt.ErrNotFound)
}

func (p Pair) name() string { return p.Silver.Name()[len("silver."):] }

// follow is the edit that takes quarantine to where it belongs to a ledger of silver.
// What it was before gets the tag.
func (p Pair) follow(ctx context.Context, l ledger.Silver, tag string) (e table.Edit, err error) {
	to, err := p.At(l)
	if err != nil {
		return e, err
	}
	if to != 0 {
		return p.Quarantine.Back(to, ledger.Carry(p.Quarantine, to), tag), nil
	}
	current, _ := p.Quarantine.Current()
	files, err := p.Quarantine.Files(ctx, current.ID)
	if err != nil {
		return e, err
	}
	change := table.Change{Remove: files, Tag: tag}
	if err := ledger.Write(&change, ledger.Quarantine{}); err != nil {
		return e, err
	}
	return p.Quarantine.Change(change), nil
}

// Rollback moves silver to a snapshot, and quarantine to what belongs to it, in one
// commit. What both were before gets a tag.
func (p Pair) Rollback(ctx context.Context, lake *table.Lake, to int64, tag string) error {
	edits := []table.Edit{p.Silver.Back(to, ledger.Carry(p.Silver, to), tag)}
	then, ok, err := ledger.At[ledger.Silver](p.Silver, to)
	if err != nil {
		return err
	}
	id, err := p.quarantineID()
	if err != nil {
		return err
	}
	if ok && p.Quarantine != nil && then.Quarantine != id {
		follow, err := p.follow(ctx, then, tag)
		if err != nil {
			return err
		}
		edits = append(edits, follow)
	}
	_, err = lake.Publish(ctx, edits...)
	return err
}

// Pair loads silver and quarantine, makes the one that is missing, and brings quarantine
// to where silver is when another engine has parted them.
func (r *Refiner) Pair(ctx context.Context) (Pair, error) {
	for try := 1; ; try++ {
		p, err := LoadPair(ctx, r.Area.Lake, r.Pipeline.Name)
		if err != nil {
			return p, err
		}
		if p.Silver == nil || p.Quarantine == nil {
			if err := r.create(ctx); err != nil {
				return p, err
			}
			continue
		}
		parted, err := p.Parted()
		if err != nil || !parted {
			return p, err
		}
		if try > pairTries {
			return p, fmt.Errorf("%s and %s were parted again and again: %w", TableName(r.Pipeline.Name), QuarantineName(r.Pipeline.Name), table.ErrConflict)
		}
		if err := r.restore(ctx, p); err != nil && !errors.Is(err, table.ErrConflict) {
			return p, err
		}
	}
}

// pairTries bounds how often quarantine is brought to where silver is before one step.
const pairTries = 3

// create makes the tables that are missing.
func (r *Refiner) create(ctx context.Context) error {
	if _, err := r.Area.Lake.Create(ctx, TableName(r.Pipeline.Name), r.definition()); err != nil {
		return err
	}
	_, err := r.Area.Lake.Create(ctx, QuarantineName(r.Pipeline.Name), table.Definition{Columns: rejectColumns})
	return err
}

// restore takes quarantine to where silver is.
func (r *Refiner) restore(ctx context.Context, p Pair) error {
	current, _ := p.Quarantine.Current()
	edit, err := p.follow(ctx, p.Ledger, fmt.Sprintf("%srollback-%d", table.TagPrefix, current.ID))
	if err != nil {
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("another engine has rolled back %s or %s: %w%s",
			TableName(r.Pipeline.Name), QuarantineName(r.Pipeline.Name), err, p.wayOut()))
	}
	if _, err = r.Area.Lake.Publish(ctx, edit); err != nil {
		return err
	}
	r.Log.Info("silver or quarantine was rolled back by another engine: quarantine is where silver is again", "pipeline", r.Pipeline.Name)
	return nil
}

// wayOut names the command that takes both tables to the newest state that exists of both,
// or else the one that starts over.
func (p Pair) wayOut() string {
	for _, s := range slices.Backward(p.Silver.Snapshots()) {
		l, ok, err := ledger.Of[ledger.Silver](s)
		if err != nil || !ok {
			continue
		}
		if _, err := p.At(l); err == nil {
			return fmt.Sprintf("; ./bin/smelt rollback %s %d takes both to the newest state that is there of both", p.Silver.Name(), s.ID)
		}
	}
	return "; ./bin/smelt drop " + p.name() + " drops both, and the pipeline reads bronze again"
}
