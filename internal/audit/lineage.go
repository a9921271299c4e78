package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/table"
)

const (
	// batchBytes of bronze objects or data files, compressed, are on the local
	// disk at a time: large enough for DuckDB to use all cores.
	batchBytes = 256 << 20

	// downloads is how many bronze objects are fetched at once.
	downloads = 8
)

// The layers of work.seen, which has the lineage of every record and row.
const (
	layerRecord     = 0
	layerTombstone  = 1
	layerSilver     = 2
	layerQuarantine = 3
	layerReleased   = 4 // taken out of quarantine, which does not have it yet
)

// prepare makes the tables of the recount: work.seen, and work.limits with, for
// each partition, silver's position and how far bronze could be read.
func (r *recounting) prepare(ctx context.Context) error {
	return r.session.Exec(ctx,
		"CREATE TABLE work.seen (p BIGINT, o BIGINT, layer UTINYINT)",
		"CREATE TABLE work.limits (p BIGINT, position BIGINT, checked BIGINT)")
}

// countBronze reads the lineage of all records below silver's position.
func (r *recounting) countBronze(ctx context.Context) error {
	reader := bronze.NewReader(r.Area.Store, r.pipeline.Name)
	ends, err := chainEnds(ctx, reader)
	if err != nil {
		return err
	}
	for _, id := range keys(ends, r.silverLedger.Position) {
		if err := r.countPartition(ctx, reader, id, r.silverLedger.Position[id], ends[id]); err != nil {
			return err
		}
	}
	return r.session.Row(ctx, fmt.Sprintf("SELECT count(*), count(*) FILTER (layer = %d) FROM work.seen", layerTombstone),
		&r.verdict.Bronze, &r.verdict.Tombstones)
}

// countPartition reads a chain from its beginning to a position. What the chain
// has beyond that, up to its end, is on its way.
func (r *recounting) countPartition(ctx context.Context, reader *bronze.Reader, id int32, position int64, end bronze.Meta) error {
	at, chain, broken := int64(-1), int64(0), error(nil)
	for at < position && broken == nil {
		var refs []bronze.Ref
		if refs, broken = reader.After(ctx, id, at, batchBytes); broken != nil && !errors.Is(broken, bronze.ErrBreak) {
			return broken
		}
		refs = slices.DeleteFunc(refs, func(ref bronze.Ref) bool { return ref.Start >= position })
		if len(refs) == 0 {
			break
		}
		last, gap, err := r.readObjects(ctx, reader, refs, position)
		if err != nil {
			return err
		}
		at, chain, broken = last.End, last.Chain.Count, gap
	}
	checked := position
	if broken != nil {
		checked = max(at, 0)
		r.mismatch("chain", "bronze."+r.pipeline.Name, 0, []string{fmt.Sprintf("%d:%d", id, checked)},
			"Partition %d of bronze cannot be read beyond offset %d: %v. Restore the object from a backup or an older version of it in the bucket.", id, checked, broken)
	}
	if err := r.session.Exec(ctx, fmt.Sprintf("INSERT INTO work.limits VALUES (%d, %d, %d)", id, position, checked)); err != nil {
		return err
	}
	if broken != nil {
		return nil
	}
	r.verdict.OnTheirWay += max(0, end.Chain.Count-chain)
	return r.checkChain(ctx, id, at, position, chain)
}

// checkChain compares an unbroken chain with its own counts and with silver's
// position.
func (r *recounting) checkChain(ctx context.Context, id int32, end, position, chain int64) error {
	name := "bronze." + r.pipeline.Name
	end = max(end, 0)
	if end < position {
		r.mismatch("chain", name, 0, []string{fmt.Sprintf("%d:%d", id, end)},
			"Partition %d of bronze ends at offset %d, but silver has read up to %d: objects are missing at its end. Restore them from a backup or from older versions in the bucket.",
			id, end, position)
		return nil
	}
	var counted int64
	err := r.session.Row(ctx, fmt.Sprintf("SELECT count(*) FROM work.seen WHERE p = %d", id), &counted)
	if err == nil && counted != chain {
		r.mismatch("chain", name, max(counted-chain, chain-counted), nil,
			"Partition %d of bronze has %d records up to offset %d, but its objects count %d: objects are missing at its beginning, or lines were changed. Restore them from a backup or from older versions in the bucket.",
			id, counted, end, chain)
	}
	return err
}

// readObjects reads the lineage of some objects, up to a break in the chain.
func (r *recounting) readObjects(ctx context.Context, reader *bronze.Reader, refs []bronze.Ref, position int64) (last bronze.Meta, broken, err error) {
	paths, last, broken, err := r.download(ctx, reader, refs)
	if err != nil {
		return last, nil, err
	}
	err = r.session.Exec(ctx, fmt.Sprintf(`INSERT INTO work.seen
		SELECT partition, "offset", CASE WHEN tombstone THEN %d ELSE %d END
		FROM read_json(%s, format = 'newline_delimited', maximum_object_size = %d,
			columns = {partition: 'BIGINT', "offset": 'BIGINT', tombstone: 'BOOLEAN'})
		WHERE "offset" < %d`,
		layerTombstone, layerRecord, duck.List(paths), bronze.MaxLine(max(r.RecordMax, bronze.DefaultRecordMax)), position))
	for _, p := range paths {
		err = errors.Join(err, os.Remove(p))
	}
	return last, broken, err
}

