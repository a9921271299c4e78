package gold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/ledger"
)

// brokenWindows is how many windows must fail, with none that succeeds, before a model
// counts as broken. Fewer are held back. No table ever holds back more.
const brokenWindows = 100

// hold finds the windows of a chunk on whose rows the model throws. They are held back:
// gold keeps what it has of them. It returns the cause if no window fails alone, and an
// error if all of many windows fail.
func (s *Stage) hold(ctx context.Context, j job, c chunk, paths []string, cause error) ([]ledger.Held, error) {
	windows := c.windows
	if c.all {
		found := map[time.Time]bool{}
		if err := s.starts(ctx, s.Model.Window, c.files, found); err != nil {
			return nil, err
		}
		for w := range found {
			if !w.Before(c.from) && w.Before(c.to) {
				windows = append(windows, w)
			}
		}
		slices.SortFunc(windows, time.Time.Compare)
	}
	h := &holder{stage: s, job: j, paths: paths, cause: cause}
	if err := h.split(ctx, windows); err != nil {
		return nil, err
	}
	if len(h.held) == 0 {
		return nil, cause
	}
	s.Log.Warn("a model throws on windows; they are held back as they were", "table", s.Name(), "windows", len(h.held),
		"first", h.held[0].Start, "error", h.held[0].Error)
	return h.held, nil
}

// holder finds windows that throw, by halves.
type holder struct {
	stage *Stage
	job   job
	paths []string
	cause error
	held  []ledger.Held
	fine  int // windows that do not throw
}

// split searches windows, some of which may throw.
func (h *holder) split(ctx context.Context, windows []time.Time) error {
	if len(windows) == 0 {
		return nil
	}
	s := h.stage
	if err := s.show(ctx, h.job.silver.Columns(), h.paths, s.among(windows)); err != nil {
		return err
	}
	err := s.session.Exec(ctx, "CREATE OR REPLACE TABLE work.probe AS SELECT "+casts(s.computed(h.job))+" FROM work.model", "DROP TABLE work.probe")
	switch {
	case err == nil:
		h.fine += len(windows)
		return nil
	case !duck.Thrown(err):
		return err
	case len(windows) == 1:
		message, _, _ := strings.Cut(duck.Message(err), "\n") // the rest shows a generated statement
		h.held = append(h.held, ledger.Held{Start: windows[0], Error: message})
		if h.fine == 0 && len(h.held) >= brokenWindows {
			return smelt.Mark(smelt.ErrPipeline, fmt.Errorf("%w. Correct %s.sql: it fails on each of %d windows, such as %s",
				h.cause, s.Model.Name, len(h.held), h.held[0].Start.Format(time.DateTime)))
		}
		return nil
	}
	half := len(windows) / 2
	if err := h.split(ctx, windows[:half]); err != nil {
		return err
	}
	return h.split(ctx, windows[half:])
}

// among is the condition that a silver row lies in one of some windows.
func (s *Stage) among(windows []time.Time) string {
	at := duck.Quote(s.Pipeline.Events.Time)
	return fmt.Sprintf("%s >= %s AND %[1]s < %[3]s AND %[4]s IN (%[5]s)", at, duck.Timestamp(windows[0]),
		duck.Timestamp(windows[len(windows)-1].Add(s.Model.Window)), bucket(s.Model.Window, at), timestamps(windows))
}

// timestamps writes times as a list of SQL.
func timestamps(times []time.Time) string {
	out := make([]string, len(times))
	for i, t := range times {
		out[i] = duck.Timestamp(t)
	}
	return strings.Join(out, ", ")
}

// starts of held windows, in order.
func startsOf(held []ledger.Held) (out []time.Time) {
	for _, h := range held {
		out = append(out, h.Start)
	}
	return out
}

// without returns times that are not among others.
func without(times, others []time.Time) (rest []time.Time) {
	for _, t := range times {
		if !slices.ContainsFunc(others, t.Equal) {
			rest = append(rest, t)
		}
	}
	return rest
}

// stillHeld are the windows that are held back after a refresh: those of it, and of the
// ones before those that it did not compute again.
func (j job) stillHeld(touched []time.Time, width time.Duration) (held []ledger.Held) {
	if j.all == "" {
		for _, h := range j.before.Held {
			if !slices.ContainsFunc(touched, h.Start.Equal) && !Frozen(width, h.Start, j.floor) {
				held = append(held, h)
			}
		}
	}
	held = append(held, j.held...)
	slices.SortFunc(held, func(a, b ledger.Held) int { return a.Start.Compare(b.Start) })
	return held
}
