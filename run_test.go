package smelt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
)

// runner runs a line of fake stages in a bubble, and notes when they step.
type runner struct {
	t     *testing.T
	begin time.Time
	log   bytes.Buffer

	mu       sync.Mutex
	steps    map[string][]time.Duration // when each began, after the start
	observed map[string]int
	order    []string
}

// stage is a fake one: what its step does, given how many there were.
type stage struct {
	run  *runner
	name string
	do   func(ctx context.Context, n int) (smelt.Progress, error)
}

func (s *stage) Name() string { return s.name }

func (s *stage) Step(ctx context.Context) (smelt.Progress, error) {
	s.run.mu.Lock()
	n := len(s.run.steps[s.name])
	s.run.steps[s.name] = append(s.run.steps[s.name], time.Since(s.run.begin))
	s.run.order = append(s.run.order, s.name)
	s.run.mu.Unlock()
	return s.do(ctx, n)
}

func (r *runner) stage(name string, do func(ctx context.Context, n int) (smelt.Progress, error)) []smelt.Stage {
	return []smelt.Stage{&stage{r, name, do}}
}

func newRunner(t *testing.T) *runner {
	return &runner{t: t, begin: time.Now(), steps: map[string][]time.Duration{}, observed: map[string]int{}}
}

// run runs the line for so long, and returns what Run does and how long it
// took to end.
func (r *runner) run(line smelt.Line, for_ time.Duration) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), for_)
	defer cancel()
	line.Log = slog.New(slog.NewTextHandler(&r.log, nil))
	line.Observe = func(stage string, _ smelt.Progress, _ time.Duration, _ error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.observed[stage]++
	}
	err = smelt.Run(ctx, line)
	for name, steps := range r.steps {
		if r.observed[name] != len(steps) {
			r.t.Errorf("%s: %d steps, %d of them observed", name, len(steps), r.observed[name])
		}
	}
	return time.Since(r.begin) - for_, err
}

func idle(context.Context, int) (smelt.Progress, error) { return smelt.Progress{}, nil }

// takes is a step that takes some time, or until ctx ends.
func takes(d time.Duration) func(context.Context, int) (smelt.Progress, error) {
	return func(ctx context.Context, _ int) (smelt.Progress, error) {
		select {
		case <-ctx.Done():
			return smelt.Progress{}, fmt.Errorf("query: %w", ctx.Err())
		case <-time.After(d):
			return smelt.Progress{}, nil
		}
	}
}

// untilEnd is the step of an idle source: it polls until ctx ends.
func untilEnd(ctx context.Context, _ int) (smelt.Progress, error) {
	<-ctx.Done()
	return smelt.Progress{}, nil
}

// gaps are the times between steps.
func gaps(steps []time.Duration) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(steps); i++ {
		out = append(out, steps[i]-steps[i-1])
	}
	return out
}

func TestRunRefinesUntilIdleThenPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		took, err := r.run(smelt.Line{Refine: r.stage("silver", func(ctx context.Context, n int) (smelt.Progress, error) {
			time.Sleep(100 * time.Millisecond)
			return smelt.Progress{Records: 1, More: n < 3}, nil
		})}, 1800*time.Millisecond)
		want := []time.Duration{0, 100, 200, 300, 1400, 1800} // the last is the drain's
		for i := range want {
			want[i] *= time.Millisecond
		}
		if err != nil || took != 100*time.Millisecond || !slices.Equal(r.steps["silver"], want) {
			t.Errorf("%v after %s; steps at %v, want %v", err, took, r.steps["silver"], want)
		}
	})
}

