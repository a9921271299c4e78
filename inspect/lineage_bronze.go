package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/human"
)

// prepare creates the tables of the recount. work.limits has, per partition, silver's position, how far bronze could
// be read, and the offset below which records were retired.
func (r *recounting) prepare(ctx context.Context) error {
	return r.session.Exec(ctx,
		"CREATE TABLE work.seen (p BIGINT, o BIGINT, layer UTINYINT)",
		"CREATE TABLE work.limits (p BIGINT, position BIGINT, checked BIGINT, retired BIGINT)")
}

// countBronze reads the lineage of all records below silver's position. Retired records count, too.
func (r *recounting) countBronze(ctx context.Context) error {
	reader := bronze.NewReader(r.Area.Store, r.pipeline.Name)
	ends, err := reader.Ends(ctx)
	if err != nil {
		return err
	}
	for _, id := range keys(ends, r.silverLedger.Position) {
		if err := r.countPartition(ctx, reader, id, r.silverLedger.Position[id], ends[id]); err != nil {
			return err
		}
	}
	err = r.session.Row(ctx, fmt.Sprintf("SELECT count(*), count(*) FILTER (layer = %d) FROM work.seen", layerTombstone),
		&r.verdict.Bronze, &r.verdict.Tombstones)
	for _, m := range r.retired {
		r.verdict.Bronze += m.Retired.Count
		r.verdict.Tombstones += m.Retired.Tombstones
	}
	return err
}

// stretch is what was read of a chain.
type stretch struct {
	end    int64 // of the last object
	chain  int64 // records that the chain has had up to there
	beyond int64 // records of them from silver's position on: the object is a merged one
	broken error // why it could not be read up to the position
}

// countPartition reads a chain from its beginning to a position. What the chain
// has beyond that, up to its end, is on its way.
func (r *recounting) countPartition(ctx context.Context, reader *bronze.Reader, id int32, position int64, end bronze.Meta) error {
	s := stretch{end: -1}
	for s.end < position && s.broken == nil {
		refs, err := reader.After(ctx, id, s.end, batchBytes)
		if errors.Is(err, bronze.ErrBreak) {
			s.broken = err
			break
		}
		if err != nil {
			return err
		}
		refs = slices.DeleteFunc(refs, func(ref bronze.Ref) bool { return ref.From >= position })
		if len(refs) == 0 {
			break
		}
		if err := r.readObjects(ctx, reader, refs, position, &s); err != nil {
			return err
		}
	}
	checked := position
	if s.broken != nil {
		checked = max(s.end, 0)
		r.mismatch("chain", "bronze."+r.pipeline.Name, 0, []string{fmt.Sprintf("%d:%d", id, checked)},
			"Partition %d of bronze cannot be read beyond offset %d: %v. Restore the object from a backup or an older version of it in the bucket.", id, checked, s.broken)
	}
	err := r.session.Exec(ctx, fmt.Sprintf("INSERT INTO work.limits VALUES (%d, %d, %d, %d)", id, position, checked, r.retired[id].End))
	if err != nil || s.broken != nil {
		return err
	}
	r.verdict.OnTheirWay += max(0, end.Chain.Count-s.chain+s.beyond)
	return r.checkChain(ctx, id, s, position)
}

// checkChain compares an unbroken chain with its own counts and with silver's
// position.
func (r *recounting) checkChain(ctx context.Context, id int32, s stretch, position int64) error {
	name := "bronze." + r.pipeline.Name
	end := max(s.end, 0)
	if end < position {
		r.mismatch("chain", name, 0, []string{fmt.Sprintf("%d:%d", id, end)},
			"Partition %d of bronze ends at offset %d, but silver has read up to %d: objects are missing at its end. Restore them from a backup or from older versions in the bucket.",
			id, end, position)
		return nil
	}
	retired := r.retired[id]
	if retired.Retired.Count > 0 && position < retired.End {
		r.mismatch("chain", name, 0, []string{fmt.Sprintf("%d:%d", id, position)},
			"Silver is at offset %d of partition %d, but bronze has let records go up to %d: silver was rolled back to before. Roll it back to a snapshot that has read further: smelt history silver.%s lists them.",
			position, id, retired.End, r.pipeline.Name)
		return nil
	}
	var counted int64
	err := r.session.Row(ctx, fmt.Sprintf("SELECT count(*) FROM work.seen WHERE p = %d", id), &counted)
	counted += s.beyond + retired.Retired.Count
	if err == nil && counted != s.chain {
		r.mismatch("chain", name, max(counted-s.chain, s.chain-counted), nil,
			"Partition %d of bronze has %d records up to offset %d, but its objects count %d: objects are missing at its beginning, or lines were changed. Restore them from a backup or from older versions in the bucket.",
			id, counted, end, s.chain)
	}
	return err
}

// readObjects reads the lineage of some objects, the first at least.
func (r *recounting) readObjects(ctx context.Context, reader *bronze.Reader, refs []bronze.Ref, position int64, s *stretch) error {
	local := func(ref bronze.Ref) string {
		return filepath.Join(r.dir, fmt.Sprintf("%d-%s", ref.Partition, path.Base(ref.Key)))
	}
	metas, err := reader.Fetch(ctx, refs, local)
	var paths []string // of objects with lines
	for i, m := range metas {
		if m.Count > 0 {
			paths = append(paths, local(refs[i]))
		}
		if refs[i].Retired {
			r.retired[refs[i].Partition] = m
		}
		s.end, s.chain = m.End, m.Chain.Count
	}
	if err == nil && len(paths) > 0 {
		err = r.readLines(ctx, paths, position, s)
	}
	for _, ref := range refs {
		if gone := os.Remove(local(ref)); !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// readLines reads the lineage of the lines of local files.
func (r *recounting) readLines(ctx context.Context, paths []string, position int64, s *stretch) error {
	from := duck.ReadJSON(paths, int64(bronze.MaxLine(max(r.RecordMax, bronze.DefaultRecordMax))), `{partition: 'BIGINT', "offset": 'BIGINT', tombstone: 'BOOLEAN'}`)
	err := r.session.Exec(ctx, fmt.Sprintf(`INSERT INTO work.seen
		SELECT partition, "offset", CASE WHEN tombstone THEN %d ELSE %d END FROM %s WHERE "offset" < %d`,
		layerTombstone, layerRecord, from, position))
	if err != nil || s.end <= position {
		return err
	}
	return r.session.Row(ctx, fmt.Sprintf(`SELECT count(*) FROM %s WHERE "offset" >= %d`, from, position), &s.beyond)
}

// compareRetired checks the number of retired records. Their rows are in silver and quarantine, unless
// silver has retired rows, too.
func (r *recounting) compareRetired(ctx context.Context) error {
	for _, id := range keys(r.retired, r.retired) {
		m := r.retired[id]
		var found int64
		err := r.session.Row(ctx, fmt.Sprintf("SELECT coalesce(sum(s + q), 0)::BIGINT FROM work.odd WHERE p = %d AND retired AND b = 0", id), &found)
		if err != nil {
			return err
		}
		values := m.Retired.Count - m.Retired.Tombstones
		missing := values - found
		if missing >= 0 && r.verdict.Retired+missing <= r.silverLedger.Retired {
			r.verdict.Retired += missing
			continue
		}
		r.mismatch("retired", "silver."+r.pipeline.Name, max(missing, -missing), []string{fmt.Sprintf("%d:%d", id, m.End-1)},
			"Of partition %d retention has let %s with a value go from bronze, up to offset %d: silver and quarantine have %d of them. %s",
			id, human.Count(values, "record"), m.End, found, r.named(rollBack))
	}
	return nil
}
