package silver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// Outbox brings what silver's snapshots hand over into the quarantine table.
// Silver's commit decides alone what is rejected, and what a backfill takes back:
// its ledger names the files, which have been uploaded before. Quarantine's own
// ledger says up to which silver snapshot it has them. When smelt dies in
// between, the next step publishes first.
type Outbox struct {
	pipeline *smelt.Pipeline
	area     staging.Area
	duck     *duck.DB
	session  *duck.Session
	log      *slog.Logger
	settled  settled
}

// settled are the metadata files of quarantine and silver between which nothing was
// left to hand over. They are immutable, so nothing ever will be.
type settled struct{ quarantine, silver string }

// Outbox is the outbox of the refiner's pipeline. It works in the same session.
func (r *Refiner) Outbox() *Outbox {
	return &Outbox{pipeline: r.Pipeline, area: r.Area, duck: r.Duck, session: r.session, log: r.Log}
}

// table loads the quarantine table, and creates it when there is none.
func (o *Outbox) table(ctx context.Context) (*table.Table, error) {
	return o.area.Lake.Create(ctx, QuarantineName(o.pipeline.Name), table.Definition{Columns: rejectColumns})
}

// Upload writes a relation with columns of quarantine, the reason among them,
// into the table's folder, for a ledger to name. There is none without rows.
func (o *Outbox) Upload(ctx context.Context, relation string, have []smelt.Column, dir string) (*ledger.Rejects, []staging.Staged, error) {
	reasons, err := countReasons(ctx, o.session, relation)
	if err != nil || len(reasons) == 0 {
		return nil, nil, err
	}
	q, err := o.table(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	written, err := o.session.WriteParquet(ctx, staging.Relation(relation, q, have), dir, duck.Layout{
		FieldIDs: q.FieldIDs(), Sort: colPartition + ", " + colOffset,
	})
	if err != nil {
		return nil, nil, err
	}
	staged, err := o.area.Upload(ctx, q, written)
	if err != nil {
		return nil, nil, err
	}
	file := written[0] // unpartitioned rows are one file
	file.Path = staged[0].File.Key
	return &ledger.Rejects{File: file, Reasons: reasons}, staged, nil
}

// countReasons counts the rows of a relation by their reason.
func countReasons(ctx context.Context, session *duck.Session, relation string) (map[string]int64, error) {
	rows, err := session.Query(ctx, "SELECT reason, count(*) FROM "+relation+" GROUP BY reason")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var reason string
		var n int64
		if err := rows.Scan(&reason, &n); err != nil {
			return nil, err
		}
		out[reason] = n
	}
	return out, rows.Err()
}

