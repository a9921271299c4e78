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

// Start is the start of the window of a width that t lies in. Windows count from 1970.
func Start(width time.Duration, t time.Time) time.Time {
	us, w := t.UnixMicro(), width.Microseconds()
	rest := us % w
	if rest < 0 {
		rest += w
	}
	return time.UnixMicro(us - rest).UTC()
}

// touched returns the windows with rows in silver files that were added or removed since the recorded snapshot,
// in order and without frozen ones. behind is how many snapshots ago that was. If the changes are unknown, it
// sets j.all.
func (s *Stage) touched(ctx context.Context, j *job) (windows []time.Time, behind int, err error) {
	if j.all != "" {
		return nil, 0, nil
	}
	behind = slices.IndexFunc(j.silver.Ancestors(), func(a table.Snapshot) bool { return a.ID == j.before.SilverSnapshot })
	added, removed, err := j.silver.Changes(ctx, j.before.SilverSnapshot, j.snapshot.ID)
	if errors.Is(err, table.ErrUnknown) {
		j.all = "the changes in silver since the last refresh are unknown"
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	found := map[time.Time]bool{}
	var read []table.File // files whose rows may lie in more than two windows
	for _, f := range append(added, removed...) {
		lo, hi, ok := f.Range(s.Pipeline.Events.Time)
		switch first, last := Start(s.Model.Window, lo), Start(s.Model.Window, hi); {
		case ok && Frozen(s.Model.Window, hi, j.floor):
		case ok && last.Sub(first) <= s.Model.Window: // one window, or two, with a row at either end
			found[first], found[last] = true, true
		default:
			read = append(read, f)
		}
	}
	if err := s.starts(ctx, s.Model.Window, read, found); err != nil {
		return nil, 0, err
	}
	maps.DeleteFunc(found, func(w time.Time, _ bool) bool { return Frozen(s.Model.Window, w, j.floor) })
	return slices.SortedFunc(maps.Keys(found), time.Time.Compare), behind, nil
}

// starts adds the starts of the spans of a width in which files have rows.
func (s *Stage) starts(ctx context.Context, width time.Duration, files []table.File, found map[time.Time]bool) error {
	if len(files) == 0 {
		return nil
	}
	paths, release, err := s.Area.Fetch(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	at := duck.Quote(s.Pipeline.Events.Time)
	rows, err := s.session.Query(ctx, fmt.Sprintf("SELECT DISTINCT %s FROM %s WHERE %s IS NOT NULL",
		bucket(width, at), duck.ReadParquet([]smelt.Column{{Name: s.Pipeline.Events.Time, Type: smelt.Type{Name: "timestamptz"}}}, paths), at))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var w time.Time
		if err := rows.Scan(&w); err != nil {
			return fmt.Errorf("times of silver files: %w", err)
		}
		found[w.UTC()] = true
	}
	return rows.Err()
}

// A refresh works in chunks of whole days, or of windows if they are longer. The local disk then holds about
// chunkBytes of silver at a time, and a query names at most chunkWindows windows.
const (
	chunkBytes   = 1 << 30
	chunkWindows = 10_000
)

// chunk is a part of a refresh: the windows between from and to, all of them or
// those listed, and the silver files that may have rows there.
type chunk struct {
	from, to time.Time
	all      bool
	windows  []time.Time // when not all
	files    []table.File
}

// chunks cuts a refresh of the windows listed, in their order, or of all that are
// not frozen, into parts.
func (s *Stage) chunks(ctx context.Context, j job, files []table.File, windows []time.Time) ([]chunk, error) {
	unit := max(24*time.Hour, s.Model.Window)
	days := map[time.Time]bool{}
	for _, w := range windows {
		days[Start(unit, w)] = true
	}
	if j.all != "" {
		if err := s.daysOf(ctx, unit, files, days); err != nil {
			return nil, err
		}
	}
	var out []chunk
	var bytes int64
	for _, day := range slices.SortedFunc(maps.Keys(days), time.Time.Compare) {
		next := chunk{from: day, to: day.Add(unit), all: j.all != ""}
		if Frozen(s.Model.Window, day, j.floor) {
			next.from = j.floor
		}
		if !next.from.Before(next.to) {
			continue // of all the windows; those listed are not frozen
		}
		n, _ := slices.BinarySearchFunc(windows, next.to, time.Time.Compare)
		next.windows, windows = windows[:n:n], windows[n:]
		from, to := next.from, next.to
		if len(next.windows) > 0 { // of the day only these
			from, to = next.windows[0], next.windows[len(next.windows)-1].Add(s.Model.Window)
		}
		var size int64
		for _, f := range files {
			if lo, hi, ok := f.Range(s.Pipeline.Events.Time); !ok || lo.Before(to) && !hi.Before(from) {
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
	return out, nil
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

// daysOf adds the days (or longer units) in which files may have rows. A file
// that does not say is read.
func (s *Stage) daysOf(ctx context.Context, unit time.Duration, files []table.File, days map[time.Time]bool) error {
	var silent []table.File
	for _, f := range files {
		lo, hi, ok := f.Range(s.Pipeline.Events.Time)
		if !ok {
			silent = append(silent, f)
			continue
		}
		for d := Start(unit, lo); !d.After(hi); d = d.Add(unit) {
			days[d] = true
		}
	}
	return s.starts(ctx, unit, silent, days)
}

// show makes the view silver.<pipeline> over local files, restricted to the
// rows that meet a condition.
func (s *Stage) show(ctx context.Context, columns []smelt.Column, paths []string, condition string) error {
	return s.session.Exec(ctx, fmt.Sprintf("CREATE OR REPLACE VIEW silver.%s AS SELECT * FROM %s WHERE %s",
		duck.Quote(s.Pipeline.Name), duck.ReadParquet(columns, paths), condition))
}
