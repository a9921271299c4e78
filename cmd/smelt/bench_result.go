//go:build bench

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	stdio "io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// benchSample is one figure of one run. The unit is a phrase that follows the
// value: "µs of CPU an event".
type benchSample struct {
	Of    string  `json:"of"` // what it is a figure of: a stage, a program
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// benchFigure is one thing that was measured, in every run.
type benchFigure struct {
	Of   string    `json:"of"`
	Unit string    `json:"unit"`
	Runs []float64 `json:"runs"` // a value a run
}

// benchResult is what the runs of a bench have measured. It is a file of
// bench/results; docs/benchmarks.md is made from those.
type benchResult struct {
	Bench    string            `json:"bench"`    // the file's name, without .json
	About    string            `json:"about"`    // what was done, in whole sentences
	Command  string            `json:"command"`  // with which it was measured
	Date     string            `json:"date"`     // in UTC
	Machine  benchMachine      `json:"machine"`  //
	Versions map[string]string `json:"versions"` // of go, smelt, DuckDB and other programs
	Figures  []benchFigure     `json:"figures"`  // the most important one first
}

// add takes in a sample. Samples of the same figure are its runs.
func (r *benchResult) add(samples ...benchSample) {
	for _, s := range samples {
		i := slices.IndexFunc(r.Figures, func(f benchFigure) bool { return f.Of == s.Of && f.Unit == s.Unit })
		if i < 0 {
			i = len(r.Figures)
			r.Figures = append(r.Figures, benchFigure{Of: s.Of, Unit: s.Unit})
		}
		r.Figures[i].Runs = append(r.Figures[i].Runs, s.Value)
	}
}

// median is the value in the middle, or the mean of the two there.
func (f benchFigure) median() float64 {
	sorted := slices.Sorted(slices.Values(f.Runs))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// String writes the median, and the spread of several runs.
func (f benchFigure) String() string {
	text := threeDigits(f.median()) + " " + f.Unit
	if len(f.Runs) > 1 {
		text += " (" + f.spread() + ")"
	}
	return text
}

// spread writes the smallest and the largest value.
func (f benchFigure) spread() string {
	return threeDigits(slices.Min(f.Runs)) + " to " + threeDigits(slices.Max(f.Runs))
}

// print writes a line for each thing that the figures are of.
func (r *benchResult) print(out stdio.Writer) {
	for i := 0; i < len(r.Figures); {
		of, texts := r.Figures[i].Of, []string(nil)
		for ; i < len(r.Figures) && r.Figures[i].Of == of; i++ {
			texts = append(texts, r.Figures[i].String())
		}
		fmt.Fprintf(out, "%-22s %s\n", of, strings.Join(texts, ", "))
	}
}

// write puts the result into a folder, as the file of its name.
func (r *benchResult) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, r.Bench+".json"), append(text, '\n'), 0o644))
}

// readResults reads all results of a folder, in the order of their names.
func readResults(dir string) ([]benchResult, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var results []benchResult
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var r benchResult
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if want := strings.TrimSuffix(filepath.Base(path), ".json"); r.Bench != want {
			return nil, fmt.Errorf("%s: the bench is %q, want %q", path, r.Bench, want)
		}
		for _, f := range r.Figures {
			if len(f.Runs) == 0 {
				return nil, fmt.Errorf("%s: %s, %s: there are no runs", path, f.Of, f.Unit)
			}
		}
		results = append(results, r)
	}
	return results, nil
}

// benchSamples is where the runs of a bench leave their figures: a file that each
// run appends to, a sample a line. Without a name they are printed only.
type benchSamples string

// record prints the figures of a run, and keeps them.
func (file benchSamples) record(out stdio.Writer, samples ...benchSample) (err error) {
	var run benchResult
	run.add(samples...)
	run.print(out)
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(string(file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := json.NewEncoder(f)
	for _, s := range samples {
		s.Value = rounded(s.Value)
		if err := lines.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// read returns all that was recorded.
func (file benchSamples) read() (samples []benchSample, err error) {
	f, err := os.Open(string(file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := json.NewDecoder(f); ; {
		var s benchSample
		if err := lines.Decode(&s); errors.Is(err, stdio.EOF) {
			return samples, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		samples = append(samples, s)
	}
}

// rounded leaves six digits of a figure, more than it is worth.
func rounded(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow10(5 - int(math.Floor(math.Log10(math.Abs(v)))))
	return math.Round(v*scale) / scale
}

// threeDigits writes a figure with three digits, or with all that are before the point.
func threeDigits(v float64) string {
	if v == 0 {
		return "0"
	}
	before := int(math.Floor(math.Log10(math.Abs(v)))) + 1
	text := strconv.FormatFloat(v, 'f', min(max(0, 3-before), 6), 64)
	if before > 3 {
		for at := len(text) - 3; at > strings.LastIndex(text, "-")+1; at -= 3 {
			text = text[:at] + "," + text[at:]
		}
	}
	return text
}

// today is the date of a result.
func today(now time.Time) string { return now.UTC().Format(time.DateOnly) }
