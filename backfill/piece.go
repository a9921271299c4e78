package backfill

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"smelt/internal/duck"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// piece is an independent part of a backfill: files of silver whose rows in scope are replayed,
// or records of quarantine, with the files that will replace them.
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
	Departed  int64 `json:"departed"`  // rows that leave silver
	Unmatched int64 `json:"unmatched"` // more, or fewer, rows without a reference row
	Retired   int64 `json:"retired"`   // in scope, but no longer in bronze: their rows stay
	Objects   int   `json:"objects"`   // of bronze that were read
	Bytes     int64 `json:"bytes"`     // of them, compressed
}

func (c *Counts) add(o Counts) {
	c.Replayed += o.Replayed
	c.Differing += o.Differing
	c.Entered += o.Entered
	c.Departed += o.Departed
	c.Unmatched += o.Unmatched
	c.Retired += o.Retired
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

// compare finds what differs from silver. work.differing has rows that come out differently, work.moved those
// of them with another key or time. work.departing has rows that leave silver, and work.entering new rows.
// Rows that are equal except for smelt's own columns stay.
func (j *Job) compare(ctx context.Context, p *piece, paths []string) error {
	var differs []string
	moved := []string{"false"}
	for _, c := range j.refiner.Columns() {
		test := fmt.Sprintf("a.%s IS DISTINCT FROM b.%[1]s", duck.Quote(c.Name))
		if !slices.Contains(stamps, c.Name) {
			differs = append(differs, test)
		}
		if slices.Contains(j.keys(), c.Name) {
			moved = append(moved, test)
		}
	}
	before := fmt.Sprintf("(FROM %s WHERE (_partition_id, _partition_offset) IN (SELECT _partition_id, _partition_offset FROM work.scope))",
		duck.ReadParquetFiles(j.columns, paths))
	err := j.session.Exec(ctx, fmt.Sprintf(`CREATE OR REPLACE TABLE work.compared AS
			SELECT a.* REPLACE (
					coalesce(a._partition_id, b._partition_id) AS _partition_id,
					coalesce(a._partition_offset, b._partition_offset) AS _partition_offset,
					coalesce(b._ingested_at, a._ingested_at) AS _ingested_at,
					%s AS _rebuilt_at),
				b.__file, b._unmatched AS __unmatched,
				a._partition_id IS NOT NULL AS __after, b._partition_id IS NOT NULL AS __before, (%s) AS __moved
			FROM work.after AS a FULL JOIN %s AS b ON a._partition_id = b._partition_id AND a._partition_offset = b._partition_offset
			WHERE a._partition_id IS NULL OR b._partition_id IS NULL OR %s`,
		duck.Timestamp(j.now), strings.Join(moved, " OR "), before, strings.Join(differs, " OR ")))
	if err != nil {
		return err
	}
	columns := duck.Names(j.refiner.Columns())
	return j.session.Exec(ctx,
		"CREATE OR REPLACE TABLE work.differing AS SELECT "+columns+", __file, __unmatched FROM work.compared WHERE __after AND __before",
		"CREATE OR REPLACE TABLE work.moved AS SELECT "+columns+" FROM work.compared WHERE __after AND __before AND __moved",
		"CREATE OR REPLACE TABLE work.departing AS SELECT __file, _partition_id, _partition_offset, __unmatched FROM work.compared WHERE NOT __after",
		"CREATE OR REPLACE TABLE work.entering AS SELECT "+columns+" FROM work.compared WHERE NOT __before",
		"DROP TABLE work.compared")
}

// stamps are the columns of silver that say how a row came to be, not what it is.
var stamps = []string{"_ingested_at", "_reference_version", "_rebuilt_at"}

// write writes and uploads the files that replace those in which a row differs. Other rows are
// copied.
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

// rewritten are the positions, among a piece's files, of files in which a row differs.
func (j *Job) rewritten(ctx context.Context) ([]int, error) {
	return j.session.Ints(ctx, "SELECT DISTINCT __file FROM (SELECT __file FROM work.differing UNION ALL SELECT __file FROM work.departing) WHERE __file IS NOT NULL ORDER BY 1")
}

// newestFirst puts files in the order of their rows' event times, the newest
// first; those that do not say come first of all.
func newestFirst(files []table.File, column string) []table.File {
	return slices.SortedStableFunc(slices.Values(files), func(a, b table.File) int {
		_, hiA, okA := a.Range(column)
		_, hiB, okB := b.Range(column)
		switch {
		case okA && okB:
			return hiB.Compare(hiA)
		case okA:
			return 1
		case okB:
			return -1
		}
		return 0
	})
}
