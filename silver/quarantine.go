package silver

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/google/uuid"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// QuarantineEdit is what one commit adds to quarantine and takes out of it.
type QuarantineEdit struct {
	Rejected, Released map[string]int64 // rows, by reason

	refiner *Refiner
	table   *table.Table
	change  table.Change
	staged  []staging.Staged
}

// EditQuarantine begins an edit, which does nothing yet.
func (r *Refiner) EditQuarantine(q *table.Table) *QuarantineEdit {
	return &QuarantineEdit{refiner: r, table: q}
}

// Reject uploads a relation with columns of quarantine, the reason among them, to be
// added. It writes into dir, which it makes.
func (e *QuarantineEdit) Reject(ctx context.Context, relation string, have []smelt.Column, dir string) (err error) {
	if e.Rejected, err = countReasons(ctx, e.refiner.session, relation); err != nil || len(e.Rejected) == 0 {
		return err
	}
	staged, err := e.upload(ctx, staging.Relation(relation, e.table, have), dir)
	e.change.Add = append(e.change.Add, staging.Files(staged)...)
	return err
}

// Release takes the records of a relation out of quarantine. The relation has their
// lineage and reason. The files with such records are rewritten without them.
func (e *QuarantineEdit) Release(ctx context.Context, relation, dir string) (err error) {
	session := e.refiner.session
	if e.Released, err = countReasons(ctx, session, relation); err != nil || len(e.Released) == 0 {
		return err
	}
	current, _ := e.table.Current()
	files, err := e.table.Files(ctx, current.ID)
	if err != nil {
		return err
	}
	var among ranges
	if err := session.Row(ctx, "SELECT min(_partition_id), max(_partition_id), min(_partition_offset), max(_partition_offset) FROM "+relation,
		&among.partition[0], &among.partition[1], &among.offset[0], &among.offset[1]); err != nil {
		return err
	}
	released := "(_partition_id, _partition_offset) IN (SELECT _partition_id, _partition_offset FROM " + relation + ")"
	var kept []string
	for _, f := range files {
		if !among.overlap(f) {
			continue
		}
		paths, release, err := e.refiner.Area.Fetch(ctx, []table.File{f})
		if err != nil {
			return err
		}
		defer release()
		var n int64
		if err := session.Row(ctx, "SELECT count(*) FROM "+duck.ReadParquet(e.table.Columns(), paths)+" WHERE "+released, &n); err != nil {
			return err
		}
		if n > 0 {
			e.change.Remove, kept = append(e.change.Remove, f), append(kept, paths...)
		}
	}
	staged, err := e.upload(ctx, "(SELECT * FROM "+duck.ReadParquet(e.table.Columns(), kept)+" WHERE NOT "+released+")", dir)
	e.change.Add = append(e.change.Add, staging.Files(staged)...)
	return err
}

// upload writes a relation as a file of the table: unpartitioned rows are one, and none
// without rows.
func (e *QuarantineEdit) upload(ctx context.Context, relation, dir string) ([]staging.Staged, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	layout := duck.Layout{FieldIDs: e.table.FieldIDs(), Sort: colPartition + ", " + colOffset}
	written, err := e.refiner.session.WriteParquet(ctx, relation, dir, layout)
	if err != nil {
		return nil, err
	}
	staged, err := e.refiner.Area.Upload(ctx, e.table, written)
	e.staged = append(e.staged, staged...)
	return staged, err
}

// Empty says whether the edit changes nothing.
func (e *QuarantineEdit) Empty() bool { return len(e.Rejected)+len(e.Released) == 0 }

// Count takes the edit into silver's ledger.
func (e *QuarantineEdit) Count(after *ledger.Silver) {
	counts := maps.Clone(after.Quarantined)
	if counts == nil {
		counts = map[string]int64{}
	}
	for reason, n := range e.Released {
		if counts[reason] -= n; counts[reason] == 0 {
			delete(counts, reason)
		}
	}
	for reason, n := range e.Rejected {
		counts[reason] += n
	}
	after.Quarantined = counts
}

// Discard deletes the files of an edit that was certainly not published.
func (e *QuarantineEdit) Discard(ctx context.Context) error {
	return e.refiner.Area.Discard(ctx, e.staged)
}

// Publish commits a change of silver with its ledger and an edit of quarantine, both or
// none. Its errors are those of [table.Lake.Publish].
func (p Pair) Publish(ctx context.Context, lake *table.Lake, change table.Change, after ledger.Silver, e *QuarantineEdit) (silver *table.Table, err error) {
	var edits []table.Edit
	if !e.Empty() {
		after.Quarantine = uuid.NewString()
		if err := ledger.Write(&e.change, ledger.Quarantine{ID: after.Quarantine}); err != nil {
			return nil, err
		}
		edits = append(edits, p.Quarantine.Change(e.change))
	}
	if err := ledger.Write(&change, after); err != nil {
		return nil, err
	}
	published, err := lake.Publish(ctx, append(edits, p.Silver.Change(change))...)
	if err != nil {
		return nil, err
	}
	return published[len(published)-1], nil
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
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count rejects: %w", err)
	}
	return out, nil
}

// ranges are where the lineages of some records lie: from and to, both included.
type ranges struct{ partition, offset [2]int64 }

// overlap says whether a file may have rows of such records.
func (r ranges) overlap(f table.File) bool {
	for column, of := range map[string][2]int64{colPartition: r.partition, colOffset: r.offset} {
		if lo, hi, ok := f.IntRange(column); ok && (hi < of[0] || of[1] < lo) {
			return false
		}
	}
	return true
}