// download fetches objects side by side. After a break in the chain none is
// given; the object before it is.
func (r *recounting) download(ctx context.Context, reader *bronze.Reader, refs []bronze.Ref) (paths []string, last bronze.Meta, broken, err error) {
	paths = make([]string, len(refs))
	metas, breaks := make([]bronze.Meta, len(refs)), make([]error, len(refs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(downloads)
	for i, ref := range refs {
		g.Go(func() (err error) {
			paths[i] = filepath.Join(r.dir, fmt.Sprintf("%d-%s", ref.Partition, path.Base(ref.Key)))
			metas[i], err = reader.Download(ctx, ref, paths[i])
			if errors.Is(err, bronze.ErrBreak) {
				breaks[i] = err
				alone := bronze.Ref{Name: ref.Name, Key: ref.Key, Size: ref.Size}
				metas[i], err = reader.Download(ctx, alone, paths[i])
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, last, nil, err
	}
	n := len(refs) - 1
	if i := slices.IndexFunc(breaks, func(err error) bool { return err != nil }); i >= 0 {
		n = i
	}
	for _, unread := range paths[n+1:] {
		err = errors.Join(err, os.Remove(unread))
	}
	return paths[:n+1], metas[n], breaks[n], err
}

// Columns of silver and quarantine that the recount reads.
var lineage = []smelt.Column{
	{Name: "_partition_id", Type: smelt.Type{Name: "bigint"}},
	{Name: "_partition_offset", Type: smelt.Type{Name: "bigint"}},
}

// countSilver reads the lineage of all silver rows.
func (r *recounting) countSilver(ctx context.Context) error {
	list, err := files(ctx, r.silver)
	if err != nil {
		return err
	}
	columns := append(slices.Clone(lineage), smelt.Column{Name: "_unmatched", Type: smelt.Type{Name: "varchar"}})
	return r.readFiles(ctx, list, columns, layerSilver, func(from string) error {
		var n, unmatched int64
		err := r.session.Row(ctx, "SELECT count(*), count(_unmatched) FROM "+from, &n, &unmatched)
		r.verdict.Silver += n
		r.verdict.Unmatched += unmatched
		return err
	})
}

// countQuarantine reads the lineage of what is in quarantine, and of what silver
// has handed over and is not there yet.
func (r *recounting) countQuarantine(ctx context.Context) error {
	list, err := files(ctx, r.quarantine)
	if err != nil {
		return err
	}
	var released []table.File
	for _, h := range r.pending {
		if h.Rejects != nil {
			list = append(list, table.File{Key: h.Rejects.File.Path, Bytes: h.Rejects.File.Bytes})
		}
		if h.Released != nil {
			released = append(released, table.File{Key: h.Released.File.Path, Bytes: h.Released.File.Bytes})
		}
	}
	r.verdict.Pending = r.pendingRows()
	return errors.Join(
		r.readQuarantine(ctx, list, layerQuarantine, 1),
		r.readQuarantine(ctx, released, layerReleased, -1),
	)
}

// readQuarantine reads files of quarantine, whose rows count with a sign.
func (r *recounting) readQuarantine(ctx context.Context, list []table.File, layer int, sign int64) error {
	columns := append(slices.Clone(lineage), smelt.Column{Name: "reason", Type: smelt.Type{Name: "varchar"}})
	return r.readFiles(ctx, list, columns, layer, func(from string) error {
		found, err := r.session.Query(ctx, "SELECT coalesce(reason, ''), count(*) FROM "+from+" GROUP BY reason")
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var reason string
			var n int64
			if err := found.Scan(&reason, &n); err != nil {
				return err
			}
			r.verdict.Quarantined[reason] += sign * n
			r.verdict.Quarantine += sign * n
		}
		return found.Err()
	})
}

// readFiles adds the lineage of data files to work.seen, and lets count look at
// each batch of them.
func (r *recounting) readFiles(ctx context.Context, list []table.File, columns []smelt.Column, layer int, count func(from string) error) error {
	for _, batch := range batches(list) {
		paths, release, err := r.Area.Fetch(ctx, batch)
		if err != nil {
			return err
		}
		from := duck.ReadParquet(columns, paths)
		err = r.session.Exec(ctx, fmt.Sprintf("INSERT INTO work.seen SELECT _partition_id, _partition_offset, %d FROM %s", layer, from))
		if err == nil {
			err = count(from)
		}
		release()
		if err != nil {
			return err
		}
	}
	return nil
}

// batches cuts a list of files so that each part has about batchBytes.
func batches(list []table.File) (out [][]table.File) {
	var size int64
	for _, f := range list {
		if len(out) == 0 || size+f.Bytes > batchBytes {
			out, size = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], f)
		size += f.Bytes
	}
	return out
}

// keys are the keys of both maps, sorted.
func keys[K int32 | string, A, B any](a map[K]A, b map[K]B) []K {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
