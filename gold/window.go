package gold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/table"
)

// bucket writes the start of the window that a time lies in.
func bucket(width time.Duration, expr string) string {
	return fmt.Sprintf("time_bucket(to_microseconds(%d), %s, TIMESTAMPTZ '1970-01-01 00:00:00+00')", width.Microseconds(), expr)
}

// start gives the start of the window that t lies in.
func start(width time.Duration, t time.Time) time.Time {
	us, w := t.UnixMicro(), width.Microseconds()
	rest := us % w
	if rest < 0 {
		rest += w
	}
	return time.UnixMicro(us - rest).UTC()
}

// touched gives the windows that have rows in silver files that were added or
// removed since the recorded snapshot, in order, and how many snapshots that
// is ago. When it cannot know, it sets j.all.
func (s *Stage) touched(ctx context.Context, j *job) (windows []time.Time, behind int, err error) {
	if j.all != "" {
		return nil, 0, nil
	}
	behind = slices.IndexFunc(j.silver.Ancestors(), func(a table.Snapshot) bool { return a.ID == j.before.SilverSnapshot })
	added, removed, err := j.silver.Changes(ctx, j.before.SilverSnapshot, j.snapshot.ID)
	if errors.Is(err, table.ErrUnknown) {
		j.all = "what changed in silver since the last refresh cannot be told"
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	found := map[time.Time]bool{}
	var read []table.File // files whose rows lie in more than one window
	for _, f := range append(added, removed...) {
		lo, hi, ok := f.Range(s.Pipeline.Events.Time)
		if first := start(s.Model.Window, lo); ok && first.Equal(start(s.Model.Window, hi)) {
			found[first] = true
			continue
		}
		read = append(read, f)
	}
	if err := s.windowsOf(ctx, read, found); err != nil {
		return nil, 0, err
	}
	return slices.SortedFunc(maps.Keys(found), time.Time.Compare), behind, nil
}

// windowsOf adds the windows that have rows in files.
func (s *Stage) windowsOf(ctx context.Context, files []table.File, found map[time.Time]bool) error {
	if len(files) == 0 {
		return nil
	}
	paths, release, err := s.Area.Fetch(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	rows, err := s.session.Query(ctx, fmt.Sprintf("SELECT DISTINCT %s FROM read_parquet(%s)",
		bucket(s.Model.Window, duck.Quote(s.Pipeline.Events.Time)), duck.List(paths)))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var w time.Time
		if err := rows.Scan(&w); err != nil {
			return fmt.Errorf("windows of silver files: %w", err)
		}
		found[w.UTC()] = true
	}
	return rows.Err()
}

// A refresh goes in chunks of whole days (or windows, where they are longer), so
// that the local disk holds about chunkBytes of silver at a time, and a query
// names chunkWindows windows at most.
const (
	chunkBytes   = 1 << 30
	chunkWindows = 10_000
)

// chunk is a part of a refresh: the windows between from and to, all of them or
// those listed, and the silver files that may have rows there.
type chunk struct {
	from, to time.Time
	windows  []time.Time // nil: all
	files    []table.File
}

// chunks cuts the windows listed, or all when there is no list, into parts.
func (s *Stage) chunks(files []table.File, windows []time.Time) []chunk {
	unit := max(24*time.Hour, s.Model.Window)
	var out []chunk
	var bytes int64
	for _, day := range s.days(unit, files, windows) {
		next := chunk{from: day, to: day.Add(unit)}
		for _, w := range windows {
			if start(unit, w).Equal(day) {
				next.windows = append(next.windows, w)
			}
		}
		var size int64
		for _, f := range files {
			if lo, hi, ok := f.Range(s.Pipeline.Events.Time); !ok || lo.Before(next.to) && !hi.Before(next.from) {
				next.files = append(next.files, f)
				size += f.Bytes
			}
		}
		if len(out) > 0 && bytes+size <= chunkBytes && len(out[len(out)-1].windows)+len(next.windows) <= chunkWindows {
			out[len(out)-1].join(next)
			bytes += size
			continue
		}
		out, bytes = append(out, next), size
	}
	return out
}

// join takes in a later chunk.
func (c *chunk) join(next chunk) {
	c.to = next.to
	c.windows = append(c.windows, next.windows...)
	for _, f := range next.files {
		if !slices.ContainsFunc(c.files, func(g table.File) bool { return g.Key == f.Key }) {
			c.files = append(c.files, f)
		}
	}
}

// days gives the days (or longer units) that the windows lie in or, without
// windows, those in which the files may have rows.
func (s *Stage) days(unit time.Duration, files []table.File, windows []time.Time) []time.Time {
	found := map[time.Time]bool{}
	for _, w := range windows {
		found[start(unit, w)] = true
	}
	if windows == nil {
		for _, f := range files {
			lo, hi, _ := f.Range(s.Pipeline.Events.Time)
			for d := start(unit, lo); !d.After(hi); d = d.Add(unit) {
				found[d] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), time.Time.Compare)
}

// show makes the view silver.<pipeline> over local files, restricted to the
// rows that meet a condition.
func (s *Stage) show(ctx context.Context, columns []smelt.Column, paths []string, condition string) error {
	return s.session.Exec(ctx, fmt.Sprintf("CREATE OR REPLACE VIEW silver.%s AS SELECT * FROM %s WHERE %s",
		duck.Quote(s.Pipeline.Name), duck.ReadParquet(columns, paths), condition))
}
