package silver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
	"smelt/internal/ledger"
)

// Refiner turns bronze records into silver rows and rejects, in a DuckDB session of
// its own. A stage has one, and a backfill has one: so both judge records alike.
type Refiner struct {
	Config
	session   *duck.Session
	transform *transformer
	refs      smelt.ReferenceSet
	bound     bool // the references are loaded and silver.sql is bound

	records *Records        // that are being worked on
	all     *duck.BatchRows // all of them, which work.records shows
	shown   *duck.BatchRows // those of them that bronze.<pipeline> shows
	lacking *duck.BatchRows // those of them that lack a reference row, which work.unmatched shows
	rejects *rejects
	rows    []siftedRow
	twins   *twins
	most    int // bytes of records to work on at once; usually limit
	limit   int
	worked  int // bytes that were worked on last
}

// batchBytes is how many bytes of records, with their columns, are worked on at once:
// usually one object of bronze. Keys and results take at most as much again.
const batchBytes = 128 << 20

// OpenRefiner makes a refiner. Nothing is read before it is bound.
func OpenRefiner(ctx context.Context, cfg Config) (*Refiner, error) {
	session, err := cfg.Duck.Session(ctx)
	if err != nil {
		return nil, err
	}
	r := &Refiner{
		Config: cfg, session: session, transform: &transformer{session: session, pipeline: cfg.Pipeline},
		records: NewRecords(cfg.Pipeline.Events), lacking: newLacking(), rejects: newRejects(), twins: newTwins(cfg.Pipeline.Events.Watermark.Microseconds()), most: batchBytes,
	}
	if cfg.BatchBytes > 0 {
		r.most = cfg.BatchBytes
	}
	r.limit = r.most
	r.all, r.shown = duck.NewBatchRows(r.records.Batch), duck.NewBatchRows(r.records.Batch)
	if err := r.show(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// show makes the views that silver.sql, and what is done with its rows, read.
func (r *Refiner) show(ctx context.Context) error {
	declared := r.Pipeline.Events.Columns
	return r.session.Exec(ctx,
		"CREATE VIEW work.records AS FROM "+r.session.Provide(r.all),
		fmt.Sprintf("CREATE VIEW bronze.%s AS SELECT %s FROM %s", duck.Quote(r.Pipeline.Name),
			duck.Names(RecordColumns(declared)[:len(declared)+atValue]), r.session.Provide(r.shown)),
		"CREATE VIEW work.unmatched AS FROM "+r.session.Provide(r.lacking),
		"CREATE VIEW work.rejects AS FROM "+r.session.Provide(r.rejects.rows))
}

// Close releases the session, and the memory of the records.
func (r *Refiner) Close() error {
	err := r.session.Close()
	r.records.Free()
	r.lacking.Batch.Free()
	r.rejects.batch.Free()
	return err
}

// Session is where the tables are.
func (r *Refiner) Session() *duck.Session { return r.session }

// ReferenceSet is what rows are enriched with, once bound.
func (r *Refiner) ReferenceSet() smelt.ReferenceSet { return r.refs }

// Columns are those of the silver table, in order, once bound.
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

// Refined is what became of some records, as relations.
type Refined struct {
	Count   int    // of the records
	Rows    string // silver's rows, with its columns
	Rejects string // with the columns of quarantine
	Records string // the records themselves, with the columns of [RecordColumns]
}

// Refine reads the wanted records out of bronze objects, and gives what becomes of
// them to yield, as many at a time as fit. Those that yield has taken are wanted no
// longer. Duplicates are not looked for. An object that was deleted since it was
// listed is a smelt.ErrNotFound.
func (r *Refiner) Refine(ctx context.Context, objects []bronze.Ref, dir string, wanted Lineages, now time.Time, yield func(Refined) error) (err error) {
	path := func(ref bronze.Ref) string { return localPath(dir, ref) }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if _, err := r.Bronze.FetchAll(ctx, objects, path); err != nil {
		return err
	}
	defer r.Clear()
	defer func() {
		if err != nil { // what yield has not taken is wanted still
			for row := range r.records.Batch.Len() {
				wanted.Add(r.records.lineage(int32(row)))
			}
		}
	}()
	part := func() error {
		if r.records.Batch.Len() == 0 {
			return nil
		}
		err := r.refine(ctx, now, yield)
		for duck.Thrown(err) {
			if err := r.setAside(ctx, err, r.silverRows(now), nil); err != nil {
				return err
			}
			err = r.refine(ctx, now, yield)
		}
		if err == nil {
			r.records.Reset()
		}
		return err
	}
	for _, ref := range objects {
		err := bronze.EachLine(path(ref), func(line []byte) error {
			m, err := bronze.Cut(line)
			if err != nil {
				return fmt.Errorf("%s: %w", ref.Key, smelt.Mark(smelt.ErrStore, err))
			}
			if !wanted.Take(m.Partition, m.Offset) {
				return nil
			}
			if r.records.Batch.Size() >= r.most {
				if err := part(); err != nil {
					wanted.Add(m.Partition, m.Offset)
					return err
				}
			}
			return r.records.add(m)
		})
		if err != nil {
			return r.blame(ctx, objects, err)
		}
	}
	return part()
}

// refine shows what becomes of the records that are being worked on.
func (r *Refiner) refine(ctx context.Context, now time.Time, yield func(Refined) error) error {
	s, err := r.sift(ctx, now, nil)
	if err != nil {
		return err
	}
	r.all.Only = r.all.Only[:0]
	for row := range r.records.Batch.Len() {
		r.all.Only = append(r.all.Only, int32(row))
	}
	r.shown.Only = s.stay()
	return yield(Refined{Count: r.records.Batch.Len(), Rows: r.silverRows(now), Rejects: "work.rejects", Records: "work.records"})
}

// blame says which object is damaged when the reading of some has failed.
func (r *Refiner) blame(ctx context.Context, objects []bronze.Ref, err error) error {
	if ctx.Err() != nil || errors.Is(err, smelt.ErrPipeline) || duck.OutOfMemory(err) {
		return err
	}
	if damage := r.Damage(ctx, objects); damage != nil {
		return fmt.Errorf("%w (%w)", damage, err)
	}
	return err
}

// localPath is where the local copy of an object lies. Its ending is the object's.
func localPath(dir string, ref bronze.Ref) string {
	return filepath.Join(dir, fmt.Sprintf("%d-%s", ref.Partition, path.Base(ref.Key)))
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

// Clear forgets the records that were worked on.
func (r *Refiner) Clear() {
	r.worked = 0
	if r.records.Batch.Len() > 1 {
		r.worked = r.records.Batch.Size()
	}
	r.records.Reset()
	r.rejects.reset()
	r.all.Only, r.shown.Only = r.all.Only[:0], nil
}

// Halve has half as much worked on at once as last, since DuckDB's memory was too
// small. ok is false when that was a single record.
func (r *Refiner) Halve() (ok bool) {
	if r.worked > 0 {
		r.most = min(r.most, r.worked) / 2
	}
	return r.worked > 0
}

// Regain has twice as much worked on at once as before, up to what is usual.
func (r *Refiner) Regain() { r.most = min(2*r.most+1, r.limit) }
