package table

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"smelt"
)

// nearTags is how many tags an error names that says that a time is too long
// ago.
const nearTags = 6

// Resolve finds a snapshot by its id, by the name of a tag or a branch, or by a time, which means what main
// was then. A time is RFC 3339, or 2026-11-29 22:45:01, 2026-11-29T22:45 or 2026-11-29, in UTC, or a
// duration ago: 90m, 2h, 7d. A time in whole seconds means the end of that second, so that the time of a
// snapshot finds it. It fails with smelt.ErrNotFound and lists what exists.
func (t *Table) Resolve(at string) (Snapshot, error) {
	if id, err := strconv.ParseInt(at, 10, 64); err == nil {
		if s, ok := t.Snapshot(id); ok {
			return s, nil
		}
	}
	if id, ok := t.Refs()[at]; ok {
		if s, ok := t.Snapshot(id); ok {
			return s, nil
		}
	}
	now := time.Now()
	when, ok := ParseTime(at, now)
	if !ok {
		return Snapshot{}, notFound("%s has no snapshot or tag %q, and it is not a time, such as 2026-11-29 22:45:01 in UTC or 2h for two hours ago%s",
			t.name, at, smelt.DidYouMean(at, t.tags()...))
	}
	if when.After(now) {
		return Snapshot{}, notFound("%s: %s is yet to come", t.name, when.Format(time.RFC3339))
	}
	end := when
	if when.Nanosecond() == 0 {
		end = when.Add(time.Second - 1)
	}
	s, ok := t.asOf(end)
	if !ok {
		return Snapshot{}, notFound("%s", t.tooEarly(when))
	}
	return s, nil
}

func notFound(format string, args ...any) error {
	return smelt.Mark(smelt.ErrNotFound, fmt.Errorf(format, args...))
}

// Arrival is a move of main: by a commit, or by a rollback.
type Arrival struct {
	Snapshot int64
	Time     time.Time // of a commit that of its snapshot
}

// Arrivals returns the snapshots that main was at, in order, as far back as
// that is known without a gap.
func (t *Table) Arrivals() []Arrival {
	var out []Arrival
	for e := range t.ice.Metadata().SnapshotLogs() {
		out = append(out, Arrival{e.SnapshotID, time.UnixMilli(e.TimestampMs).UTC()})
	}
	return out
}

// asOf returns the snapshot that main was at, unless that has expired.
func (t *Table) asOf(when time.Time) (Snapshot, bool) {
	arrivals := t.Arrivals()
	for _, a := range slices.Backward(arrivals) {
		if !a.Time.After(when) {
			return t.Snapshot(a.Snapshot)
		}
	}
	// If the first known state of main is left, main was at one of its ancestors then. That does not hold if
	// main was moved back, or if a snapshot came between the ancestor and its child; a missing sequence
	// number shows that.
	chain := t.Ancestors()
	if len(arrivals) > 0 {
		chain = t.AncestorsOf(arrivals[0].Snapshot)
	}
	for i, s := range chain {
		if s.Time.After(when) {
			continue
		}
		known := i == 0 && len(arrivals) == 0 || i > 0 && chain[i-1].Sequence-s.Sequence <= 1
		return s, known
	}
	return Snapshot{}, false
}

// tooEarly says from when on there is something, and which tags are near a time.
func (t *Table) tooEarly(when time.Time) string {
	first, ok := t.first()
	if !ok {
		return t.name + " has no snapshot yet"
	}
	text := fmt.Sprintf("%s has no snapshot of %s, or it has expired: every state of the table is there from %s on",
		t.name, when.Format(time.RFC3339), first.Format(time.RFC3339Nano))
	type near struct {
		name string
		at   time.Time
	}
	var tags []near
	for _, ref := range t.Names() {
		if s, ok := t.Snapshot(ref.Snapshot); ok && !ref.Branch && s.Time.Before(first) {
			tags = append(tags, near{ref.Name, s.Time})
		}
	}
	if len(tags) == 0 {
		return text
	}
	slices.SortFunc(tags, func(a, b near) int { return cmp.Compare(a.at.Sub(when).Abs(), b.at.Sub(when).Abs()) })
	tags = tags[:min(len(tags), nearTags)]
	slices.SortFunc(tags, func(a, b near) int { return a.at.Compare(b.at) })
	names := make([]string, len(tags))
	for i, tag := range tags {
		names[i] = fmt.Sprintf("%s (%s)", tag.name, tag.at.Format(time.RFC3339))
	}
	return text + "; of before, tags keep " + strings.Join(names, ", ")
}

// first returns from when on each state of main is there.
func (t *Table) first() (time.Time, bool) {
	if arrivals := t.Arrivals(); len(arrivals) > 0 {
		return arrivals[0].Time, true
	}
	chain := t.Ancestors()
	if len(chain) == 0 {
		return time.Time{}, false
	}
	return chain[len(chain)-1].Time, true
}

// ParseTime reads a time as Resolve takes it: in UTC unless it has a zone, or a
// duration ago.
func ParseTime(text string, now time.Time) (time.Time, bool) {
	for _, layout := range []string{
		time.RFC3339, "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05Z07:00", // as engines print it
		time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly,
	} {
		if when, err := time.Parse(layout, text); err == nil {
			return when.UTC(), true
		}
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16) // 179 years at most
		return now.UTC().AddDate(0, 0, -int(n)), err == nil
	}
	ago, err := time.ParseDuration(text)
	return now.Add(-ago).UTC(), err == nil && ago >= 0
}
