//go:build bench

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The page is what the command makes of the results that are committed.
func TestBenchmarksPage(t *testing.T) {
	t.Parallel()
	results, err := readResults("../../bench/results")
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := benchPage(results); string(have) != want {
		t.Errorf("docs/benchmarks.md is not what bench/results give: run scripts/bench.sh docs")
	}
}

func TestBenchResult(t *testing.T) {
	t.Parallel()
	samples := benchSamples(filepath.Join(t.TempDir(), "samples"))
	var out strings.Builder
	for _, us := range []float64{12.4, 11, 13.25} {
		err := samples.record(&out,
			benchSample{"all stages", us, "µs of CPU an event"}, benchSample{"all stages", 1e7 / us, "events/s"},
			benchSample{"silver", us - 4, "µs of CPU an event"})
		if err != nil {
			t.Fatal(err)
		}
	}
	const want = `all stages             12.4 µs of CPU an event, 806,452 events/s
silver                 8.40 µs of CPU an event
`
	if got := out.String(); !strings.HasPrefix(got, want) {
		t.Errorf("a run prints\n%s\nwant\n%s", got, want)
	}
	read, err := samples.read()
	if err != nil {
		t.Fatal(err)
	}
	r := benchResult{Bench: "drain-fleet", About: "About.", Command: "command", Date: "2026-12-01", Versions: map[string]string{"go": "1.26", "DuckDB": "1.5.5"}}
	r.add(read...)
	out.Reset()
	r.print(&out)
	const medians = `all stages             12.4 µs of CPU an event (11.0 to 13.2), 806,452 events/s (754,717 to 909,091)
silver                 8.40 µs of CPU an event (7.00 to 9.25)
`
	if got := out.String(); got != medians {
		t.Errorf("the runs print\n%s\nwant\n%s", got, medians)
	}
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	back, err := readResults(dir)
	if err != nil || len(back) != 1 || !reflect.DeepEqual(back[0], r) {
		t.Errorf("written and read again: got %+v, %v, want %+v", back, err, r)
	}
	page := benchPage(back)
	for _, want := range []string{"## drain-fleet", "| silver | µs of CPU an event | 8.40 | 7.00 to 9.25 | 3 |", "Versions: DuckDB 1.5.5, go 1.26."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// A result that says nothing, or is under another name, is not rendered.
func TestReadResultsRefuses(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]benchResult{
		"the bench is": {Bench: "other"},
		"no runs":      {Bench: "x", Figures: []benchFigure{{Of: "silver", Unit: "s"}}},
	} {
		dir := t.TempDir()
		text, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "x.json"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readResults(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}

func TestThreeDigits(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.0123: "0.0123", 0.5: "0.500", 1.284: "1.28", 12.44: "12.4", 99.96: "100.0", 814.6: "815", 5000: "5,000", 115234.5: "115,234", -1234: "-1,234", 1234567: "1,234,567",
	} {
		if got := threeDigits(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