// TestRunWakesReaders: silver and gold step when the stage before them has worked, and otherwise as often as the freshness
// requires.
func TestRunWakesReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		at := func(when ...time.Duration) func(context.Context, int) (smelt.Progress, error) {
			return func(ctx context.Context, n int) (smelt.Progress, error) {
				if n >= len(when) {
					return untilEnd(ctx, n)
				}
				time.Sleep(when[n] - time.Since(r.begin))
				return smelt.Progress{Records: 1}, nil
			}
		}
		readers := map[string][]string{"bronze.x": {"silver.x"}, "silver.x": {"gold.x"}}
		_, err := r.run(smelt.Line{
			Ingest: r.stage("bronze.x", at(130*time.Millisecond, 1730*time.Millisecond)),
			Refine: r.stage("silver.x", func(_ context.Context, n int) (smelt.Progress, error) {
				return smelt.Progress{Records: int64(min(n, 1))}, nil // the first finds nothing
			}),
			Refresh:   r.stage("gold.x", idle),
			Freshness: 8 * time.Second,
			Readers:   func(stage string) []string { return readers[stage] },
		}, 2500*time.Millisecond)
		ms := func(times ...time.Duration) []time.Duration {
			for i := range times {
				times[i] *= time.Millisecond
			}
			return times
		}
		silver := ms(0, 130, 1730, 2500) // woken at 130 and 1730; the drain's
		gold := ms(130, 1730, 2000, 2500)
		if err != nil || !slices.Equal(r.steps["silver.x"], silver) || !slices.Equal(r.steps["gold.x"], gold) {
			t.Errorf("%v: silver steps at %v, want %v; gold at %v, want %v", err, r.steps["silver.x"], silver, r.steps["gold.x"], gold)
		}
	})
}

func TestRunRetries(t *testing.T) {
	t.Parallel()
	const s = time.Second
	failing := func(ctx context.Context, n int) (smelt.Progress, error) {
		if n == 8 || n >= 10 {
			return smelt.Progress{}, nil
		}
		return smelt.Progress{}, smelt.Mark(smelt.ErrPipeline, errors.New("no such column"))
	}
	tests := []struct {
		name string
		line func(r *runner) smelt.Line
		want []time.Duration // the gaps at least
		tick time.Duration   // of the schedule, 0 for none
	}{
		{"ingest", func(r *runner) smelt.Line {
			return smelt.Line{Ingest: r.stage("x", func(ctx context.Context, n int) (smelt.Progress, error) {
				if n >= 10 {
					return untilEnd(ctx, n)
				}
				return failing(ctx, n)
			})}
		}, []time.Duration{s / 2, s, 2 * s, 4 * s, 5 * s, 5 * s, 5 * s, 5 * s, 0, s / 2}, 0},
		{"refine", func(r *runner) smelt.Line { return smelt.Line{Refine: r.stage("x", failing)} },
			[]time.Duration{s / 2, s, 2 * s, 4 * s, 5 * s, 5 * s, 5 * s, 5 * s, s, s / 2, s}, 0},
		{"refresh, at whole seconds", func(r *runner) smelt.Line { return smelt.Line{Refresh: r.stage("x", failing)} },
			[]time.Duration{s, s, 2 * s, 4 * s, 5 * s, 5 * s, 5 * s, 5 * s, s, s, s}, s},
		{"mend, at every other second", func(r *runner) smelt.Line { return smelt.Line{Mend: r.stage("x", failing)} },
			[]time.Duration{2 * s, 2 * s, 2 * s, 4 * s, 6 * s, 6 * s, 6 * s, 6 * s, 2 * s, 2 * s, 2 * s}, 2 * s},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRunner(t)
				_, err := r.run(tt.line(r), 2*time.Minute)
				got := gaps(r.steps["x"])
				if err != nil || len(got) < len(tt.want) {
					t.Fatalf("%v; gaps %v, want %v", err, got, tt.want)
				}
				drawn := 0
				for i, want := range tt.want {
					if got[i] < want || got[i] > want+want/4+tt.tick {
						t.Errorf("gaps %v, want %v and up to a quarter more", got, tt.want)
						break
					}
					if got[i] != want {
						drawn++
					}
				}
				if drawn == 0 && tt.tick == 0 {
					t.Errorf("gaps %v: none of them is drawn", got)
				}
				if got := strings.Count(r.log.String(), "no such column"); got != 9 {
					t.Errorf("9 errors, %d were logged:\n%s", got, &r.log)
				}
				if got := strings.Count(r.log.String(), "step succeeded again"); got != 2 {
					t.Errorf("it was well again twice, %d times were logged:\n%s", got, &r.log)
				}
			})
		})
	}
}