// Publish brings into quarantine what silver's snapshots have handed over since
// it was last done. It looks at quarantine first: silver as it is later has every
// snapshot from which quarantine was filled, unless silver was rolled back.
func (o *Outbox) Publish(ctx context.Context) error {
	q, err := o.table(ctx)
	if err != nil {
		return err
	}
	t, err := o.area.Lake.Load(ctx, TableName(o.pipeline.Name))
	if errors.Is(err, smelt.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	at := settled{q.MetadataLocation(), t.MetadataLocation()}
	if at == o.settled {
		return nil
	}
	if q, err = o.follow(ctx, q, t); err != nil {
		return err
	}
	have, _, _, err := ledger.Read[ledger.Quarantine](q)
	if err != nil {
		return err
	}
	pending, err := Pending(t.Ancestors(), have)
	for err == nil && len(pending) > 0 {
		n := 1 // additions go together; what takes rows back goes alone
		for pending[0].Released == nil && n < len(pending) && pending[n].Released == nil {
			n++
		}
		q, have, err = o.take(ctx, q, have, pending[:n])
		pending = pending[n:]
	}
	if err == nil && q.MetadataLocation() == at.quarantine {
		o.settled = at
	}
	return err
}

// take commits handovers to quarantine. Only a single one may release rows.
func (o *Outbox) take(ctx context.Context, q *table.Table, have ledger.Quarantine, handovers []Handover) (*table.Table, ledger.Quarantine, error) {
	last := handovers[len(handovers)-1].Snapshot
	next := ledger.Quarantine{SilverSnapshot: last.ID, SilverSequence: last.Sequence, Reasons: maps.Clone(have.Reasons)}
	if next.Reasons == nil {
		next.Reasons = map[string]int64{}
	}
	var change table.Change
	var rewritten []staging.Staged
	for _, h := range handovers {
		if h.Released != nil {
			dir, err := o.duck.TempDir()
			if err != nil {
				return nil, have, err
			}
			defer os.RemoveAll(dir)
			if change.Remove, rewritten, err = o.without(ctx, q, *h.Released, dir); err != nil {
				return nil, have, err
			}
			change.Add = staging.Files(rewritten)
		}
		if h.Rejects != nil {
			file, err := q.NewFile(h.Rejects.File)
			if err == nil { // a table with a file that is gone could not be read any more
				_, err = o.area.Store.Stat(ctx, file.Key)
			}
			if err != nil {
				return nil, have, fmt.Errorf("rejects of %s at snapshot %d: %w", TableName(o.pipeline.Name), h.Snapshot.ID, err)
			}
			change.Add = append(change.Add, file)
		}
		h.Count(next.Reasons)
	}
	if err := ledger.Write(&change, next); err != nil {
		return nil, have, err
	}
	q, err := q.Commit(ctx, change)
	if errors.Is(err, table.ErrConflict) {
		err = errors.Join(err, o.area.Discard(ctx, rewritten))
	}
	return q, next, err
}

// without writes the files of quarantine that have released rows anew, without
// those.
func (o *Outbox) without(ctx context.Context, q *table.Table, released ledger.Rejects, dir string) (remove []table.File, staged []staging.Staged, err error) {
	file, err := q.NewFile(released.File)
	if err != nil {
		return nil, nil, err
	}
	lineages, done, err := o.area.Fetch(ctx, []table.File{file})
	if err != nil {
		return nil, nil, err
	}
	defer done()
	current, _ := q.Current()
	files, err := q.Files(ctx, current.ID)
	if err != nil {
		return nil, nil, err
	}
	files = slices.DeleteFunc(files, func(f table.File) bool { return !overlap(f, file) })
	paths, release, err := o.area.Fetch(ctx, files)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	is := "(_partition_id, _partition_offset) IN (SELECT _partition_id, _partition_offset FROM " + duck.ReadParquet(q.Columns(), lineages) + ")"
	var kept []string
	for i, f := range files {
		var n int64
		if err := o.session.Row(ctx, "SELECT count(*) FROM "+duck.ReadParquet(q.Columns(), paths[i:i+1])+" WHERE "+is, &n); err != nil {
			return nil, nil, err
		}
		if n > 0 {
			remove, kept = append(remove, f), append(kept, paths[i])
		}
	}
	staged, err = o.rewrite(ctx, q, kept, "NOT "+is, dir)
	return remove, staged, err
}

// rewrite writes the rows of quarantine's files that meet a condition.
func (o *Outbox) rewrite(ctx context.Context, q *table.Table, paths []string, condition, dir string) ([]staging.Staged, error) {
	written, err := o.session.WriteParquet(ctx, "(SELECT * FROM "+duck.ReadParquet(q.Columns(), paths)+" WHERE "+condition+")", dir,
		duck.Layout{FieldIDs: q.FieldIDs(), Sort: colPartition + ", " + colOffset})
	if err != nil {
		return nil, err
	}
	return o.area.Upload(ctx, q, written)
}

// overlap says whether two files may have rows of one record.
func overlap(a, b table.File) bool {
	for _, column := range []string{colPartition, colOffset} {
		loA, hiA, okA := a.IntRange(column)
		loB, hiB, okB := b.IntRange(column)
		if okA && okB && (hiA < loB || hiB < loA) {
			return false
		}
	}
	return true
}
