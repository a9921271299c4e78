package inspect

import (
	"fmt"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/human"
	"smelt/silver"
)

// moment is how times are shown: the broker's and the tables' have milliseconds.
const moment = "2006-01-02 15:04:05.000 UTC"

// Text writes a trace for a person to read, with ANSI colours or without.
func (t *Trace) Text(colours bool) string {
	w := &traceText{colours: colours}
	w.head(fmt.Sprintf("%s %d:%d", t.Pipeline, t.Partition, t.Offset), t.summary())
	w.record(t)
	switch t.Outcome {
	case OutcomeSilver:
		w.silver(*t.Silver)
	case OutcomeQuarantine:
		w.reject(t)
	}
	for _, g := range t.Gold {
		w.window(g)
	}
	return w.b.String()
}

// summary says in a line what became of the record.
func (t *Trace) summary() string {
	switch t.Outcome {
	case OutcomeTombstone:
		return "is a tombstone, a record without a value: neither silver nor quarantine has a row of it"
	case OutcomeWaiting:
		return fmt.Sprintf("is in bronze, and silver has not read it yet: silver is at %d:%d", t.Partition, t.Position)
	case OutcomeRetired:
		return fmt.Sprintf("is in bronze alone: its row was retired, as those of before %s are (retain: silver)", t.Retained.Format(time.DateTime+" UTC"))
	case OutcomeQuarantine:
		return "is in quarantine: " + t.Quarantine.why()
	}
	late := 0
	for _, g := range t.Gold {
		if !g.Frozen && (g.CaughtUp == nil || !*g.CaughtUp) {
			late++
		}
	}
	switch {
	case len(t.Gold) == 0:
		return "is in silver"
	case late == 0:
		return "is in silver and gold"
	case late == len(t.Gold):
		return "is in silver, and gold has not caught up yet"
	}
	return fmt.Sprintf("is in silver, and %d of %d gold tables have not caught up yet", late, len(t.Gold))
}

// why gives the reason of a reject, with the field.
func (q *TracedReject) why() string {
	reason, field := q.Row.cell("reason").Text, q.Row.cell("field")
	if field.Null {
		return printable(reason)
	}
	return printable(reason + " (" + field.Text + ")")
}

func (w *traceText) record(t *Trace) {
	o, r := t.Object, t.line.Record
	if t.Record == nil {
		w.head("bronze", fmt.Sprintf("retired: records below offset %d were removed (retain: bronze) and cannot be replayed", o.End))
		return
	}
	w.head("bronze", o.Key)
	pairs := [][2]string{
		{"object", fmt.Sprintf("%d bytes of %s, positions %d to %d: %s, offsets %d to %d", o.Bytes, o.Codec, o.Start, o.End, human.Count(o.Records, "record"), o.First, o.Last)},
		{"written", o.Written.UTC().Format(moment) + " by " + printable(o.Writer)},
		{"timestamp", "none"},
		{"key", "none"},
	}
	if r.Timestamp != smelt.NoTimestamp {
		pairs[2][1] = time.UnixMilli(r.Timestamp).UTC().Format(moment)
	}
	if r.Key != nil {
		pairs[3][1] = shortened(readable(r.Key))
	}
	for _, h := range r.Headers {
		pairs = append(pairs, [2]string{"header", shortened(readable([]byte(h.Name)) + ": " + readable(h.Value))})
	}
	w.pairs(append(pairs, [2]string{"value", value(t.line)})...)
}

// value shows a record's value, shortened.
func value(l bronze.Line) string {
	switch l.Kind {
	case bronze.KindTombstone:
		return "none: a tombstone"
	case bronze.KindOversize:
		return fmt.Sprintf("not kept: %d bytes, over the bound; SHA-256 %s", l.Size, l.SHA256)
	}
	return shortened(readable(l.Record.Value))
}

// row writes where a row is, and its cells.
func (w *traceText) row(r TracedRow, more ...[2]string) {
	pairs := append([][2]string{{"file", r.File}}, more...)
	for _, c := range r.Row {
		pairs = append(pairs, [2]string{printable(c.Column), shortened(c.shown())})
	}
	w.pairs(pairs...)
}

func (w *traceText) silver(r TracedRow) {
	w.head("silver", r.Table)
	w.row(r, [2]string{"added by", r.Snapshot.String()})
}

func (w *traceText) reject(t *Trace) {
	q := t.Quarantine
	w.head("quarantine", q.Table)
	w.row(q.TracedRow, [2]string{"added by", q.Snapshot.String()}, [2]string{"judged by", "silver's " + q.Silver.String()})
	if twin := q.Row.cell("detail"); q.Row.cell("reason").Text == silver.ReasonDuplicate && !twin.Null {
		w.pairs([2]string{"its twin", "smelt trace " + t.Pipeline + " " + twin.Text})
	}
}

func (w *traceText) window(g TracedWindow) {
	w.head("gold", fmt.Sprintf("%s: the window from %s to %s", g.Table, g.Start.Format(time.DateTime), g.End.Format(time.DateTime+" UTC")))
	if g.Snapshot == nil {
		w.pairs([2]string{"state", "not computed yet"})
		return
	}
	w.pairs(
		[2]string{"table", "at " + g.Snapshot.String()},
		[2]string{"computed", g.computed()},
		[2]string{"state", g.state()},
	)
	w.rows(g)
}

// computed says from what the window is.
func (g *TracedWindow) computed() string {
	if g.Frozen {
		return "frozen: older than what silver or gold keeps (retain:); it does not change, and later events do not count in it"
	}
	return "from silver's " + g.Silver.String() + ", " + g.progress()
}

// progress says whether the window counts the row.
func (g *TracedWindow) progress() string {
	switch {
	case g.CaughtUp == nil:
		return "which has expired: it is unknown whether it had the row"
	case *g.CaughtUp:
		return "which had the row"
	}
	return "which did not have the current row: gold catches up when the pipeline runs"
}

// state says whether the window is final, and what was done to it.
func (g *TracedWindow) state() string {
	text := "open: the watermark has not passed it"
	if g.Final {
		text = "final"
	}
	if g.Revision > 0 {
		text += fmt.Sprintf(", restated %s after it was final", times(g.Revision))
	}
	if g.ComputedAt != nil {
		text += ", its rows written " + g.ComputedAt.Format(moment)
	}
	return text
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// String writes a snapshot's id, time and operation.
func (s *TracedSnapshot) String() string {
	switch {
	case s == nil:
		return "a snapshot that has expired"
	case s.Time == nil:
		return fmt.Sprintf("snapshot %d, which has expired", s.ID)
	}
	return fmt.Sprintf("snapshot %d of %s (%s)", s.ID, s.Time.UTC().Format(moment), s.Operation)
}
