package gold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
)

// replace computes the windows and works out what changes in the gold table. Windows with
// equal rows stay untouched.
func (s *Stage) replace(ctx context.Context, at *job, touched []time.Time, dir string, now time.Time) (table.Change, []staging.Staged, error) {
	change := table.Change{Columns: at.columns}
	var err error
	if at.held, err = s.recompute(ctx, *at, touched); err != nil {
		return change, nil, err
	}
	j := *at
	if touched = without(touched, startsOf(j.held)); j.all == "" && len(touched) == 0 {
		return change, nil, nil
	}
	affected, paths, release, err := s.old(ctx, j, touched)
	if err != nil {
		return change, nil, err
	}
	defer release()
	if change.Remove, err = s.merge(ctx, j, affected, paths, now); err != nil {
		return change, nil, err
	}
	written, err := s.write(ctx, j, dir)
	if err != nil {
		return change, nil, err
	}
	staged, err := s.Area.Upload(ctx, j.future, written)
	change.Add = staging.Files(staged)
	return change, staged, err
}

// recompute fills work.fresh with the model's rows of the windows, and returns those
// that are held back. work.windows shows the others, unless all windows are computed.
func (s *Stage) recompute(ctx context.Context, j job, touched []time.Time) (held []ledger.Held, err error) {
	s.askAnew()
	files, err := j.silver.Files(ctx, j.snapshot.ID)
	if err != nil {
		return nil, err
	}
	chunks, err := s.chunks(ctx, j, files, touched)
	if err != nil {
		return nil, err
	}
	if len(chunks) == 0 { // everything is computed, and silver has no rows
		return nil, s.none(ctx, j, "fresh")
	}
	for i, c := range chunks {
		into := "fresh"
		if i > 0 {
			into = "part"
		}
		more, err := s.part(ctx, j, c, into)
		if err == nil && i > 0 {
			err = s.session.Exec(ctx, "INSERT INTO work.fresh BY NAME FROM work.part")
		}
		if err != nil {
			return nil, err
		}
		held = append(held, more...)
	}
	return held, nil
}

// none makes a table of the model's columns without rows.
func (s *Stage) none(ctx context.Context, j job, table string) error {
	return s.session.Exec(ctx, "CREATE OR REPLACE TABLE work."+table+" ("+duck.Declarations(s.computed(j))+")")
}

// part computes one part into a table. It leaves out windows on which the model throws,
// and returns them.
func (s *Stage) part(ctx context.Context, j job, c chunk, into string) (held []ledger.Held, err error) {
	paths, release, err := s.Area.Fetch(ctx, c.files)
	if err != nil {
		return nil, err
	}
	defer release()
	asked := len(s.windows.Only)
	for _, w := range c.windows {
		s.ask(w)
	}
	err = s.calculate(ctx, j, c, paths, s.within(c), into)
	if duck.Thrown(err) {
		if held, err = s.hold(ctx, j, c, paths, err); err != nil {
			return nil, err
		}
		s.windows.Only = s.windows.Only[:asked]
		if c.windows = without(c.windows, startsOf(held)); !c.all && len(c.windows) == 0 {
			return held, s.none(ctx, j, into)
		}
		for _, w := range c.windows {
			s.ask(w)
		}
		others := fmt.Sprintf("%s AND %s NOT IN (%s)", s.within(c), bucket(s.Model.Window, duck.Quote(s.Pipeline.Events.Time)), timestamps(startsOf(held)))
		err = s.calculate(ctx, j, c, paths, others, into)
	}
	return held, err
}

// calculate computes the windows of a part into a table, from the rows that meet a condition.
func (s *Stage) calculate(ctx context.Context, j job, c chunk, paths []string, condition, into string) error {
	if err := s.show(ctx, j.silver.Columns(), paths, condition); err != nil {
		return err
	}
	if err := s.session.Exec(ctx, "CREATE OR REPLACE TABLE work."+into+" AS SELECT "+casts(s.computed(j))+" FROM work.model"); err != nil {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/%s.sql: %w", s.Pipeline.Name, s.Model.Name, err))
	}
	return s.checkWindows(ctx, c, into)
}

// within is the condition that a silver row lies in one of a chunk's windows.
func (s *Stage) within(c chunk) string {
	at := duck.Quote(s.Pipeline.Events.Time)
	between := func(from, to time.Time) string {
		return fmt.Sprintf("%s >= %s AND %s < %s", at, duck.Timestamp(from), at, duck.Timestamp(to))
	}
	if c.all {
		return between(c.from, c.to)
	}
	first, last := c.windows[0], c.windows[len(c.windows)-1]
	condition := between(first, last.Add(s.Model.Window))
	if last.Sub(first) == time.Duration(len(c.windows)-1)*s.Model.Window { // no gap, as a stream has none
		return condition
	}
	return condition + fmt.Sprintf(" AND %s IN (SELECT w FROM work.windows)", bucket(s.Model.Window, at))
}

// checkWindows fails on rows outside any window, or of a window that was not requested.
func (s *Stage) checkWindows(ctx context.Context, c chunk, table string) error {
	w := s.window()
	fits := fmt.Sprintf("%s = %s AND %s >= %s AND %s < %s", w, bucket(s.Model.Window, w), w, duck.Timestamp(c.from), w, duck.Timestamp(c.to))
	if !c.all {
		fits += fmt.Sprintf(" AND %s IN (SELECT w FROM work.windows)", w)
	}
	strays, err := s.session.Strings(ctx, fmt.Sprintf("SELECT coalesce(%s::VARCHAR, 'NULL') FROM work.%s WHERE (%s) IS NOT TRUE ORDER BY 1 LIMIT 1", w, table, fits))
	if err != nil {
		return err
	}
	if len(strays) > 0 {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/%s.sql gives a row whose %s is %s, which is not the start of the window of %s that its events lie in",
			s.Pipeline.Name, s.Model.Name, s.Model.Column, strays[0], s.Model.Window))
	}
	return nil
}