// TestRunSpacesRefreshes makes sure that refreshing costs a fifth of the time at
// the most, also when it fails, but for the first step, which has much to load.
func TestRunSpacesRefreshes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		slow := func(ctx context.Context, n int) (smelt.Progress, error) {
			if n < 3 { // 4 × 2s after its end, at a whole second
				time.Sleep(2 * time.Second)
			}
			if n == 1 {
				return smelt.Progress{}, errors.New("no such file")
			}
			return smelt.Progress{}, nil
		}
		_, err := r.run(smelt.Line{
			Refresh: append(r.stage("slow", slow), r.stage("quick", idle)...),
			Keep:    r.stage("keep", idle),
		}, 122500*time.Millisecond)
		const s = time.Second
		// The scheduler calls a job that has just ended once more now and then, which
		// costs a look at the tables: so the last of these gaps may be none.
		if got := gaps(r.steps["slow"])[:4]; err != nil || got[0] > 4*s || got[1] != 10*s || got[2] != 10*s || got[3] > s {
			t.Errorf("%v; gaps %v, want one of some seconds, two of 10 s, and one of a second at most", err, got)
		}
		// One a second and one at the end.
		if got := len(r.steps["quick"]); got < 122+1 || got > 122+1+12 {
			t.Errorf("the quick refresh ran %d times in 122 s, and once more at the end; want about one a second", got)
		}
		if kept := gaps(r.steps["keep"]); len(kept) < 10 || slices.Min(kept) < 9*s || slices.Max(kept) > 11*s || slices.Min(kept) == slices.Max(kept) {
			t.Errorf("keep ran after %v, want every 10 s, give or take one", kept)
		}
	})
}

// TestRunAfterAnOutage makes sure that the time for which a step waited for a service
// that was away is not taken for its cost.
func TestRunAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		const s = time.Second
		_, err := r.run(smelt.Line{Refresh: r.stage("gold", func(_ context.Context, n int) (smelt.Progress, error) {
			switch n {
			case 0:
				time.Sleep(s / 10)
				return smelt.Progress{Records: 1}, nil
			case 1:
				time.Sleep(20 * s)
				return smelt.Progress{}, smelt.Mark(smelt.ErrDatabase, errors.New("no answer"))
			case 2: // the answer comes while it waits
				time.Sleep(15 * s)
				return smelt.Progress{Records: 1}, nil
			}
			return smelt.Progress{}, nil
		})}, 60*s)
		if got := gaps(r.steps["gold"]); err != nil || len(got) < 3 || got[1] > 22*s || got[2] > 17*s {
			t.Errorf("%v; gaps %v, want the third and the fourth step within two seconds of the end of those before", err, got)
		}
	})
}

// TestRunMends: healing takes at most a fifth of the time, except for its first step. The end does not wait for it or repeat it.
func TestRunMends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		const s = time.Second
		took, err := r.run(smelt.Line{
			Ingest:  r.stage("bronze", untilEnd),
			Refresh: r.stage("gold", idle),
			Mend: r.stage("heal", func(ctx context.Context, n int) (smelt.Progress, error) {
				if n == 3 { // it is at work at the end
					return takes(time.Hour)(ctx, n)
				}
				return takes(2*s)(ctx, n) // and next 4 × 2s after its end
			}),
		}, 40*s)
		got := gaps(r.steps["heal"])
		if err != nil || took != 0 || len(got) != 3 || got[0] > 4*s || got[1] != 10*s || got[2] != 10*s {
			t.Errorf("%v, %s after the end; gaps %v, want one of some seconds, two of 10 s, and no wait at the end", err, took, got)
		}
		if strings.Contains(r.log.String(), "step failed") {
			t.Errorf("the end cut it short, which is no trouble, but was logged:\n%s", &r.log)
		}
		if got := r.order[len(r.order)-1]; got != "gold" {
			t.Errorf("the last step was that of %s, want gold's", got)
		}
	})
}

