package silver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/ledger"
)

// Refiner turns bronze objects into silver rows and rejects, which it leaves in
// the tables work.silver and work.rejects of a DuckDB session of its own. A stage
// has one, and a backfill has one: so both judge records alike.
type Refiner struct {
	Config
	session   *duck.Session
	extract   *extractor
	transform *transformer
	dedup     *deduplicator
	refs      smelt.ReferenceSet
	bound     bool // the references are loaded and silver.sql is bound
}

// OpenRefiner makes a refiner. Nothing is read before it is bound.
func OpenRefiner(ctx context.Context, cfg Config) (*Refiner, error) {
	session, err := cfg.Duck.Session(ctx)
	if err != nil {
		return nil, err
	}
	r := &Refiner{
		Config:  cfg,
		session: session,
		extract: &extractor{
			session: session, name: cfg.Pipeline.Name, events: cfg.Pipeline.Events,
			carefully: cfg.Carefully,
		},
		transform: &transformer{session: session, pipeline: cfg.Pipeline},
		dedup:     &deduplicator{session: session, pipeline: cfg.Pipeline},
	}
	if err := r.extract.prepare(ctx); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return r, nil
}

// Close releases the session.
func (r *Refiner) Close() error { return r.session.Close() }

// Session is where the tables are.
func (r *Refiner) Session() *duck.Session { return r.session }

// ReferenceSet is what rows are enriched with, once bound.
func (r *Refiner) ReferenceSet() smelt.ReferenceSet { return r.refs }

// Columns are those of work.silver, in order, once bound.
func (r *Refiner) Columns() []smelt.Column { return r.transform.columns }

// Bind brings the references up to date.
func (r *Refiner) Bind(ctx context.Context) error {
	if r.bound {
		version, err := r.References.Version(ctx, r.Pipeline.References)
		if err != nil || version == r.refs.Version {
			return err
		}
	}
	refs, err := r.References.Load(ctx, r.Pipeline.References)
	if err != nil {
		return err
	}
	if err := r.transform.bind(ctx, refs); err != nil {
		return err
	}
	r.refs, r.bound = refs, true
	return nil
}

// BindSince makes sure that the references are not older than those that the
// table has seen. A version below the table's floor is an ErrDatabase: what a
// backfill has corrected would come back wrong. Without references there is
// nothing to be older.
func (r *Refiner) BindSince(ctx context.Context, before ledger.Silver) error {
	if len(r.Pipeline.References) == 0 {
		return nil
	}
	if r.refs.Version < before.ReferenceVersion { // another process has seen a later one
		r.bound = false
		if err := r.Bind(ctx); err != nil {
			return err
		}
	}
	if r.refs.Version < before.ReferenceFloor {
		return smelt.Mark(smelt.ErrDatabase, fmt.Errorf("the reference tables are at version %d, but a backfill has corrected the table with version %d: "+
			"is this another database, one that was restored from a backup, or has the pipeline fewer references than it had? Bring back what was; or, if it is right, set the counter: UPDATE smelt.reference_counter SET version = %d, and touch the reference tables",
			r.refs.Version, before.ReferenceFloor, before.ReferenceVersion+1))
	}
	return nil
}

// Refine downloads bronze objects into a folder, and fills work.silver and
// work.rejects with what becomes of their records, which are in work.records. With the name
// of a table of lineages it takes only those records. Without one it takes the objects for
// stretches of their chains, of which those count that [bronze.Reader.Fetch] has: it returns
// their metadata. An object that has gone since it was listed is a smelt.ErrNotFound.
// Duplicates are not looked for.
func (r *Refiner) Refine(ctx context.Context, objects []bronze.Ref, dir, wanted string, now time.Time) ([]bronze.Meta, error) {
	metas, err := r.download(ctx, objects, dir, wanted == "")
	if err != nil {
		return nil, err
	}
	objects = objects[:len(metas)]
	files, longest := make([]localFile, len(objects)), int64(0)
	for i, m := range metas {
		files[i] = newLocalFile(dir, objects[i])
		longest = max(longest, m.Longest)
	}
	err = r.sift(ctx, paths(files), longest, wanted, now)
	if duck.OutOfMemory(err) && len(files) == 1 {
		r.Log.Warn("an object did not fit into DuckDB's memory; taking it in parts", "pipeline", r.Pipeline.Name, "object", filepath.Base(files[0].path))
		err = r.siftParts(ctx, files[0].path, wanted, now)
	}
	if err != nil {
		return nil, r.blame(ctx, objects, err)
	}
	return metas, addRaws(ctx, r.session, files)
}

// blame says which object is to blame for an error of DuckDB's reader, when one is.
func (r *Refiner) blame(ctx context.Context, objects []bronze.Ref, err error) error {
	if ctx.Err() != nil || errors.Is(err, smelt.ErrPipeline) || duck.OutOfMemory(err) {
		return err
	}
	if damage := r.Damage(ctx, objects); damage != nil {
		return fmt.Errorf("%w (%w)", damage, err)
	}
	return err
}

// Damage reads bronze objects once more and names the first that is not as it was
// written. It is nil when all are.
func (r *Refiner) Damage(ctx context.Context, objects []bronze.Ref) error {
	for _, o := range objects {
		if _, err := r.Bronze.Lines(ctx, o, func([]byte) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// download fetches bronze objects into a folder: a stretch of their chains, or
// each of them.
func (r *Refiner) download(ctx context.Context, objects []bronze.Ref, dir string, stretch bool) ([]bronze.Meta, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := func(ref bronze.Ref) string { return newLocalFile(dir, ref).path }
	if stretch {
		return r.Bronze.Fetch(ctx, objects, path)
	}
	return r.Bronze.FetchAll(ctx, objects, path)
}

// Clear drops what was worked with: all sessions share one limit of memory. What
// cannot be dropped now is replaced by the next step.
func (r *Refiner) Clear(ctx context.Context) {
	statements := []string{"TRUNCATE work.records"}
	for _, name := range []string{"silver", "rejects", "unmatched", "filtered", "raws", "seen", "shared", "duplicates"} {
		statements = append(statements, "DROP TABLE IF EXISTS work."+name)
	}
	if err := r.session.Exec(context.WithoutCancel(ctx), statements...); err != nil {
		r.Log.Warn("clear a step's tables", "pipeline", r.Pipeline.Name, "error", err)
	}
}
