package backfill

import (
	"context"
	"fmt"
	"slices"

	"smelt/internal/duck"
	"smelt/internal/table"
)

// catchUp adapts the pieces to the tables as they are now. It drops pieces that other commits
// have made invalid and rebuilds what is new in scope. It returns the table that the pieces
// fit, and how many records it has replayed.
func (j *Job) catchUp(ctx context.Context) (*table.Table, int64, error) {
	t, files, err := j.load(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := j.choose(ctx, t); err != nil {
		return nil, 0, err
	}
	if err := j.declare(ctx); err != nil {
		return nil, 0, err
	}
	before := j.counts().Replayed
	if err := j.drop(ctx, t, files); err != nil {
		return nil, 0, err
	}
	if err := j.scan(ctx, files); err != nil {
		return nil, 0, err
	}
	if err := j.scanQuarantine(ctx); err != nil {
		return nil, 0, err
	}
	if err := j.measure(ctx); err != nil {
		return nil, 0, err
	}
	if err := j.rebuild(ctx, t); err != nil {
		return nil, 0, err
	}
	if err := j.twins(ctx, t); err != nil {
		return nil, 0, err
	}
	j.sources = map[string]table.File{}
	for _, f := range files {
		j.sources[f.Key] = f
	}
	return t, j.counts().Replayed - before, nil
}

// declare makes the tables whose columns are the pipeline's.
func (j *Job) declare(ctx context.Context) error {
	keys := ""
	for _, k := range j.keys() {
		for _, c := range j.refiner.Columns() {
			if c.Name == k {
				keys += duck.Quote(c.Name) + " " + c.Type.String() + ", "
			}
		}
	}
	return j.session.Exec(ctx,
		"CREATE TABLE IF NOT EXISTS work.entered (piece INTEGER, "+keys+"_partition_id INTEGER, _partition_offset BIGINT)",
		"CREATE TABLE IF NOT EXISTS work.rejected (piece INTEGER, "+duck.Declarations(rejectColumns)+")")
}

// measure tells how much there is to do.
func (j *Job) measure(ctx context.Context) error {
	var n int64
	err := j.session.Row(ctx, "SELECT count(*) FROM work.lineage", &n)
	j.total = j.counts().Replayed + n
	return err
}

// drop drops the pieces that no longer fit silver. These have a file that silver no longer has, a row that
// another commit has added, or files with other column ids. Their records are searched again.
func (j *Job) drop(ctx context.Context, t *table.Table, files []table.File) error {
	future, err := j.future(t)
	if err != nil {
		return err
	}
	fields := future.FieldIDs()
	now := map[string]bool{}
	var fresh []table.File
	for _, f := range files {
		now[f.Key] = true
		if _, known := j.sources[f.Key]; !known && j.sources != nil {
			fresh = append(fresh, f)
		}
	}
	entered, err := j.enteredBy(ctx, fresh)
	if err != nil {
		return err
	}
	lost, err := j.lostQuarantine(ctx)
	if err != nil {
		return err
	}
	void := func(p *piece) bool {
		gone := func(f table.File) bool { return !now[f.Key] }
		return len(p.staged) > 0 && p.fields != fields || slices.ContainsFunc(p.remove, gone) || slices.Contains(entered, p.number) || lost && p.quarantine
	}
	if !slices.ContainsFunc(j.pieces, void) {
		return nil
	}
	// What came from quarantine, and what was found to repeat other rows, hangs together.
	var keep []*piece
	for _, p := range j.pieces {
		if !void(p) && !p.tangled && !p.quarantine {
			keep = append(keep, p)
			continue
		}
		if err := j.dropPiece(ctx, p); err != nil {
			return err
		}
	}
	j.pieces = keep
	for key := range j.quarantined {
		delete(j.seen, key)
	}
	clear(j.quarantined)
	return j.session.Exec(ctx, "TRUNCATE work.quarantined")
}

// dropPiece forgets a piece, and that its files were looked at. Its own files are
// in no table and never will be, unless a commit's outcome is unknown.
func (j *Job) dropPiece(ctx context.Context, p *piece) error {
	for _, f := range p.read {
		delete(j.seen, f.Key)
	}
	if !p.quarantine {
		j.found -= p.Replayed
	}
	var statements []string
	for _, name := range []string{"replayed", "departed", "released", "rejected", "entered"} {
		statements = append(statements, fmt.Sprintf("DELETE FROM work.%s WHERE piece = %d", name, p.number))
	}
	if err := j.session.Exec(ctx, statements...); err != nil || j.open {
		return err
	}
	return j.Area.Discard(ctx, p.staged)
}

// enteredBy lists the pieces with a row that has come into silver by others too:
// as the very record, or one with its key.
func (j *Job) enteredBy(ctx context.Context, fresh []table.File) (numbers []int, err error) {
	if len(fresh) == 0 || j.counts().Entered == 0 && !slices.ContainsFunc(j.pieces, func(p *piece) bool { return p.tangled }) {
		return nil, nil
	}
	paths, release, err := j.Area.Fetch(ctx, fresh)
	if err != nil {
		return nil, err
	}
	defer release()
	same := "e._partition_id = f._partition_id AND e._partition_offset = f._partition_offset"
	for i, k := range j.Pipeline.Silver.Unique {
		join := " AND "
		if i == 0 {
			join = " OR "
		}
		same += join + fmt.Sprintf("e.%s = f.%[1]s", duck.Quote(k))
	}
	return j.session.Ints(ctx, fmt.Sprintf("SELECT DISTINCT e.piece FROM work.entered AS e JOIN %s AS f ON %s", duck.ReadParquet(j.columns, paths), same))
}

// lostQuarantine says whether a file of quarantine that was looked at is there no
// more: another backfill may have taken records out of it.
func (j *Job) lostQuarantine(ctx context.Context) (bool, error) {
	if len(j.quarantined) == 0 {
		return false, nil
	}
	files, err := j.quarantineFiles(ctx)
	if err != nil {
		return false, err
	}
	there := 0
	for _, f := range files {
		if j.quarantined[f.Key] {
			there++
		}
	}
	return there < len(j.quarantined), nil
}
