package backfill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/silver"
)

// relists is how often the objects of records are listed again because one was deleted. Each
// time, something else must have merged and cleaned in the meantime.
const relists = 3

// replay fills work.after and work.turned with the rows and the rejects that
// the records of work.scope give now.
func (j *Job) replay(ctx context.Context, p *piece, dir string) error {
	err := j.session.Exec(ctx,
		"CREATE OR REPLACE TABLE work.after ("+duck.Declarations(j.refiner.Columns())+")",
		"CREATE OR REPLACE TABLE work.turned ("+duck.Declarations(rejectColumns)+")",
		"CREATE OR REPLACE TABLE work.times (_partition_id INTEGER, _partition_offset BIGINT, _timestamp TIMESTAMPTZ, _key VARCHAR, _value VARCHAR)")
	if err != nil {
		return err
	}
	missing, err := silver.ReadLineages(ctx, j.session, "work.scope")
	if err != nil {
		return err
	}
	var refs []bronze.Ref
	for try, before := 0, int64(-1); ; try++ {
		refs, err = j.objectsOf(ctx, missing)
		if err == nil {
			err = j.replayObjects(ctx, p, refs, missing, dir)
		}
		gone := errors.Is(err, smelt.ErrNotFound)
		if err != nil && (!gone || try == relists) {
			return err
		}
		now := missing.Len()
		if now == 0 {
			return nil
		}
		if !gone && now == before {
			break // bronze does not have them
		}
		before = now
	}
	if err := j.letGo(ctx, p, refs, missing); err != nil {
		return err
	}
	return j.whole(ctx, refs, missing)
}

// replayObjects replays the missing records that are in some objects.
func (j *Job) replayObjects(ctx context.Context, p *piece, refs []bronze.Ref, missing silver.Lineages, dir string) error {
	dir = filepath.Join(dir, "bronze")
	for _, chunk := range staging.Batches(refs, func(r bronze.Ref) int64 { return r.Size }, chunkObjects, chunkBytes) {
		err := j.replayChunk(ctx, p, chunk, missing, dir)
		for duck.OutOfMemory(err) && j.refiner.Halve() {
			err = j.replayChunk(ctx, p, chunk, missing, dir)
		}
		if err != nil {
			return err
		}
		j.refiner.Regain()
		for _, r := range chunk {
			p.Objects++
			p.Bytes += r.Size
		}
	}
	return nil
}

func (j *Job) replayChunk(ctx context.Context, p *piece, refs []bronze.Ref, missing silver.Lineages, dir string) error {
	defer os.RemoveAll(dir)
	return j.refiner.Refine(ctx, refs, dir, missing, j.now, func(some silver.Refined) error {
		err := j.keep(ctx, some)
		if err == nil {
			p.Replayed += int64(some.Count)
			j.tell("replaying", p.Replayed)
		}
		return err
	})
}

// keep notes what became of some records: all of it or nothing.
func (j *Job) keep(ctx context.Context, some silver.Refined) error {
	statements := []string{
		"BEGIN",
		"INSERT INTO work.after BY NAME FROM " + some.Rows,
		"INSERT INTO work.turned BY NAME FROM " + some.Rejects,
	}
	if len(j.Pipeline.Silver.Unique) > 0 { // what turns out to be a duplicate goes to quarantine as it came
		statements = append(statements, "INSERT INTO work.times SELECT _partition_id, _partition_offset, _timestamp, _key, _value FROM "+some.Records)
	}
	err := j.session.Exec(ctx, append(statements, "COMMIT")...)
	if err != nil {
		_ = j.session.Exec(context.WithoutCancel(ctx), "ROLLBACK") // or it never began
	}
	return err
}

// letGo removes rows from the scope whose records retention has removed from bronze. They stay
// as they are. Bronze keeps the records of quarantine, except those that a backfill has put
// there since, from objects that were not cleaned yet.
func (j *Job) letGo(ctx context.Context, p *piece, refs []bronze.Ref, missing silver.Lineages) error {
	for _, r := range refs {
		if !r.Retired {
			continue
		}
		n := missing.TakeBelow(r.Partition, r.End)
		if n == 0 {
			continue
		}
		p.Retired += n
		const replayed = "(SELECT _partition_id, _partition_offset FROM work.after UNION ALL SELECT _partition_id, _partition_offset FROM work.turned)"
		where := fmt.Sprintf("_partition_id = %d AND _partition_offset < %d AND (_partition_id, _partition_offset) NOT IN %s", r.Partition, r.End, replayed)
		err := j.session.Exec(ctx,
			"DELETE FROM work.scope WHERE "+where,
			fmt.Sprintf("DELETE FROM work.replayed WHERE piece = %d AND %s", p.number, where))
		if err != nil {
			return err
		}
		j.Log.Warn("rows stay as they are: bronze has retired their records", "pipeline", j.Pipeline.Name, "partition", r.Partition, "rows", n, "below", r.End)
	}
	return nil
}

// whole says why bronze did not have all requested records; nil if it had.
func (j *Job) whole(ctx context.Context, refs []bronze.Ref, missing silver.Lineages) error {
	first := missing.First(3)
	if len(first) == 0 {
		return nil
	}
	lost := fmt.Sprintf("bronze.%s has lost record %s", j.Pipeline.Name, strings.Join(first, ", "))
	partition := missing.Partitions()[0]
	if _, _, err := j.Bronze.Find(ctx, partition, int64(missing[partition].Minimum())); err != nil {
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s: %w", lost, err))
	}
	if damage := j.refiner.Damage(ctx, refs); damage != nil {
		return fmt.Errorf("%s: %w", lost, damage)
	}
	return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s, which silver or quarantine has: one of its objects from %s to %s was changed by something other than smelt",
		lost, refs[0].Key, refs[len(refs)-1].Key))
}
