package backfill

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// piece is a part of a backfill that stands by itself: some files of silver whose
// rows in scope are replayed, or records of quarantine, with the files that are to
// take their place.
type piece struct {
	number     int
	read       []table.File     // of silver, with rows in scope
	remove     []table.File     // those of them in which a row differs
	staged     []staging.Staged // written in their place
	local      []string         // the staged files, on the local disk
	fields     string           // the ids by which they know the table's columns
	quarantine bool             // it has records of quarantine
	tangled    bool             // what it found to be duplicates depends on other pieces

	Counts
}

// Counts are of records.
type Counts struct {
	Replayed  int64 `json:"replayed"`
	Differing int64 `json:"differing"` // rows of silver that come out differently
	Entered   int64 `json:"entered"`   // rows that silver did not have
	Departed  int64 `json:"departed"`  // rows that silver has no more
	Unmatched int64 `json:"unmatched"` // more, or fewer, rows without a reference row
	Objects   int   `json:"objects"`   // of bronze that were read
	Bytes     int64 `json:"bytes"`     // of them, compressed
}

func (c *Counts) add(o Counts) {
	c.Replayed += o.Replayed
	c.Differing += o.Differing
	c.Entered += o.Entered
	c.Departed += o.Departed
	c.Unmatched += o.Unmatched
	c.Objects += o.Objects
	c.Bytes += o.Bytes
}

// pieceBytes of silver's files are rebuilt at a time: what fits into DuckDB's
// memory many times over, so that little spills.
const pieceBytes = 32 << 20

// rebuild replays what is in work.lineage, a piece at a time, and empties it.
func (j *Job) rebuild(ctx context.Context, t *table.Table) error {
	numbers, err := j.scoped(ctx)
	if err != nil {
		return err
	}
	for len(numbers) > 0 {
		n, bytes := 0, int64(0)
		for n < len(numbers) && (n == 0 || numbers[n] >= 0 && numbers[0] >= 0 && bytes < pieceBytes) {
			if numbers[n] >= 0 {
				bytes += j.files[numbers[n]].Bytes
			}
			n++
		}
		if err := j.rebuildPiece(ctx, t, numbers[:n]); err != nil {
			return err
		}
		numbers = numbers[n:]
		if err := j.reach("rebuilt"); err != nil {
			return err
		}
	}
	return j.session.Exec(ctx, "TRUNCATE work.lineage")
}

// scoped are the numbers of the files that have records in scope.
func (j *Job) scoped(ctx context.Context) ([]int, error) {
	return j.session.Ints(ctx, "SELECT DISTINCT file FROM work.lineage ORDER BY 1")
}

// rebuildPiece replays the records in scope of some files.
func (j *Job) rebuildPiece(ctx context.Context, t *table.Table, numbers []int) error {
	j.number++
	p := &piece{number: j.number, quarantine: numbers[0] < 0}
	for _, n := range numbers {
		if n >= 0 {
			p.read = append(p.read, j.files[n])
		}
	}
	dir := filepath.Join(j.dir, fmt.Sprint(p.number))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	list := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), ", "), "[]")
	err := j.session.Exec(ctx,
		"CREATE OR REPLACE TABLE work.scope AS SELECT DISTINCT _partition_id, _partition_offset FROM work.lineage WHERE file IN ("+list+")",
		fmt.Sprintf("INSERT INTO work.replayed SELECT %d, _partition_id, _partition_offset FROM work.scope", p.number))
	if err != nil {
		return err
	}
	if err := j.replay(ctx, p, dir); err != nil {
		return err
	}
	paths, release, err := j.Area.Fetch(ctx, p.read)
	if err != nil {
		return err
	}
	defer release()
	j.tell("comparing", p.Replayed)
	if err := j.compare(ctx, p, paths); err != nil {
		return err
	}
	if err := j.settle(ctx, t, p); err != nil {
		return err
	}
	j.tell("writing", p.Replayed)
	if err := j.write(ctx, t, p, paths, dir); err != nil {
		return err
	}
	j.pieces = append(j.pieces, p)
	return nil
}

// replay fills work.after and work.turned with the rows and the rejects that
// the records of work.scope give now.
func (j *Job) replay(ctx context.Context, p *piece, dir string) error {
	refs, err := j.objectsOf(ctx, "work.scope")
	if err != nil {
		return err
	}
	err = j.session.Exec(ctx,
		"CREATE OR REPLACE TABLE work.after ("+duck.Declarations(j.refiner.Columns())+")",
		"CREATE OR REPLACE TABLE work.turned ("+duck.Declarations(rejectColumns)+")",
		"CREATE OR REPLACE TABLE work.times (_partition_id INTEGER, _partition_offset BIGINT, _timestamp TIMESTAMPTZ, _key VARCHAR)")
	if err != nil {
		return err
	}
	for _, chunk := range chunks(refs) {
		if err := j.replayChunk(ctx, p, chunk, filepath.Join(dir, "bronze")); err != nil {
			return err
		}
	}
	return j.whole(ctx, refs)
}

