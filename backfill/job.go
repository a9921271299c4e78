// Package backfill corrects history while the stream runs. It replays the records of a scope
// from bronze, through the code of the silver stage, and compares the result with silver. It
// audits the difference and publishes it in one atomic commit. It stands over the line and
// writes silver, quarantine and gold. Start reading with run.go, then piece.go.
//
// Most of the work is done while the stages run. Only the last part holds silver's lock: it
// takes in new commits and publishes. Until that commit nothing published changes, so a
// backfill may die anywhere.
package backfill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/table"
	"smelt/silver"
)

// Job is one backfill of one pipeline: a plan, and at most one run. It is used
// by one goroutine.
type Job struct {
	silver.Config
	scope   Scope
	id      string
	refiner *silver.Refiner
	pair    silver.Pair // as of the last load
	session *duck.Session
	outputs []duck.Name // of silver.sql: plain columns of the events
	dir     string      // for files on their way
	now     time.Time   // stamps what is rebuilt

	chosen      *criterion
	found       int64                 // rows of silver in scope
	version     int64                 // of the references when the rows were chosen
	columns     []smelt.Column        // of silver as it will be
	files       []table.File          // of silver that were looked at, by their number in work.lineage
	seen        map[string]bool       // their keys, and those of quarantine's
	quarantined map[string]bool       // keys of files of quarantine that were looked at
	sources     map[string]table.File // silver's files as of the last look; nil before the first
	pieces      []*piece
	number      int  // of the last piece
	tries       int  // to publish
	open        bool // the outcome of a commit is unknown: what was staged may be live
	result      Result
	total       int64 // records to be replayed, as far as is known

	progress func(Progress)
	reach    func(step string) error // of tests: fails at a step
}

