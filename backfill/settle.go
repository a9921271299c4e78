package backfill

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smelt/internal/duck"
	"smelt/internal/table"
	"smelt/silver"
)

// settle finds out which rows of a piece repeat others, and what the piece means
// for quarantine.
func (j *Job) settle(ctx context.Context, t *table.Table, p *piece) error {
	if err := j.deduplicate(ctx, t, p); err != nil {
		return err
	}
	const same = "q._partition_id = work.turned._partition_id AND q._partition_offset = work.turned._partition_offset"
	const open = "(q._partition_id, q._partition_offset) NOT IN (SELECT _partition_id, _partition_offset FROM work.released)"
	return j.session.Exec(ctx,
		// What is in quarantine for this very reason stays there.
		"DELETE FROM work.turned USING work.quarantined AS q WHERE "+same+" AND "+open+
			" AND (q.reason, q.field, q.detail) IS NOT DISTINCT FROM (work.turned.reason, work.turned.field, work.turned.detail)",
		fmt.Sprintf(`INSERT INTO work.released SELECT %d, _partition_id, _partition_offset, reason FROM work.quarantined AS q WHERE %s
			AND (_partition_id, _partition_offset) IN (
				SELECT _partition_id, _partition_offset FROM work.entering UNION ALL SELECT _partition_id, _partition_offset FROM work.turned)`, p.number, open),
		fmt.Sprintf("INSERT INTO work.rejected SELECT %d, * FROM work.turned", p.number))
}

// deduplicate removes rows from a piece that duplicate others. Rows that silver has stay. So only
// rows that are new to it, or have another key or time now, can be duplicates. A row that
// leaves silver releases its duplicates.
func (j *Job) deduplicate(ctx context.Context, t *table.Table, p *piece) error {
	const lineage = "(_partition_id, _partition_offset)"
	entered := fmt.Sprintf("INSERT INTO work.entered SELECT %d, %s FROM work.candidates", p.number, j.enteredColumns())
	err := j.session.Exec(ctx,
		fmt.Sprintf(`INSERT INTO work.departed SELECT %d, _partition_id, _partition_offset, false FROM (
			SELECT _partition_id, _partition_offset FROM work.departing UNION ALL SELECT _partition_id, _partition_offset FROM work.moved)`, p.number),
		fmt.Sprintf("CREATE OR REPLACE TABLE work.candidates AS SELECT %s FROM work.entering UNION ALL SELECT %[1]s FROM work.moved", duck.Names(j.refiner.Columns())))
	if err != nil {
		return err
	}
	if len(j.Pipeline.Silver.Unique) == 0 {
		return j.session.Exec(ctx, entered)
	}
	var candidates, departed int64
	err = j.session.Row(ctx, "SELECT (SELECT count(*) FROM work.candidates), (SELECT count(*) FROM work.departing)", &candidates, &departed)
	if err != nil || candidates+departed == 0 {
		return err
	}
	p.tangled = true
	if candidates == 0 {
		return nil
	}
	err = j.refiner.Duplicates(ctx, t, silver.Fresh{Rows: "work.candidates", Records: "work.times", Beside: "work.entered", Left: "work.departed"})
	if err != nil {
		return err
	}
	const repeated = lineage + " IN (SELECT _partition_id, _partition_offset FROM work.duplicates)"
	return j.session.Exec(ctx,
		"INSERT INTO work.turned BY NAME "+silver.DuplicateRejects("work.duplicates", "work.times", j.now),
		"INSERT INTO work.departing SELECT __file, _partition_id, _partition_offset, __unmatched FROM work.differing WHERE "+repeated,
		"DELETE FROM work.differing WHERE "+repeated,
		"DELETE FROM work.entering WHERE "+repeated,
		"DELETE FROM work.candidates WHERE "+repeated,
		entered)
}

// keys are the columns by which a row is known to repeat another, each once: the
// event time may be among those that are declared.
func (j *Job) keys() []string {
	if len(j.Pipeline.Silver.Unique) == 0 {
		return nil
	}
	var keys []string
	for _, k := range append(slices.Clone(j.Pipeline.Silver.Unique), j.Pipeline.Events.Time) {
		if !slices.Contains(append(keys, "_partition_id", "_partition_offset"), k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// enteredColumns are those of work.entered, which has the rows that are new to silver.
func (j *Job) enteredColumns() string {
	var out []string
	for _, k := range append(j.keys(), "_partition_id", "_partition_offset") {
		out = append(out, duck.Quote(k))
	}
	return strings.Join(out, ", ")
}

// twins replays the duplicates of rows that leave silver, until there are none left. The first of
// them takes the row's place. It looks for duplicates of all such rows, since the stage may
// have found more in the meantime.
func (j *Job) twins(ctx context.Context, t *table.Table) error {
	if err := j.session.Exec(ctx, "UPDATE work.departed SET called = false"); err != nil {
		return err
	}
	for len(j.Pipeline.Silver.Unique) > 0 {
		err := j.session.Exec(ctx,
			"CREATE OR REPLACE TABLE work.called AS SELECT DISTINCT _partition_id || ':' || _partition_offset AS twin FROM work.departed WHERE NOT called",
			"UPDATE work.departed SET called = true")
		if err != nil {
			return err
		}
		var called int64
		if err := j.session.Row(ctx, "SELECT count(*) FROM work.called", &called); err != nil || called == 0 {
			return err
		}
		files, err := j.quarantineFiles(ctx)
		if err != nil {
			return err
		}
		duplicates := "reason = '" + silver.ReasonDuplicate + "' AND detail IN (FROM work.called)"
		if err := j.readTwins(ctx, files, duplicates); err != nil {
			return err
		}
		err = j.session.Exec(ctx, // those that this very job found to be duplicates
			"INSERT INTO work.lineage SELECT -1, _partition_id, _partition_offset, NULL FROM work.rejected WHERE "+duplicates,
			"DELETE FROM work.rejected WHERE "+duplicates)
		if err != nil {
			return err
		}
		if err := j.rebuild(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// readTwins is like readQuarantine, for records that may have been replayed before.
func (j *Job) readTwins(ctx context.Context, files []table.File, condition string) error {
	if len(files) == 0 {
		return nil
	}
	for _, f := range files {
		j.quarantined[f.Key] = true
	}
	paths, release, err := j.Area.Fetch(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	const lineage = "(_partition_id, _partition_offset)"
	return j.session.Exec(ctx,
		fmt.Sprintf(`CREATE OR REPLACE TABLE work.found AS SELECT _partition_id, _partition_offset, reason, field, detail FROM %s AS q
			WHERE %s AND %s NOT IN (SELECT _partition_id, _partition_offset FROM work.released)`, duck.ReadParquet(rejectColumns, paths), condition, lineage),
		"INSERT INTO work.lineage SELECT -1, _partition_id, _partition_offset, NULL FROM work.found",
		"INSERT INTO work.quarantined FROM work.found WHERE "+lineage+" NOT IN (SELECT _partition_id, _partition_offset FROM work.quarantined)",
		"DROP TABLE work.found")
}
