package silver

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// Handover is what a silver snapshot hands to quarantine, and takes back.
type Handover struct {
	Snapshot table.Snapshot
	Rejects  *ledger.Rejects
	Released *ledger.Rejects
}

// Count brings quarantine's counts by reason up to date.
func (h Handover) Count(reasons map[string]int64) {
	add := func(rejects *ledger.Rejects, sign int64) {
		if rejects == nil {
			return
		}
		for reason, n := range rejects.Reasons {
			if reasons[reason] += sign * n; reasons[reason] == 0 {
				delete(reasons, reason)
			}
		}
	}
	add(h.Released, -1)
	add(h.Rejects, 1)
}

// Rows is by how many rows quarantine grows.
func (h Handover) Rows() (n int64) {
	reasons := map[string]int64{}
	h.Count(reasons)
	for _, c := range reasons {
		n += c
	}
	return n
}

// Pending lists what snapshots of silver, the newest first, hand over beyond what
// quarantine has. It begins with the oldest.
func Pending(silver []table.Snapshot, have ledger.Quarantine) ([]Handover, error) {
	var pending []Handover
	for _, snapshot := range silver {
		if snapshot.Sequence <= have.SilverSequence || snapshot.ID == have.SilverSnapshot {
			break
		}
		l, ok, err := ledger.Of[ledger.Silver](snapshot)
		if err != nil {
			return nil, err
		}
		if ok && (l.Rejects != nil || l.Released != nil) {
			pending = append(pending, Handover{snapshot, l.Rejects, l.Released})
		}
	}
	slices.Reverse(pending)
	return pending, nil
}

// RolledBack says whether silver, by its snapshots, the newest first, was rolled
// back to before what quarantine has, which its next step brings in line.
func RolledBack(silver []table.Snapshot, have ledger.Quarantine) bool {
	i := slices.IndexFunc(silver, func(s table.Snapshot) bool { return s.Sequence <= have.SilverSequence })
	return i >= 0 && silver[i].ID != have.SilverSnapshot
}

// follow takes quarantine to another of its states when silver was rolled back:
// to before what quarantine has, whose records will be judged again; or forward
// again, when the snapshots are gone that know what was handed over in between.
func (o *Outbox) follow(ctx context.Context, q, t *table.Table) (*table.Table, error) {
	have, _, _, err := ledger.Read[ledger.Quarantine](q)
	if err != nil {
		return nil, err
	}
	ancestors := t.Ancestors()
	i := slices.IndexFunc(ancestors, func(a table.Snapshot) bool { return a.Sequence <= have.SilverSequence })
	if i < 0 {
		return o.forward(ctx, q, t, have)
	}
	if ancestors[i].ID == have.SilverSnapshot {
		return q, nil
	}
	ancestors = ancestors[i:] // from where silver was rolled back to
	at := ancestors[0]
	silver, err := ledgerOf(ancestors)
	if err != nil {
		return nil, err
	}
	o.log.Info("silver was rolled back, and quarantine follows", "pipeline", o.pipeline.Name, "silver_snapshot", at.ID)
	l, id, ok, err := fitting(q, ancestors, silver)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return o.goTo(ctx, q, l, id)
	}
	return o.cut(ctx, q, at, silver)
}

// forward is follow where all of silver's snapshots that are left are newer than
// what quarantine has, as they are when nothing was handed over for long.
func (o *Outbox) forward(ctx context.Context, q, t *table.Table, have ledger.Quarantine) (*table.Table, error) {
	silver, _, known, err := ledger.Read[ledger.Silver](t)
	if err != nil || !known || have.SilverSequence == 0 {
		return q, err
	}
	ancestors := t.Ancestors()
	if fits, err := leadsTo(ancestors, have, silver.Quarantined); err != nil || fits {
		return q, err
	}
	l, id, ok, err := fitting(q, ancestors, silver)
	if err != nil || !ok {
		return q, err
	}
	o.log.Info("silver was rolled forward, and quarantine follows", "pipeline", o.pipeline.Name)
	return o.goTo(ctx, q, l, id)
}

