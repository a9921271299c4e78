//go:build bench

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// benchPublishCmd makes a result from the recorded runs of a bench.
type benchPublishCmd struct {
	Bench    string            `arg:"" help:"The result's name."`
	About    string            `required:"" help:"What was done, in whole sentences."`
	Command  string            `required:"" help:"With which it was measured."`
	Commit   string            `required:"" help:"Of smelt."`
	Versions map[string]string `placeholder:"NAME=VERSION" help:"Versions of other programs."`
	Dir      string            `required:"" help:"Folder of results."`
}

// Run prints medians with their spread, and writes the result.
func (c *benchPublishCmd) Run(ctx context.Context, s *settings, io *streams, bench *benchCmd) error {
	samples, err := bench.Samples.read()
	if err != nil {
		return err
	}
	if len(samples) == 0 {
		return fmt.Errorf("%s: nothing was recorded", bench.Samples)
	}
	r := benchResult{Bench: c.Bench, About: c.About, Command: c.Command, Date: today(time.Now()), Versions: map[string]string{
		"go": strings.TrimPrefix(runtime.Version(), "go"), "smelt": c.Commit,
	}}
	maps.Copy(r.Versions, c.Versions)
	r.add(samples...)
	if r.Machine, err = thisMachine(); err != nil {
		return err
	}
	if r.Versions["DuckDB"], err = s.duckVersion(ctx); err != nil {
		return err
	}
	if n := len(r.Figures[0].Runs); n > 1 {
		fmt.Fprintf(io.Out, "-- %s: medians of %d, with the spread\n", c.Bench, n)
		r.print(io.Out)
	}
	return r.write(c.Dir)
}

// duckVersion asks DuckDB for its version.
func (s *settings) duckVersion(ctx context.Context) (version string, err error) {
	db, done, err := s.scratchDuck()
	if err != nil {
		return "", err
	}
	defer done()
	session, err := db.Session(ctx)
	if err != nil {
		return "", err
	}
	defer session.Close()
	err = session.Row(ctx, "SELECT version()", &version)
	return strings.TrimPrefix(version, "v"), err
}

// benchDocsCmd makes the page of benchmarks.
type benchDocsCmd struct {
	Dir  string `arg:"" help:"Folder of results."`
	Page string `arg:"" help:"The page to write."`
}

// Run writes the page.
func (c *benchDocsCmd) Run() error {
	results, err := readResults(c.Dir)
	if err != nil {
		return err
	}
	return os.WriteFile(c.Page, []byte(benchPage(results)), 0o644)
}

// benchMethod is what holds for all results.
const benchMethod = `# Benchmarks

` + "`scripts/bench.sh docs`" + ` makes this page from the results in [bench/results](../bench/results), which hold every run. Each command below
repeats its measurement.

## Method

- Everything runs on one machine: the process that is measured, the generator, and the embedded Kafka, S3 and PostgreSQL, unless a bench says otherwise.
  Each run has a new, empty stack.
- CPU is user and system time of the measured process alone, as the kernel counts it. The stack and the generator are left out.
- An event is a record of the topic, duplicates and invalid ones included. Raw JSON is the records' values, uncompressed. 1 MB is 1,000,000 bytes.
- Peak RSS is the most memory that the process has held, as the kernel counts it.
- A figure is the median of its runs. The spread is the smallest and the largest run.

## Limits

- The machine is small and has neighbours: events a second depend on both, CPU an event depends on them less. Differences under 0.2 µs of CPU an event
  are noise.
- The embedded Kafka and S3 answer from the same machine. A network between them adds latency, and costs CPU for TLS.
- The events are generated. Real ones have more devices and other values, and so compress differently.
- The embedded Kafka and S3 do not wait for the disk (no fsync), so its speed hardly shows.
`

// benchPage renders results as a page.
func benchPage(results []benchResult) string {
	var b strings.Builder
	b.WriteString(benchMethod)
	for _, r := range results {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```\n%s\n```\n\n", r.Bench, r.About, r.Command)
		b.WriteString("| of | figure | median | spread | runs |\n|---|---|--:|---|--:|\n")
		for _, f := range r.Figures {
			spread := ""
			if len(f.Runs) > 1 {
				spread = f.spread()
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %d |\n", f.Of, f.Unit, threeDigits(f.median()), spread, len(f.Runs))
		}
		var versions []string
		for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
			versions = append(versions, name+" "+r.Versions[name])
		}
		fmt.Fprintf(&b, "\n%s, on %s. Versions: %s.\n", r.Date, r.Machine, strings.Join(versions, ", "))
	}
	return b.String()
}
