// Package pipetest runs a pipeline's test.txtar through the whole line in memory, as in production. It returns where
// the tables differ from the expected ones.
package pipetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/ingest"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/sqlcheck"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
	"smelt/pipeline"
	"smelt/silver"
)

// lakeRoot is where tables lie in a lake that is in memory.
const lakeRoot = "s3://test"

// cacheBytes bounds the local copies of a test's files.
const cacheBytes = 1 << 30

// Lake is a line in memory, with the folder that its local files are in.
type Lake struct {
	Parts      line.Parts
	References *References
	Topic      *ingest.Log
	dir        string
}

// NewLake makes a lake whose topic has a number of partitions.
func NewLake(db *duck.DB, partitions int, log *slog.Logger) (*Lake, error) {
	dir, err := db.TempDir()
	if err != nil {
		return nil, err
	}
	objects := store.NewMemory()
	cache, err := store.NewCache(objects, filepath.Join(dir, "cache"), cacheBytes)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	l := &Lake{References: NewReferences(), Topic: ingest.NewLog(partitions), dir: dir}
	l.Parts = line.Parts{
		Area:       staging.Area{Store: objects, Lake: table.Open(objects, table.NewMemoryCatalog(), lakeRoot), Cache: cache},
		Duck:       db,
		References: l.References,
		Locker:     NewLocks(),
		Log:        log,
		Flush:      time.Millisecond, // a test does not wait for company
		Source: func(_ context.Context, _ *smelt.Pipeline, resume smelt.Resume) (smelt.Source, error) {
			return l.Topic.Open(resume), nil
		},
	}
	return l, nil
}

// Close removes the local files.
func (l *Lake) Close() error { return os.RemoveAll(l.dir) }

// Drain steps the stages until bronze has read the topic and gold has everything.
func Drain(ctx context.Context, l *line.Line) error {
	for {
		p, err := l.Bronze.Step(ctx)
		if err != nil {
			return err
		}
		if p.Records == 0 {
			break
		}
	}
	stages := []smelt.Stage{l.Silver}
	for _, g := range l.Gold {
		stages = append(stages, g)
	}
	for _, s := range stages {
		for more := true; more; {
			p, err := s.Step(ctx)
			if err != nil {
				return err
			}
			more = p.More
		}
	}
	return nil
}

// Diff is an expected table that came out otherwise.
type Diff struct {
	Table     string
	Want, Got []string // its rows as CSV, without the header
}

// Run runs a test and returns what differs; the test's expected tables hold the
// rows as they came out then, for the file to be rewritten.
func Run(ctx context.Context, db *duck.DB, p *smelt.Pipeline, test *pipeline.Test) ([]Diff, error) {
	lake, err := NewLake(db, partitions(test.Records), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer lake.Close()
	if err := lake.give(p, test); err != nil {
		return nil, err
	}
	l, err := line.Open(ctx, p, lake.Parts)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := Drain(ctx, l); err != nil {
		return nil, err
	}
	return lake.compare(ctx, l, test)
}

func partitions(records []smelt.Record) int {
	most := int32(0)
	for _, r := range records {
		most = max(most, r.Partition)
	}
	return int(most) + 1
}

// give puts the test's records into the topic and its reference rows in place.
func (l *Lake) give(p *smelt.Pipeline, test *pipeline.Test) error {
	l.Topic.Append(test.Records...)
	for _, t := range test.References {
		i := slices.IndexFunc(p.References, func(r smelt.Reference) bool { return r.Name == t.Name })
		if i < 0 {
			return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%s/test.txtar: reference/%s.csv is of no reference that pipeline.yml declares", p.Name, t.Name))
		}
		columns, rows := duck.Sniff(t.Columns, t.Rows, sqlcheck.TextKeys(p, p.References[i])...)
		l.References.Set(t.Name, columns, rows)
	}
	return nil
}

// compare looks at the tables that the test names.
func (l *Lake) compare(ctx context.Context, ln *line.Line, test *pipeline.Test) ([]Diff, error) {
	session, err := l.Parts.Duck.Session(ctx)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	var diffs []Diff
	check := func(expected *pipeline.TestTable, name, order string) error {
		if expected == nil {
			return nil
		}
		got, err := l.Rows(ctx, session, name, expected.Columns, order)
		if err != nil {
			return err
		}
		if want := expected.Rows; !slices.EqualFunc(want, got, slices.Equal[[]string]) {
			diffs = append(diffs, Diff{name, flat(want), flat(got)})
		}
		expected.Rows = got
		return nil
	}
	const byLineage = "_partition_id, _partition_offset"
	if err := check(test.Silver, silver.TableName(ln.Pipeline.Name), byLineage); err != nil {
		return nil, err
	}
	if err := check(test.Quarantine, silver.QuarantineName(ln.Pipeline.Name), byLineage); err != nil {
		return nil, err
	}
	for i := range test.Gold {
		if err := check(&test.Gold[i], "gold."+ln.Pipeline.Name+"_"+test.Gold[i].Name, "cells"); err != nil {
			return nil, err
		}
	}
	return diffs, nil
}

// Rows reads columns of a table, as text, in an order; a table that is not
// there has none.
func (l *Lake) Rows(ctx context.Context, session *duck.Session, name string, columns []string, order string) ([][]string, error) {
	t, err := l.Parts.Area.Lake.Load(ctx, name)
	if errors.Is(err, smelt.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	current, ok := t.Current()
	if !ok {
		return nil, nil
	}
	files, err := t.Files(ctx, current.ID)
	if err != nil {
		return nil, err
	}
	paths, release, err := l.Parts.Area.Fetch(ctx, files)
	if err != nil {
		return nil, err
	}
	defer release()
	texts := make([]string, len(columns))
	for i, c := range columns {
		texts[i] = "coalesce(" + duck.Quote(c) + "::VARCHAR, '')"
	}
	from := duck.ReadParquet(t.Columns(), paths)
	q := fmt.Sprintf("SELECT [%s] AS cells FROM %s ORDER BY %s", strings.Join(texts, ", "), from, order)
	rows, err := session.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out [][]string
	for rows.Next() {
		var cells []any
		if err := rows.Scan(&cells); err != nil {
			return nil, err
		}
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = c.(string)
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

func flat(rows [][]string) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.Join(r, ",")
	}
	return out
}
