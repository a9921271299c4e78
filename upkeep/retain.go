package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smelt"
	"smelt/internal/human"
	"smelt/internal/table"
)

// retainEvery is how often retention runs. It usually removes a file of a day or an hour.
const retainEvery = time.Hour

// Retention is the work of a pipeline's retain:. Older rows, windows and objects are removed, and the
// ledgers record up to when.
func Retention(cfg Config) []Task {
	var tasks []Task
	if cfg.Pipeline.Retain.Bronze > 0 {
		tasks = append(tasks, retainBronze(cfg))
	}
	if cfg.Pipeline.Retain.Silver > 0 {
		tasks = append(tasks, retainSilver(cfg))
	}
	for _, m := range cfg.Pipeline.Gold {
		if cfg.Pipeline.Retain.Gold > 0 {
			tasks = append(tasks, retainGold(cfg, m))
		}
	}
	return tasks
}

// older gives the files of a table whose values of a time's column are all before
// a cutoff. One that does not say stays.
func older(files []table.File, column string, cutoff time.Time) []table.File {
	var out []table.File
	for _, f := range files {
		if _, newest, ok := f.Range(column); ok && newest.Before(cutoff) {
			out = append(out, f)
		}
	}
	return out
}

// later is the later of two times. Removed data does not return when retain: gets longer.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// newestOf loads a table and the files of its newest snapshot; a table that is not
// there, or has none, has no files.
func newestOf(ctx context.Context, lake *table.Lake, name string) (*table.Table, []table.File, error) {
	t, err := lake.Load(ctx, name)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	current, ok := t.Current()
	if !ok {
		return t, nil, nil
	}
	files, err := t.Files(ctx, current.ID)
	return t, files, err
}

// rowsOf counts the rows of files.
func rowsOf(files []table.File) (n int64) {
	for _, f := range files {
		n += f.Rows
	}
	return n
}

// sizeOf adds files up.
func sizeOf(files []table.File) (s Size) {
	for _, f := range files {
		s = s.plus(Size{1, f.Bytes})
	}
	return s
}

// goes writes what goes.
func goes(files []table.File, cutoff time.Time) string {
	return fmt.Sprintf("%s from before %s", human.Count(rowsOf(files), "row"), cutoff.UTC().Format(time.DateTime))
}

// So many files, and so many bytes of them, are on the local disk at a time.
const (
	batchFiles = 500
	batchBytes = 256 << 20
)