// old puts into work.old the rows that gold has of the windows, and of no window at
// all when everything is recomputed. It returns the files that may have such rows, and
// their paths; __file is a row's place among these.
func (s *Stage) old(ctx context.Context, j job, touched []time.Time) (affected []table.File, paths []string, release func(), err error) {
	if current, ok := j.gold.Current(); ok {
		files, err := j.gold.Files(ctx, current.ID)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, f := range files {
			if j.all != "" && !s.frozen(f, j.floor) || j.all == "" && s.holds(f, touched) {
				affected = append(affected, f)
			}
		}
	}
	if paths, release, err = s.Area.Fetch(ctx, affected); err != nil {
		return nil, nil, nil, err
	}
	w, condition := s.window(), "true"
	switch {
	case j.all == "":
		first, last := touched[0], touched[len(touched)-1]
		condition = fmt.Sprintf("%s BETWEEN %s AND %s AND %s IN (SELECT w FROM work.windows)", w, duck.Timestamp(first), duck.Timestamp(last), w)
	case !j.floor.IsZero():
		condition = w + " >= " + duck.Timestamp(j.floor)
	}
	if j.all != "" && len(j.held) > 0 {
		condition += fmt.Sprintf(" AND %s NOT IN (%s)", w, timestamps(startsOf(j.held)))
	}
	rows := "(SELECT *, NULL::BIGINT AS __file FROM " + duck.ReadParquet(j.future.Columns(), nil) + ")"
	if len(paths) > 0 {
		rows = duck.ReadParquetFiles(j.future.Columns(), paths)
	}
	if err = s.session.Exec(ctx, "CREATE OR REPLACE TABLE work.old AS SELECT * FROM "+rows+" WHERE "+condition); err != nil {
		release()
		return nil, nil, nil, err
	}
	return affected, paths, release, nil
}

// holds says whether a gold file may have rows of the windows, which are in
// order.
func (s *Stage) holds(f table.File, windows []time.Time) bool {
	lo, hi, ok := f.Range(s.Model.Column)
	i, _ := slices.BinarySearchFunc(windows, lo, time.Time.Compare)
	return !ok || i < len(windows) && !windows[i].After(hi)
}

// frozen says whether all rows of a gold file are of frozen windows.
func (s *Stage) frozen(f table.File, floor time.Time) bool {
	_, hi, ok := f.Range(s.Model.Column)
	return ok && Frozen(s.Model.Window, hi, floor)
}

// merge fills work.result with the rows to write: the fresh rows of the windows that
// changed, and the other rows of the files that are replaced. It returns those files.
func (s *Stage) merge(ctx context.Context, j job, affected []table.File, paths []string, now time.Time) ([]table.File, error) {
	w, model := s.window(), duck.Names(s.computed(j))
	final := fmt.Sprintf("%s + to_microseconds(%d) <= %s", "c.w", s.Model.Window.Microseconds(), duck.Timestamp(j.before.Watermark))
	if j.before.Watermark.IsZero() {
		final = "false"
	}
	stray := w + " IS NULL" // of a model that had another column for its windows
	if !j.floor.IsZero() {
		stray = "false"
	}
	leaves := fmt.Sprintf("(%s OR %s IN (SELECT w FROM work.changed))", stray, w)
	err := s.session.Exec(ctx,
		// Rows of both sides cancel each other out, as often as they occur.
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.changed AS SELECT DISTINCT __w AS w FROM (
			SELECT %s AS __w FROM (SELECT %s, 1 AS __side FROM work.fresh UNION ALL SELECT %[2]s, -1 FROM work.old)
			GROUP BY %[2]s HAVING sum(__side) <> 0) WHERE __w IS NOT NULL`, w, model),
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.revisions AS
			SELECT c.w, coalesce(max(o._revision) + CASE WHEN %s THEN 1 ELSE 0 END, 0) AS revision
			FROM work.changed AS c LEFT JOIN work.old AS o ON c.w = o.%s::TIMESTAMPTZ GROUP BY c.w`, final, duck.Quote(s.Model.Column)))
	if err != nil {
		return nil, err
	}
	replaced, err := s.session.Ints(ctx, "SELECT DISTINCT __file FROM work.old WHERE "+leaves+" ORDER BY __file")
	if err != nil {
		return nil, err
	}
	var remove []table.File
	var carried []string
	for _, i := range replaced {
		remove, carried = append(remove, affected[i]), append(carried, paths[i])
	}
	return remove, s.session.Exec(ctx, fmt.Sprintf(`CREATE OR REPLACE TABLE work.result AS
		SELECT %s, r.revision AS _revision, %s AS _computed_at
		FROM work.fresh AS f JOIN work.revisions AS r ON f.%s::TIMESTAMPTZ = r.w
		UNION ALL BY NAME
		SELECT * FROM %s WHERE %s IS NOT TRUE`,
		model, duck.Timestamp(now), duck.Quote(s.Model.Column), duck.ReadParquet(j.future.Columns(), carried), leaves))
}

// window writes the start of a gold row's window.
func (s *Stage) window() string { return duck.Quote(s.Model.Column) + "::TIMESTAMPTZ" }

// computed are the columns that the model gives.
func (s *Stage) computed(j job) []smelt.Column { return j.columns[:len(j.columns)-len(ownColumns)] }

func casts(columns []smelt.Column) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = fmt.Sprintf("%s::%s AS %s", duck.Quote(c.Name), c.Type, duck.Quote(c.Name))
	}
	return strings.Join(out, ", ")
}
