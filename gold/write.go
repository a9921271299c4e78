package gold

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/staging"
)

// fileRows is after how many rows of a day a refresh of some windows begins another
// file, between two windows. The next refresh replaces only files with windows that
// change, so what it writes does not grow with the day. Compaction merges the files.
const fileRows = 8192

// write writes work.result: a file a day, or several of a day with many rows.
func (s *Stage) write(ctx context.Context, j job, dir string) (written []smelt.DataFile, err error) {
	var cuts []time.Time
	if j.all == "" {
		if cuts, err = s.cuts(ctx); err != nil {
			return nil, err
		}
	}
	relation := staging.Relation("work.result", j.future, j.future.Columns())
	layout := duck.Layout{
		FieldIDs:  j.future.FieldIDs(),
		Partition: duck.PartitionValues(j.future.Partition()),
		Sort:      duck.Quote(s.Model.Column),
	}
	if len(cuts) == 0 {
		return s.session.WriteParquet(ctx, relation, dir, layout)
	}
	for i := range len(cuts) + 1 {
		where := "true"
		if i < len(cuts) {
			where = "(" + s.window() + " < " + duck.Timestamp(cuts[i]) + ") IS NOT FALSE" // a carried row may be of no window
		}
		if i > 0 {
			where += " AND " + s.window() + " >= " + duck.Timestamp(cuts[i-1])
		}
		part := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(part, 0o700); err != nil {
			return nil, err
		}
		files, err := s.session.WriteParquet(ctx, fmt.Sprintf("(SELECT * FROM %s WHERE %s)", relation, where), part, layout)
		if err != nil {
			return nil, err
		}
		written = append(written, files...)
	}
	return written, nil
}

// cuts gives the windows of work.result that begin another file of their day, in
// order.
func (s *Stage) cuts(ctx context.Context) (cuts []time.Time, err error) {
	rows, err := s.session.Query(ctx, fmt.Sprintf("SELECT %s, count(*) FROM work.result WHERE %[1]s IS NOT NULL GROUP BY 1 ORDER BY 1", s.window()))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var day time.Time
	var sum int64
	for rows.Next() {
		var w time.Time
		var n int64
		if err := rows.Scan(&w, &n); err != nil {
			return nil, fmt.Errorf("rows of windows: %w", err)
		}
		switch d := Start(24*time.Hour, w); {
		case !d.Equal(day):
			day, sum = d, 0
		case sum >= fileRows:
			cuts, sum = append(cuts, w.UTC()), 0
		}
		sum += n
	}
	return cuts, rows.Err()
}
