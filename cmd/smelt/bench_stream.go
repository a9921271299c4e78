//go:build bench

package main

import (
	"bufio"
	"context"
	"fmt"
	stdio "io"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/inspect"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
)

const (
	// sampleEvery is how often the stream's freshness is looked at.
	sampleEvery = 500 * time.Millisecond

	// benchFresh is how old the newest event in gold may be before the stream counts
	// as live, and benchLive how long that may take.
	benchFresh = 10 * time.Second
	benchLive  = 2 * time.Minute
)

// stream is a pipeline that runs in another process, as seen from outside.
type stream struct {
	settings *settings
	lake     *lake
	pipeline *smelt.Pipeline
}

// openStream looks at the first pipeline.
func (s *settings) openStream(ctx context.Context) (*stream, error) {
	pipelines, err := s.pipelines()
	if err != nil {
		return nil, err
	}
	l, err := s.openLake(ctx)
	return &stream{s, l, pipelines[0]}, err
}

// live waits until the stream has caught up.
func (s *stream) live(ctx context.Context) error {
	waiting, stop := context.WithTimeout(ctx, benchLive)
	defer stop()
	for {
		r, err := inspect.Count(waiting, s.lake.Store, s.lake.Tables, s.pipeline, time.Now())
		if err != nil {
			return err
		}
		if r.FreshSeconds != nil && *r.FreshSeconds < benchFresh.Seconds() {
			return nil
		}
		if !pause(waiting, sampleEvery) {
			return fmt.Errorf("gold is not fresh after %s: does the stream run?", benchLive)
		}
	}
}

// ask runs a query over silver's rows.
func (s *stream) ask(ctx context.Context, query string, dest ...any) error {
	db, err := s.settings.openDuck("bench")
	if err != nil {
		return err
	}
	defer db.Close()
	parts, err := s.settings.parts(s.lake, db, "bench", newLog(stdio.Discard))
	if err != nil {
		return err
	}
	return askRows(ctx, parts, silver.TableName(s.pipeline.Name), query, dest...)
}

// observed is how the stream was while something went on.
type observed struct {
	from, to time.Time
	steps    steps     // of silver that did something
	fresh    []float64 // ages of the newest event in gold, in seconds, sorted
	gaps     []time.Duration
}

// observe watches the stream while something goes on.
func (s *stream) observe(ctx context.Context, during func() error) (o observed, err error) {
	before, err := s.steps(ctx)
	if err != nil {
		return o, err
	}
	sampling, stop := context.WithCancel(ctx)
	samples := make(chan []float64, 1)
	go func() { samples <- s.sample(sampling) }()
	o.from = time.Now()
	err = during()
	o.to = time.Now()
	stop()
	if o.fresh = <-samples; err != nil {
		return o, err
	}
	after, err := s.steps(ctx)
	if err != nil {
		return o, err
	}
	o.steps = after.since(before)
	o.gaps, err = s.gaps(ctx, o.from, o.to)
	return o, err
}

// sample gives the freshness of gold, again and again until ctx ends.
func (s *stream) sample(ctx context.Context) (fresh []float64) {
	for {
		r, err := inspect.Count(ctx, s.lake.Store, s.lake.Tables, s.pipeline, time.Now())
		if err == nil && r.FreshSeconds != nil {
			fresh = append(fresh, *r.FreshSeconds)
		}
		if !pause(ctx, sampleEvery) {
			slices.Sort(fresh)
			return fresh
		}
	}
}

// gaps are the times between the stream's own commits to silver that overlap the span between two times. A gap that goes on
// counts up to the second time.
func (s *stream) gaps(ctx context.Context, from, to time.Time) (gaps []time.Duration, err error) {
	t, err := s.silver(ctx)
	if err != nil {
		return nil, err
	}
	later := to
	for _, a := range t.Ancestors() {
		if a.Summary[ledger.BackfillID] != "" {
			continue
		}
		if later.After(from) && a.Time.Before(to) {
			gaps = append(gaps, later.Sub(a.Time))
		}
		later = a.Time
	}
	slices.Sort(gaps)
	return gaps, nil
}

func (s *stream) silver(ctx context.Context) (*table.Table, error) {
	return s.lake.Tables.Load(ctx, silver.TableName(s.pipeline.Name))
}

// steps are what the metrics of smelt run say of silver's steps.
type steps struct {
	count, seconds float64
	upTo           map[float64]float64 // steps by the most seconds that they took
}

// steps reads the metrics.
func (s *stream) steps(ctx context.Context) (st steps, err error) {
	response, err := s.settings.askRun(ctx, "/metrics")
	if err != nil {
		return st, err
	}
	defer response.Body.Close()
	st.upTo = map[float64]float64{}
	of := fmt.Sprintf("{table=%q", silver.TableName(s.pipeline.Name))
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line, ours := strings.CutPrefix(lines.Text(), "smelt_step_duration_seconds_")
		kind, rest, found := strings.Cut(line, of)
		if !ours || !found {
			continue
		}
		var bound, value float64
		switch kind {
		case "count":
			_, err = fmt.Sscanf(rest, "} %g", &st.count)
		case "sum":
			_, err = fmt.Sscanf(rest, "} %g", &st.seconds)
		case "bucket":
			if _, err = fmt.Sscanf(strings.NewReplacer(`,le="`, "", `"}`, "").Replace(rest), "%g %g", &bound, &value); err == nil {
				st.upTo[bound] = value
			}
		}
		if err != nil {
			return st, fmt.Errorf("metrics: %q: %w", lines.Text(), err)
		}
	}
	return st, nil
}

// since are the steps that came after others.
func (st steps) since(before steps) steps {
	out := steps{st.count - before.count, st.seconds - before.seconds, map[float64]float64{}}
	for bound, n := range st.upTo {
		out.upTo[bound] = n - before.upTo[bound]
	}
	return out
}

// longest is what no step took longer than.
func (st steps) longest() (seconds float64) {
	bounds := make([]float64, 0, len(st.upTo))
	for bound := range st.upTo {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	for _, bound := range bounds {
		if seconds = bound; st.upTo[bound] >= st.count {
			break
		}
	}
	return seconds
}

// longestGap is the longest time between two commits; 0 when there were no two.
func (o observed) longestGap() time.Duration {
	if len(o.gaps) == 0 {
		return 0
	}
	return o.gaps[len(o.gaps)-1]
}

// String writes what was observed as one line.
func (o observed) String() string {
	text := fmt.Sprintf("%.0f silver steps of %.2f s, none above %.2f s", o.steps.count, o.steps.seconds/max(o.steps.count, 1), o.steps.longest())
	if n := len(o.gaps); n > 0 {
		text += fmt.Sprintf("; a commit every %.1f s, the longest gap %.1f s", o.gaps[n/2].Seconds(), o.gaps[n-1].Seconds())
	}
	if n := len(o.fresh); n > 0 {
		text += fmt.Sprintf("; gold fresh %.1f s, at most %.1f s", o.fresh[n/2], o.fresh[n-1])
	}
	return text
}
