package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
	"smelt/silver"
)

const (
	// staleBytes bounds what is read of silver to count the rows: what takes a
	// second or two, for somebody waits.
	staleBytes = 256 << 20
	// staleBatch is how much is read at a time: what was read by then is not read
	// again after an interruption.
	staleBatch = 32 << 20
	// stalePatience bounds the time, where the store is far away.
	stalePatience = 5 * time.Second
)

// Stale counts the rows of silver that are older than the last change of their reference row. A backfill of
// reference changes would replay these. If no reference has changed since the last count, it only asks the
// database. Otherwise it reads the files that may have such rows, and keeps the counts. One goroutine uses it.
type Stale struct {
	pipeline   *smelt.Pipeline
	references smelt.References
	open       func(context.Context) (silver.Config, error)
	most       int64 // bytes to be read for a count

	corrected, version int64 // what changes is as of
	changes            []staleChange
	snapshot           int64 // that rows was counted for; 0: count again
	rows               []StaleRows
}

// StaleRows are the rows of silver that are older than the last change of their
// row of one reference.
type StaleRows struct {
	Reference string
	Rows      int64 // enriched with a row that has changed or gone since
	Unmatched int64 // that found none, where there was a change since
	Exact     bool  // false: there is too much to read, and Rows is the most that there can be
}

// staleChange is what has changed in a reference, and how many rows of a file are
// older than that.
type staleChange struct {
	smelt.ReferenceChanges
	newest  int64                // version of the last change
	counted map[string]StaleRows // by the file's key
}

// NewStale makes a counter for a pipeline. It opens a session when it has to read silver. The
// caller closes it.
func NewStale(p *smelt.Pipeline, references smelt.References, open func(context.Context) (silver.Config, error)) *Stale {
	return &Stale{pipeline: p, references: references, open: open, most: staleBytes, version: -1}
}

// Count counts the rows in the silver table's newest snapshot, by reference; those
// without such rows are left out.
func (s *Stale) Count(ctx context.Context, t *table.Table) ([]StaleRows, error) {
	current, ok := t.Current()
	if !ok || len(s.pipeline.References) == 0 {
		return nil, nil
	}
	if err := s.ask(ctx, t); err != nil {
		return nil, err
	}
	if len(s.changes) == 0 || s.snapshot == current.ID {
		return s.rows, nil
	}
	files, err := t.Files(ctx, current.ID)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, stalePatience)
	defer cancel()
	err = s.read(bounded, t, files)
	late := bounded.Err() != nil && ctx.Err() == nil
	if err != nil && !late {
		return nil, fmt.Errorf("rows with an older version of a reference: %w", err)
	}
	s.rows, s.snapshot = s.sum(files), current.ID
	if late {
		s.snapshot = 0
	}
	return s.rows, nil
}

// ask brings the changes up to date. They are read only when they may be others.
func (s *Stale) ask(ctx context.Context, t *table.Table) error {
	l, _, _, err := ledger.Read[ledger.Silver](t)
	if err != nil {
		return err
	}
	version, err := s.references.Version(ctx, s.pipeline.References)
	if err != nil || version == s.version && l.Corrected == s.corrected {
		return err
	}
	changes, err := s.references.Changes(ctx, s.pipeline.References, l.Corrected)
	if err != nil {
		return err
	}
	s.changes, s.rows, s.snapshot = nil, nil, 0
	for _, change := range changes {
		c := staleChange{ReferenceChanges: change, newest: change.Whole, counted: map[string]StaleRows{}}
		for _, version := range change.Keys {
			c.newest = max(c.newest, version)
		}
		if c.newest > 0 {
			s.changes = append(s.changes, c)
		}
	}
	s.version, s.corrected = version, l.Corrected
	return nil
}

// may says whether a file may have rows that are older than a change.
func (c staleChange) may(f table.File) bool {
	lo, _, known := f.IntRange("_reference_version")
	return !known || lo < c.newest
}

// read counts in the files that may have such rows and were not read yet, unless
// they are too much.
func (s *Stale) read(ctx context.Context, t *table.Table, files []table.File) (err error) {
	fresh, bytes := make([][]table.File, len(s.changes)), int64(0)
	for i, c := range s.changes {
		for _, f := range files {
			if _, done := c.counted[f.Key]; !done && c.may(f) {
				fresh[i], bytes = append(fresh[i], f), bytes+f.Bytes
			}
		}
	}
	if bytes == 0 || bytes > s.most {
		return nil
	}
	cfg, err := s.open(ctx)
	if err != nil {
		return err
	}
	job, err := Open(ctx, cfg, Scope{ReferenceChanges: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, job.Close()) }()
	for i, c := range s.changes {
		job.References = known{changes: c.ReferenceChanges}
		chosen, err := job.changed(ctx, t)
		if err != nil {
			return err
		}
		for _, batch := range staging.Batches(fresh[i], staging.FileSize, scanFiles, staleBatch) {
			if err := c.countIn(ctx, job, t, batch, chosen); err != nil {
				return err
			}
		}
	}
	return nil
}

// countIn counts the chosen rows in some files.
func (c staleChange) countIn(ctx context.Context, job *Job, t *table.Table, files []table.File, chosen criterion) error {
	paths, release, err := job.Area.Fetch(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	rows, err := job.session.Query(ctx, fmt.Sprintf(`SELECT __file, count(*) FILTER (NOT lone), count(*) FILTER (lone)
		FROM (SELECT __file, COALESCE(list_contains(string_split(s._unmatched, ', '), %s), false) AS lone FROM %s AS s WHERE %s)
		GROUP BY ALL`, duck.Literal(c.Reference.Name), duck.ReadParquetFiles(t.Columns(), paths), chosen.condition))
	if err != nil {
		return err
	}
	defer rows.Close()
	found := make([]StaleRows, len(files))
	for rows.Next() {
		var n int
		var stale StaleRows
		if err := rows.Scan(&n, &stale.Rows, &stale.Unmatched); err != nil {
			return err
		}
		found[n] = stale
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for i, f := range files {
		c.counted[f.Key] = found[i]
	}
	return nil
}

// sum adds up what was counted in files, and forgets about others. In one that was
// not read all rows count.
func (s *Stale) sum(files []table.File) (all []StaleRows) {
	for i, c := range s.changes {
		sum := StaleRows{Reference: c.Reference.Name, Exact: true}
		counted := map[string]StaleRows{}
		for _, f := range files {
			if !c.may(f) {
				continue
			}
			in, done := c.counted[f.Key]
			if !done {
				sum.Rows, sum.Exact = sum.Rows+f.Rows, false
				continue
			}
			counted[f.Key] = in
			sum.Rows, sum.Unmatched = sum.Rows+in.Rows, sum.Unmatched+in.Unmatched
		}
		s.changes[i].counted = counted
		if sum.Rows+sum.Unmatched > 0 {
			all = append(all, sum)
		}
	}
	return all
}

// known are references with known changes.
type known struct {
	smelt.References // nil: no other method is called
	changes          smelt.ReferenceChanges
}

func (k known) Changes(context.Context, []smelt.Reference, int64) ([]smelt.ReferenceChanges, error) {
	return []smelt.ReferenceChanges{k.changes}, nil
}