// Open makes a job, with a DuckDB session of its own. Nothing is read or written.
func Open(ctx context.Context, cfg silver.Config, scope Scope) (*Job, error) {
	refiner, err := silver.OpenRefiner(ctx, cfg)
	if err != nil {
		return nil, err
	}
	j := &Job{
		Config: cfg, scope: scope, id: uuid.NewString(), now: time.Now().UTC().Truncate(time.Microsecond),
		refiner: refiner, session: refiner.Session(),
		seen: map[string]bool{}, quarantined: map[string]bool{},
		progress: func(Progress) {}, reach: func(string) error { return nil },
	}
	if err := j.prepare(ctx); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// prepare creates the job's tables. work.lineage has the records to replay, the number of their silver file
// (-1: they are in quarantine) and their event time. The other tables have the results, by piece number.
func (j *Job) prepare(ctx context.Context) (err error) {
	if j.dir, err = j.Duck.TempDir(); err != nil {
		return err
	}
	parsed, err := j.session.Parse(ctx, j.Pipeline.Silver.SQL)
	if err != nil {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/silver.sql: %w", j.Pipeline.Name, err))
	}
	if plain(j.Pipeline.Silver.SQL) {
		j.outputs = ofEvents(parsed, j.Pipeline.Name)
	}
	const at = "_partition_id INTEGER, _partition_offset BIGINT"
	return j.session.Exec(ctx,
		"CREATE TABLE work.lineage (file INTEGER, "+at+", happened TIMESTAMPTZ)",
		"CREATE TABLE work.keys (key VARCHAR)",
		"CREATE TABLE work.quarantined ("+at+", reason VARCHAR, field VARCHAR, detail VARCHAR)",
		"CREATE TABLE work.replayed (piece INTEGER, "+at+")",
		"CREATE TABLE work.departed (piece INTEGER, "+at+", called BOOLEAN)",
		"CREATE TABLE work.released (piece INTEGER, "+at+", reason VARCHAR)",
	)
}

// Close releases the session and deletes what is on the local disk.
func (j *Job) Close() error { return errors.Join(j.refiner.Close(), os.RemoveAll(j.dir)) }

// load loads silver and quarantine, and silver's files, and binds the references.
func (j *Job) load(ctx context.Context) (*table.Table, []table.File, error) {
	name := silver.TableName(j.Pipeline.Name)
	if _, err := j.Area.Lake.Load(ctx, name); errors.Is(err, smelt.ErrNotFound) {
		return nil, nil, smelt.Mark(smelt.ErrPipeline, fmt.Errorf("there is no table %s yet: the pipeline creates it when it runs (%w)", name, err))
	} else if err != nil {
		return nil, nil, err
	}
	if err := j.refiner.Bind(ctx); err != nil {
		return nil, nil, err
	}
	var err error
	if j.pair, err = j.refiner.Pair(ctx); err != nil {
		return nil, nil, err
	}
	t := j.pair.Silver
	if err := j.refiner.BindSince(ctx, j.pair.Ledger); err != nil {
		return nil, nil, err
	}
	future, err := j.future(t)
	if err != nil {
		return nil, nil, err
	}
	j.columns = future.Columns()
	current, ok := t.Current()
	if !ok {
		return t, nil, nil
	}
	files, err := t.Files(ctx, current.ID)
	if errors.Is(err, table.ErrRowDeletes) {
		err = fmt.Errorf("%w. In Trino: ALTER TABLE %s EXECUTE optimize; in Spark: CALL system.rewrite_data_files(table => '%[2]s', options => map('delete-file-threshold', '1'))",
			err, t.Name())
	}
	return t, files, err
}

// choose makes the scope ready, once: what is in scope stays so.
func (j *Job) choose(ctx context.Context, t *table.Table) error {
	if j.chosen != nil {
		return nil
	}
	if j.scope.Where != "" {
		fault, err := silver.CheckCondition(ctx, j.session, t.Columns(), j.scope.Where)
		if err != nil {
			return err
		}
		if fault != "" {
			return scopeError{fmt.Errorf("--where %s: %s", j.scope.where(), fault)}
		}
	}
	c, err := j.criterion(ctx, t)
	if err != nil {
		return err
	}
	j.chosen, j.version = &c, j.refiner.ReferenceSet().Version
	return nil
}

// ErrScope is a scope that is none: what it says is wrong.
var ErrScope = errors.New("bad scope")

// scopeError is an ErrScope that says what is wrong, and nothing else.
type scopeError struct{ error }

func (scopeError) Is(target error) bool { return target == ErrScope }
func (e scopeError) Unwrap() error      { return e.error }

// Progress is how far a run has got.
type Progress struct {
	Doing   string // what the run is at
	Records int64  // replayed so far
	Total   int64  // to be replayed, as far as is known; 0: there is nothing to count
	Waiting bool   // for another process
}

// tell tells how far the run has got, with the records of the piece at hand.
func (j *Job) tell(doing string, more int64) {
	j.progress(Progress{Doing: doing, Records: j.counts().Replayed + more, Total: j.total})
}

// rejectColumns are those of a reject.
var rejectColumns = silver.RejectColumns()

// plain says whether a SELECT is a single one, whose outputs are what they seem.
func plain(sql string) bool { return strings.Count(strings.ToUpper(sql), "SELECT") == 1 }

// ofEvents are the outputs of a SELECT that are columns of its events. Columns of a reference,
// which may have an alias, are NULL if it has no row.
func ofEvents(parsed *duck.Statement, pipeline string) []duck.Name {
	events := pipeline
	for _, t := range parsed.Tables {
		if strings.EqualFold(t.Text, "bronze."+pipeline) && t.Alias != "" {
			events = t.Alias
		}
	}
	return slices.DeleteFunc(slices.Clone(parsed.Outputs), func(o duck.Name) bool {
		return len(o.Path) == 0 || len(o.Path) > 2 || len(o.Path) == 2 && !strings.EqualFold(o.Path[0], events)
	})
}

// counts adds up what the pieces did.
func (j *Job) counts() (c Counts) {
	for _, p := range j.pieces {
		c.add(p.Counts)
	}
	return c
}