// fitting finds the newest state of quarantine that leads, with what silver's
// snapshots hand over, to what silver has counted.
func fitting(q *table.Table, ancestors []table.Snapshot, silver ledger.Silver) (l ledger.Quarantine, id int64, ok bool, err error) {
	if len(ancestors) == 0 {
		return l, 0, false, nil
	}
	newest, oldest := ancestors[0].Sequence, ancestors[len(ancestors)-1].Sequence
	for _, snapshot := range slices.Backward(q.Snapshots()) {
		l, ok, err := ledger.Of[ledger.Quarantine](snapshot)
		if err != nil {
			return l, 0, false, err
		}
		if !ok || l.SilverSequence > newest {
			continue
		}
		is := func(a table.Snapshot) bool { return a.ID == l.SilverSnapshot }
		if l.SilverSequence >= oldest && !slices.ContainsFunc(ancestors, is) {
			continue // of what silver was once, and was rolled back from
		}
		if fits, err := leadsTo(ancestors, l, silver.Quarantined); err != nil || fits {
			return l, snapshot.ID, fits, err
		}
	}
	return l, 0, false, nil
}

// goTo moves quarantine to a snapshot with a ledger.
func (o *Outbox) goTo(ctx context.Context, q *table.Table, l ledger.Quarantine, id int64) (*table.Table, error) {
	properties, err := ledger.Properties(l)
	if err != nil {
		return nil, err
	}
	return q.Rollback(ctx, id, properties, left(q))
}

// left is the tag that keeps what quarantine is moved away from, as long as that
// of silver's rollback by which it may be undone.
func left(q *table.Table) string {
	current, _ := q.Current()
	return fmt.Sprintf("%srollback-%d", table.TagPrefix, current.ID)
}

// ledgerOf reads the first ledger that snapshots have.
func ledgerOf(snapshots []table.Snapshot) (ledger.Silver, error) {
	for _, s := range snapshots {
		if l, ok, err := ledger.Of[ledger.Silver](s); ok || err != nil {
			return l, err
		}
	}
	return ledger.Silver{}, nil
}

// leadsTo says whether a state of quarantine, with what silver had handed over
// since, has the rows that silver counted.
func leadsTo(silver []table.Snapshot, have ledger.Quarantine, want map[string]int64) (bool, error) {
	pending, err := Pending(silver, have)
	if err != nil {
		return false, err
	}
	reasons := maps.Clone(have.Reasons)
	if reasons == nil {
		reasons = map[string]int64{}
	}
	for _, h := range pending {
		h.Count(reasons)
	}
	return sameCounts(reasons, want), nil
}

// sameCounts compares counts by reason.
func sameCounts(a, b map[string]int64) bool {
	none := func(_ string, n int64) bool { return n == 0 }
	a, b = maps.Clone(a), maps.Clone(b)
	maps.DeleteFunc(a, none)
	maps.DeleteFunc(b, none)
	return maps.Equal(a, b)
}

// cut takes out of quarantine the rows at and beyond silver's position, for want of
// a snapshot to go back to.
func (o *Outbox) cut(ctx context.Context, q *table.Table, at table.Snapshot, silver ledger.Silver) (*table.Table, error) {
	current, _ := q.Current()
	files, err := q.Files(ctx, current.ID)
	if err != nil {
		return nil, err
	}
	paths, release, err := o.area.Fetch(ctx, files)
	if err != nil {
		return nil, err
	}
	defer release()
	dir, err := o.duck.TempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	read := before(silver.Position)
	staged, err := o.rewrite(ctx, q, paths, read, dir)
	if err != nil {
		return nil, err
	}
	next := ledger.Quarantine{SilverSnapshot: at.ID, SilverSequence: at.Sequence}
	next.Reasons, err = countReasons(ctx, o.session, "(FROM "+duck.ReadParquet(q.Columns(), paths)+" WHERE "+read+")")
	if err != nil {
		return nil, err
	}
	if !sameCounts(next.Reasons, silver.Quarantined) {
		o.log.Warn("quarantine could not be brought back to what silver counted, since its snapshots of then have expired and a backfill has changed it since: verify tells which records",
			"pipeline", o.pipeline.Name, "silver_snapshot", at.ID, "counted", silver.Quarantined, "found", next.Reasons)
	}
	change := table.Change{Remove: files, Add: staging.Files(staged), Tag: left(q)}
	if err := ledger.Write(&change, next); err != nil {
		return nil, err
	}
	return q.Commit(ctx, change)
}

// before is the condition that a record lies before a position.
func before(position map[int32]int64) string {
	conditions := []string{"false"}
	for p, next := range position {
		conditions = append(conditions, fmt.Sprintf("_partition_id = %d AND _partition_offset < %d", p, next))
	}
	return "(" + strings.Join(conditions, " OR ") + ")"
}