func (j *Job) replayChunk(ctx context.Context, p *piece, refs []bronze.Ref, dir string) error {
	defer os.RemoveAll(dir)
	defer j.refiner.Clear(ctx)
	_, err := j.refiner.Refine(ctx, refs, dir, "work.scope", j.now)
	if duck.OutOfMemory(err) && len(refs) > 1 {
		half := len(refs) / 2
		if err := j.replayChunk(ctx, p, refs[:half], dir); err != nil {
			return err
		}
		return j.replayChunk(ctx, p, refs[half:], dir)
	}
	if err != nil {
		return err
	}
	err = j.session.Exec(ctx,
		"INSERT INTO work.after BY NAME SELECT * EXCLUDE (__failed) FROM work.silver",
		"INSERT INTO work.turned BY NAME FROM work.rejects",
		"INSERT INTO work.times SELECT _partition_id, _partition_offset, _timestamp, _key FROM work.records")
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

// whole checks that bronze gave each record asked for, once.
func (j *Job) whole(ctx context.Context, refs []bronze.Ref) error {
	missing, err := j.session.Strings(ctx, `SELECT _partition_id || ':' || _partition_offset FROM (
			SELECT _partition_id, _partition_offset FROM work.scope EXCEPT ALL
			(SELECT _partition_id, _partition_offset FROM work.after UNION ALL SELECT _partition_id, _partition_offset FROM work.turned)
		) ORDER BY ALL LIMIT 3`)
	if err != nil || len(missing) == 0 {
		return err
	}
	if damage := j.refiner.Damage(ctx, refs); damage != nil {
		return fmt.Errorf("bronze.%s has lost record %s: %w", j.Pipeline.Name, strings.Join(missing, ", "), damage)
	}
	return smelt.Mark(smelt.ErrStore, fmt.Errorf("bronze.%s has lost record %s, which silver or quarantine has: one of its objects from %s to %s was changed by something other than smelt",
		j.Pipeline.Name, strings.Join(missing, ", "), refs[0].Key, refs[len(refs)-1].Key))
}

// compare finds what differs from what silver has. Rows that come out the same,
// smelt's own columns apart, stay as they are.
func (j *Job) compare(ctx context.Context, p *piece, paths []string) error {
	var differs []string
	for _, c := range j.refiner.Columns() {
		if !slices.Contains(stamps, c.Name) {
			differs = append(differs, fmt.Sprintf("a.%s IS DISTINCT FROM b.%[1]s", duck.Quote(c.Name)))
		}
	}
	lineage := "(_partition_id, _partition_offset)"
	return j.session.Exec(ctx,
		fmt.Sprintf("CREATE OR REPLACE TABLE work.before AS FROM %s WHERE %s IN (SELECT _partition_id, _partition_offset FROM work.scope)",
			duck.ReadParquetFiles(j.columns, paths), lineage),
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.differing AS
			SELECT a.* REPLACE (b._ingested_at AS _ingested_at, %s AS _rebuilt_at), b.__file, b._unmatched AS __unmatched
			FROM work.after AS a JOIN work.before AS b USING %s WHERE %s`, duck.Timestamp(j.now), lineage, strings.Join(differs, " OR ")),
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.departing AS
			SELECT b.__file, b._partition_id, b._partition_offset, b._unmatched AS __unmatched FROM work.before AS b ANTI JOIN work.after USING %s`, lineage),
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.entering AS
			SELECT a.* REPLACE (%s AS _rebuilt_at) FROM work.after AS a ANTI JOIN work.before USING %s`, duck.Timestamp(j.now), lineage))
}

// stamps are the columns of silver that say how a row came to be, not what it is.
var stamps = []string{"_ingested_at", "_reference_version", "_rebuilt_at"}

// write writes the files that take the place of those in which a row differs,
// with the rows that stay as they are, and uploads them.
func (j *Job) write(ctx context.Context, t *table.Table, p *piece, paths []string, dir string) error {
	err := j.session.Row(ctx, `SELECT
			(SELECT count(*) FROM work.differing), (SELECT count(*) FROM work.entering), (SELECT count(*) FROM work.departing),
			(SELECT count(_unmatched) - count(__unmatched) FROM work.differing) + (SELECT count(_unmatched) FROM work.entering) - (SELECT count(__unmatched) FROM work.departing)`,
		&p.Differing, &p.Entered, &p.Departed, &p.Unmatched)
	if err != nil || p.Differing+p.Entered+p.Departed == 0 {
		return err
	}
	rewritten, err := j.rewritten(ctx)
	if err != nil {
		return err
	}
	var stay []string
	for _, n := range rewritten {
		p.remove, stay = append(p.remove, p.read[n]), append(stay, paths[n])
	}
	columns := duck.Names(j.columns)
	have := duck.Names(j.refiner.Columns())
	err = j.session.Exec(ctx, fmt.Sprintf(`CREATE OR REPLACE TABLE work.out AS
			SELECT %s FROM %s WHERE (_partition_id, _partition_offset) NOT IN (
				SELECT _partition_id, _partition_offset FROM work.differing UNION ALL SELECT _partition_id, _partition_offset FROM work.departing)
			UNION ALL BY NAME SELECT %s FROM work.differing
			UNION ALL BY NAME SELECT %s FROM work.entering`,
		columns, duck.ReadParquet(j.columns, stay), have, have))
	if err != nil {
		return err
	}
	future, err := j.future(t)
	if err != nil {
		return err
	}
	p.fields = future.FieldIDs()
	written, err := j.session.WriteParquet(ctx, staging.Relation("work.out", future, j.columns), dir, duck.Layout{
		FieldIDs: future.FieldIDs(), Partition: duck.PartitionValues(future.Partition()), Sort: duck.Quote(j.Pipeline.Events.Time),
	})
	if err != nil {
		return err
	}
	for _, f := range written {
		p.local = append(p.local, f.Path)
	}
	p.staged, err = j.Area.Upload(ctx, future, written)
	return err
}

// future is silver with the columns that silver.sql gives now.
func (j *Job) future(t *table.Table) (*table.Table, error) {
	return staging.Future(t, j.refiner.Columns())
}

// rewritten are the places in a piece's files of those in which a row differs.
func (j *Job) rewritten(ctx context.Context) ([]int, error) {
	return j.session.Ints(ctx, "SELECT DISTINCT __file FROM (SELECT __file FROM work.differing UNION ALL SELECT __file FROM work.departing) WHERE __file IS NOT NULL ORDER BY 1")
}
