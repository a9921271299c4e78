package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/pipeline"
)

// testCmd runs pipelines' tests.
type testCmd struct {
	Names  []string `arg:"" optional:"" name:"pipeline" help:"Pipelines; all when none is named."`
	Update bool     `help:"Rewrite what test.txtar expects, in the folder of --pipelines."`
}

// Run runs each pipeline's test.txtar through the whole line in memory, and
// prints how its tables differ from what is expected.
func (c *testCmd) Run(ctx context.Context, s *settings, io *streams) error {
	if c.Update && s.Pipelines == "" {
		return usageError{errors.New("--update rewrites files: say in which folder with --pipelines DIR")}
	}
	pipelines, bad, err := s.choose(c.Names)
	if err != nil {
		return err
	}
	db, done, err := s.scratchDuck()
	if err != nil {
		return err
	}
	defer done()
	results := byPipeline(bad)
	failed := len(results)
	for _, r := range results {
		fmt.Fprintf(io.Out, "✗ %s\n%v\n", r.Pipeline, r.Faults)
	}
	for _, p := range pipelines {
		good, err := c.test(ctx, s, db, p, io.Out)
		if errors.Is(err, smelt.ErrPipeline) {
			fmt.Fprintf(io.Out, "✗ %s\n%v\n", p.Name, err)
		} else if err != nil {
			return fmt.Errorf("test %s: %w", p.Name, err)
		}
		if !good {
			failed++
		}
	}
	if failed > 0 {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("of %d pipelines, %d failed", len(pipelines)+len(results), failed))
	}
	return nil
}

// test tests one pipeline, and says how that went.
func (c *testCmd) test(ctx context.Context, s *settings, db *duck.DB, p *smelt.Pipeline, out io.Writer) (good bool, err error) {
	if p.Test == nil {
		fmt.Fprintf(out, "- %s  skipped: no test.txtar\n", p.Name)
		return true, nil
	}
	if _, err := line.Check(ctx, db, p); err != nil {
		return false, err
	}
	test, err := pipeline.ReadTest(p.Test)
	if err != nil {
		return false, err
	}
	if test.Silver == nil && test.Quarantine == nil && len(test.Gold) == 0 {
		fmt.Fprintf(out, "- %s  skipped: test.txtar expects no table: add one, such as \"-- silver.csv --\" and a line of column names; --update writes its rows\n", p.Name)
		return true, nil
	}
	diffs, err := pipetest.Run(ctx, db, p, test)
	if err != nil {
		return false, err
	}
	switch {
	case len(diffs) == 0:
		fmt.Fprintf(out, "✓ %s  %d records\n", p.Name, len(test.Records))
		return true, nil
	case c.Update:
		path := filepath.Join(s.Pipelines, filepath.FromSlash(p.Dir), "test.txtar")
		if err := os.WriteFile(path, test.Format(), 0o644); err != nil {
			return false, err
		}
		fmt.Fprintf(out, "✓ %s  %d records, %s rewritten\n", p.Name, len(test.Records), path)
		return true, nil
	}
	fmt.Fprintf(out, "✗ %s  %d records\n", p.Name, len(test.Records))
	for _, d := range diffs {
		out.Write(diff.Diff(d.Table+" want", lines(d.Want), d.Table+" got", lines(d.Got)))
	}
	return false, nil
}

func lines(rows []string) []byte {
	if len(rows) == 0 {
		return nil
	}
	return []byte(strings.Join(rows, "\n") + "\n")
}
