package upkeep

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// run merges files into one.
func (c *compactor) run(ctx context.Context, m merge) (Done, error) {
	began := time.Now()
	if fits := c.fits.Load(); fits > 0 && m.size().Bytes > 2*fits {
		return Done{Lost: "a smaller one did not fit into DuckDB's memory"}, nil
	}
	dir, err := c.Duck.TempDir()
	if err != nil {
		return Done{}, err
	}
	defer os.RemoveAll(dir)
	t, lost, err := c.live(ctx, &m)
	if lost != "" || err != nil {
		return Done{Lost: lost}, err
	}
	file, err := c.write(ctx, t, m, dir)
	if lost := c.setback(ctx, m, err); lost != "" {
		return Done{Lost: lost}, nil
	}
	if err == nil {
		err = unchanged(t, m, file)
	}
	if err != nil {
		return Done{}, err
	}
	staged, err := c.Area.UploadRewritten(ctx, t, m.files[0], file)
	if err != nil {
		return Done{}, err
	}
	lost, err = c.commit(ctx, m, staged)
	if lost != "" || err != nil {
		return Done{Lost: lost}, err
	}
	if err := c.Area.Keep(staged); err != nil {
		c.Log.Warn("keep files in the cache", "table", c.table, "error", err)
	}
	done := Done{Before: m.size(), After: Size{1, file.Bytes}}
	c.Log.Debug("compacted", "table", c.table, "files", done.Before.Files, "bytes", done.After.Bytes, "rows", file.Rows,
		"took", time.Since(began).Round(time.Millisecond).String())
	return done, nil
}

// setback says why writing a merge failed, if that is an expected failure, and makes the next attempt
// differ.
func (c *compactor) setback(ctx context.Context, m merge, err error) (lost string) {
	no := new(refusal)
	switch {
	case errors.Is(err, smelt.ErrNotFound): // an object of before
		if _, lost, err = c.live(ctx, &m); err != nil {
			return ""
		}
		return lost
	case duck.OutOfMemory(err):
		c.fits.Store(m.size().Bytes * 2 / 5) // a merge has up to one and a half times that
		c.Log.Warn("a merge did not fit into DuckDB's memory; files of this table become smaller", "table", c.table, "bytes", m.size().Bytes)
		return "it does not fit into DuckDB's memory"
	case errors.As(err, no):
		c.tell(no)
		for _, i := range no.files {
			c.refused.Store(m.files[i].Key, true)
		}
		return no.Error()
	}
	return ""
}

// live loads the table and adapts the merge's files to it. lost says why they can no longer be merged.
func (c *compactor) live(ctx context.Context, m *merge) (t *table.Table, lost string, err error) {
	if busy, err := c.corrected(ctx); busy || err != nil {
		return nil, "a backfill has begun", err
	}
	t, files, err := c.load(ctx)
	if err != nil {
		return nil, "", err
	}
	now := make([]table.File, len(m.files))
	for i, f := range m.files {
		at, found := slices.BinarySearchFunc(files, f, func(a, b table.File) int { return cmp.Compare(a.Key, b.Key) })
		if !found {
			return nil, "others have replaced the files", nil
		}
		now[i] = files[at]
	}
	m.files = now
	return t, "", nil
}

// commit swaps the staged file for the merged ones, under the lock. A file that is certainly not in
// the table is deleted. After a commit with an unknown outcome the file stays, for the table or
// for the search for orphans.
func (c *compactor) commit(ctx context.Context, m merge, staged []staging.Staged) (lost string, err error) {
	unlock, err := c.Locker.Lock(ctx, c.lock)
	if err != nil {
		return "", errors.Join(err, c.Area.Discard(ctx, staged))
	}
	defer unlock()
	for range compactTries {
		var t *table.Table
		if t, lost, err = c.live(ctx, &m); lost != "" || err != nil {
			return lost, errors.Join(err, c.Area.Discard(ctx, staged))
		}
		_, err = t.Commit(ctx, table.Change{
			Remove: m.files, Add: staging.Files(staged), Replace: true, Summary: summary(m),
		})
		if !errors.Is(err, table.ErrConflict) {
			return "", err
		}
	}
	return "others commit all the time", c.Area.Discard(ctx, staged)
}

// summary says what the snapshot is, and notes when rows last came into the
// partition, if that is known.
func summary(m merge) map[string]string {
	s := map[string]string{ledger.Maintenance: KindCompact}
	if !m.appended.IsZero() {
		s[appendedProperty] = m.appended.Format(time.RFC3339)
	}
	return s
}
