package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/line"
)

// checkCmd checks pipelines.
type checkCmd struct {
	Names []string `arg:"" optional:"" name:"pipeline" help:"Pipelines; all when none is named."`
	JSON  bool     `name:"json" help:"As JSON."`
}

// checked is what the check of one pipeline has found.
type checked struct {
	Pipeline string
	Faults   smelt.Faults
	Skipped  []string
}

// Run checks the pipelines without any service. For each it prints ok or its faults, and what could not be checked.
func (c *checkCmd) Run(ctx context.Context, s *settings, io *streams) error {
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
	for _, p := range pipelines {
		skipped, err := line.Check(ctx, db, p)
		result := checked{Pipeline: p.Name, Skipped: skipped}
		if err != nil && !errors.As(err, &result.Faults) {
			return fmt.Errorf("check %s: %w", p.Name, err)
		}
		results = append(results, result)
	}
	slices.SortFunc(results, func(a, b checked) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	if err := c.print(io.Out, results); err != nil {
		return err
	}
	faulty := 0
	for _, r := range results {
		faulty += min(len(r.Faults), 1)
	}
	if faulty > 0 {
		return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("of %s, %d have faults", amount(int64(len(results)), "pipeline"), faulty))
	}
	return nil
}

func (c *checkCmd) print(w io.Writer, results []checked) error {
	if c.JSON {
		return printJSON(w, results)
	}
	for _, r := range results {
		if len(r.Faults) == 0 {
			fmt.Fprintf(w, "✓ %s\n", r.Pipeline)
		} else {
			fmt.Fprintf(w, "✗ %s\n%v\n", r.Pipeline, r.Faults)
		}
		for _, skipped := range r.Skipped {
			fmt.Fprintf(w, "skipped: %s\n", skipped)
		}
	}
	return nil
}

// printJSON prints a list with an object a pipeline.
func printJSON(w io.Writer, results []checked) error {
	type fault struct {
		File    string `json:"file"`
		Line    int    `json:"line,omitempty"`
		Col     int    `json:"column,omitempty"`
		Message string `json:"message"`
	}
	type result struct {
		Pipeline string   `json:"pipeline"`
		Good     bool     `json:"good"`
		Faults   []fault  `json:"faults,omitempty"`
		Skipped  []string `json:"skipped,omitempty"`
	}
	out := make([]result, len(results))
	for i, r := range results {
		out[i] = result{Pipeline: r.Pipeline, Good: len(r.Faults) == 0, Skipped: r.Skipped}
		for _, f := range r.Faults {
			out[i].Faults = append(out[i].Faults, fault(f))
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}

// choose reads the named pipelines, or all, and the faults of those that cannot be read.
func (s *settings) choose(names []string) ([]*smelt.Pipeline, smelt.Faults, error) {
	pipelines, err := s.pipelines()
	var faults smelt.Faults
	if err != nil && !errors.As(err, &faults) {
		return nil, nil, err
	}
	if len(names) == 0 {
		return pipelines, faults, nil
	}
	var known []string
	for _, p := range pipelines {
		known = append(known, p.Name)
	}
	for _, r := range byPipeline(faults) {
		known = append(known, r.Pipeline)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, nil, usageError{fmt.Errorf("there is no pipeline %q%s", name, smelt.DidYouMean(name, known...))}
		}
	}
	pipelines = slices.DeleteFunc(pipelines, func(p *smelt.Pipeline) bool { return !slices.Contains(names, p.Name) })
	faults = slices.DeleteFunc(faults, func(f smelt.Fault) bool { return !slices.Contains(names, folderOf(f)) })
	return pipelines, faults, nil
}

// folderOf is the folder, and so the pipeline, that a fault is in.
func folderOf(f smelt.Fault) string {
	folder, _, _ := strings.Cut(f.File, "/")
	return folder
}

// byPipeline gathers faults by pipeline.
func byPipeline(faults smelt.Faults) []checked {
	var results []checked
	for _, f := range faults {
		i := slices.IndexFunc(results, func(r checked) bool { return r.Pipeline == folderOf(f) })
		if i < 0 {
			i = len(results)
			results = append(results, checked{Pipeline: folderOf(f), Skipped: []string{"all SQL: the pipeline could not be read"}})
		}
		results[i].Faults = append(results[i].Faults, f)
	}
	return results
}

// scratchDuck opens a DuckDB whose files are in no state folder, for commands
// that have no need of one.
func (s *settings) scratchDuck() (db *duck.DB, done func(), err error) {
	dir, err := os.MkdirTemp("", "smelt-")
	if err != nil {
		return nil, nil, err
	}
	db, err = duck.Open(duck.Config{MemoryBytes: int64(s.Memory), TempDir: dir})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return db, func() {
		db.Close()
		os.RemoveAll(dir)
	}, nil
}
