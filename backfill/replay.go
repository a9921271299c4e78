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
	"smelt/silver"
)

// relists is how often the objects of records are listed anew since one has gone:
// each time something else must have merged and cleaned meanwhile.
const relists = 3

// replay fills work.after and work.turned with the rows and the rejects that
// the records of work.scope give now.
func (j *Job) replay(ctx context.Context, p *piece, dir string) error {
	err := j.session.Exec(ctx,
		"CREATE OR REPLACE TABLE work.after ("+duck.Declarations(j.refiner.Columns())+")",
		"CREATE OR REPLACE TABLE work.turned ("+duck.Declarations(rejectColumns)+")",
		"CREATE OR REPLACE TABLE work.times (_partition_id INTEGER, _partition_offset BIGINT, _timestamp TIMESTAMPTZ, _key VARCHAR, _value VARCHAR)",
		"CREATE OR REPLACE TABLE work.missing AS FROM work.scope")
	if err != nil {
		return err
	}
	var refs []bronze.Ref
	for try, missing := 0, int64(-1); ; try++ {
		refs, err = j.objectsOf(ctx, "work.missing")
		if err == nil {
			err = j.replayObjects(ctx, p, refs, dir)
		}
		gone := errors.Is(err, smelt.ErrNotFound)
		if err != nil && (!gone || try == relists) {
			return err
		}
		before := missing
		if missing, err = j.missing(ctx); err != nil || missing == 0 {
			return err
		}
		if !gone && missing == before {
			break // whatever they are in now, it does not have them
		}
	}
	if err := j.letGo(ctx, p, refs); err != nil {
		return err
	}
	return j.whole(ctx, refs)
}

// replayObjects replays the records of work.missing that are in some objects.
func (j *Job) replayObjects(ctx context.Context, p *piece, refs []bronze.Ref, dir string) error {
	for _, chunk := range chunks(refs) {
		err := j.replayChunk(ctx, p, chunk, filepath.Join(dir, "bronze"))
		for duck.OutOfMemory(err) && j.refiner.Halve() {
			if _, err = j.missing(ctx); err == nil { // some may have been replayed
				err = j.replayChunk(ctx, p, chunk, filepath.Join(dir, "bronze"))
			}
		}
		if err != nil {
			return err
		}
		j.refiner.Regain()
	}
	return nil
}

func (j *Job) replayChunk(ctx context.Context, p *piece, refs []bronze.Ref, dir string) error {
	defer os.RemoveAll(dir)
	wanted, err := j.refiner.Wanted(ctx, "work.missing")
	if err != nil {
		return err
	}
	err = j.refiner.Refine(ctx, refs, dir, wanted, j.now, func(some silver.Refined) error { return j.keep(ctx, some) })
	if err != nil {
		return err
	}
	var n int64
	if err := j.session.Row(ctx, "SELECT count(*) FROM work.times", &n); err != nil {
		return err
	}
	j.tell("replaying", n)
	p.Replayed = n
	for _, r := range refs {
		p.Objects++
		p.Bytes += r.Size
	}
	return nil
}

// keep notes what became of some records: all of it or nothing.
func (j *Job) keep(ctx context.Context, some silver.Refined) error {
	value := "NULL"
	if len(j.Pipeline.Silver.Unique) > 0 { // what turns out to be a duplicate goes to quarantine with its value
		value = "_value"
	}
	err := j.session.Exec(ctx,
		"BEGIN",
		"INSERT INTO work.after BY NAME FROM "+some.Rows,
		"INSERT INTO work.turned BY NAME FROM "+some.Rejects,
		"INSERT INTO work.times SELECT _partition_id, _partition_offset, _timestamp, _key, "+value+" FROM "+some.Records,
		"COMMIT")
	if err != nil {
		_ = j.session.Exec(context.WithoutCancel(ctx), "ROLLBACK") // or it never began
	}
	return err
}

// missing fills work.missing with the records in scope that bronze has not given
// yet, and says how many they are.
func (j *Job) missing(ctx context.Context) (n int64, err error) {
	err = j.session.Exec(ctx, `CREATE OR REPLACE TABLE work.missing AS SELECT _partition_id, _partition_offset FROM work.scope EXCEPT ALL
		(SELECT _partition_id, _partition_offset FROM work.after UNION ALL SELECT _partition_id, _partition_offset FROM work.turned)`)
	if err == nil {
		err = j.session.Row(ctx, "SELECT count(*) FROM work.missing", &n)
	}
	return n, err
}

// letGo takes out of scope the rows whose records retention has let go from bronze:
// nothing can be made of them anew, so they stay as they are. Those of quarantine it
// keeps, but for what a backfill has put there since, from objects that were not
// cleaned yet.
func (j *Job) letGo(ctx context.Context, p *piece, refs []bronze.Ref) error {
	for _, r := range refs {
		if !r.Retired {
			continue
		}
		where := fmt.Sprintf(" WHERE _partition_id = %d AND _partition_offset < %d", r.Partition, r.End)
		var n int64
		if err := j.session.Row(ctx, "SELECT count(*) FROM work.missing"+where, &n); err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		p.Retired += n
		err := j.session.Exec(ctx,
			"DELETE FROM work.scope WHERE (_partition_id, _partition_offset) IN (FROM work.missing"+where+")",
			fmt.Sprintf("DELETE FROM work.replayed WHERE piece = %d AND (_partition_id, _partition_offset) IN (FROM work.missing%s)", p.number, where),
			"DELETE FROM work.missing"+where)
		if err != nil {
			return err
		}
		j.Log.Warn("rows stay as they are: retain: has let their records go from bronze", "pipeline", j.Pipeline.Name, "partition", r.Partition, "rows", n, "below", r.End)
	}
	return nil
}

// whole says why bronze has not given all records asked for; nil when it has.
func (j *Job) whole(ctx context.Context, refs []bronze.Ref) error {
	missing, err := j.session.Strings(ctx, "SELECT _partition_id || ':' || _partition_offset FROM work.missing ORDER BY ALL LIMIT 3")
	if err != nil || len(missing) == 0 {
		return err
	}
	lost := fmt.Sprintf("bronze.%s has lost record %s", j.Pipeline.Name, strings.Join(missing, ", "))
	var partition int32
	var offset int64
	if err := j.session.Row(ctx, "SELECT _partition_id, _partition_offset FROM work.missing ORDER BY ALL LIMIT 1", &partition, &offset); err != nil {
		return err
	}
	if _, _, err := j.Bronze.Find(ctx, partition, offset); err != nil {
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s: %w", lost, err))
	}
	if damage := j.refiner.Damage(ctx, refs); damage != nil {
		return fmt.Errorf("%s: %w", lost, damage)
	}
	return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s, which silver or quarantine has: one of its objects from %s to %s was changed by something other than smelt",
		lost, refs[0].Key, refs[len(refs)-1].Key))
}