// TestRunDrains ends the line while all stages are at work: ingest puts what it
// has, and the rest follows in order.
func TestRunDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		var left atomic.Int64 // records that silver has to take
		line := smelt.Line{
			Ingest: r.stage("bronze", func(ctx context.Context, n int) (smelt.Progress, error) {
				<-ctx.Done()
				time.Sleep(time.Second) // the last put
				left.Store(3)
				return smelt.Progress{Records: 3}, nil
			}),
			Refine: r.stage("silver", func(ctx context.Context, n int) (smelt.Progress, error) {
				if left.Load() == 0 { // a step is under way when the line ends
					time.Sleep(700 * time.Millisecond)
					return smelt.Progress{}, ctx.Err()
				}
				return smelt.Progress{Records: 1, More: left.Add(-1) > 0}, nil
			}),
			Refresh: append(r.stage("gold 1", takes(1200*time.Millisecond)), r.stage("gold 2", idle)...),
		}
		took, err := r.run(line, 1500*time.Millisecond)
		if err != nil || took != 2200*time.Millisecond || left.Load() != 0 {
			t.Errorf("got %v after %s with %d records left; want all of them through after 2.2 s", err, took, left.Load())
		}
		if got, want := strings.Join(r.order[len(r.order)-5:], ", "), "silver, silver, silver, gold 1, gold 2"; got != want {
			t.Errorf("steps ended with %s; want %s", got, want)
		}
	})
}

func TestRunDrainIncomplete(t *testing.T) {
	t.Parallel()
	blocked := takes(time.Hour)
	tests := []struct {
		name string
		line func(r *runner) smelt.Line
		took time.Duration
		kind error
		want string
	}{
		{"silver is blocked", func(r *runner) smelt.Line { return smelt.Line{Refine: r.stage("silver.x", blocked)} },
			8 * time.Second, smelt.ErrDrain, "silver.x did not drain within 8s"},
		{"silver is far behind", func(r *runner) smelt.Line {
			return smelt.Line{Refine: r.stage("silver.x", func(ctx context.Context, n int) (smelt.Progress, error) {
				_, err := takes(300*time.Millisecond)(ctx, n)
				return smelt.Progress{More: true}, err
			})}
		}, 8 * time.Second, smelt.ErrDrain, "silver.x did not drain within 8s"},
		{"gold is blocked", func(r *runner) smelt.Line {
			return smelt.Line{Refine: r.stage("silver.x", idle), Refresh: r.stage("gold.x", blocked)}
		}, 8 * time.Second, smelt.ErrDrain, "did not drain within 8s"},
		{"gold is blocked and deaf", func(r *runner) smelt.Line {
			return smelt.Line{Refresh: r.stage("gold.x", func(context.Context, int) (smelt.Progress, error) {
				time.Sleep(time.Minute)
				return smelt.Progress{}, nil
			})}
		}, 51 * time.Second, smelt.ErrDrain, "gold.x did not drain within 8s"},
		{"silver fails", func(r *runner) smelt.Line {
			return smelt.Line{Refine: r.stage("silver.x", func(context.Context, int) (smelt.Progress, error) {
				return smelt.Progress{}, smelt.Mark(smelt.ErrStore, errors.New("no route to host"))
			})}
		}, 0, smelt.ErrStore, "silver.x did not drain; it continues when the pipeline runs again: no route to host"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRunner(t)
				line := tt.line(r)
				line.Ingest = r.stage("bronze.x", untilEnd)
				took, err := r.run(line, 10*time.Second)
				if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) || took != tt.took {
					t.Errorf("got %v after %s, want %s after %s", err, took, tt.want, tt.took)
				}
			})
		})
	}
}
