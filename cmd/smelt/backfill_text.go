package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"smelt/backfill"
	"smelt/internal/human"
)

// planText writes a plan: a line, and one a model where there are several.
func planText(p backfill.Plan) string {
	text := fmt.Sprintf("plan: %s\n", p)
	if len(p.Windows) > 1 {
		for _, w := range p.Windows {
			text += fmt.Sprintf("      %s: %s\n", w.Table, amount(w.Windows, "window"))
		}
	}
	return text
}

// summary writes what has come of it.
func (c *backfillCmd) summary(r outcome) string {
	silver := "silver." + r.Plan.Pipeline
	switch {
	case r.Result == nil && r.Plan.Records > 0: // --plan, and the plan is printed
		return ""
	case (r.Result == nil || r.Result.Replayed+r.Result.Retired == 0) && c.ReferenceChanges:
		return "There is nothing to correct: no row was enriched with an older version of its reference.\n"
	case r.Result == nil && c.Quarantined:
		return fmt.Sprintf("There is nothing to replay: quarantine.%s has no such record.\n", r.Plan.Pipeline)
	case r.Result == nil:
		return fmt.Sprintf("There is nothing to replay: %s has no such row.\n", silver)
	case !r.Result.Differs && r.Result.Published:
		return fmt.Sprintf("Nothing differs: %s came out as before. Snapshot %d of %s only notes that all is corrected.%s\n", amount(r.Result.Replayed, "record"), r.Result.After, silver, gone(r))
	case !r.Result.Differs:
		return fmt.Sprintf("Nothing differs: %s came out as before, and nothing was committed.%s\n", amount(r.Result.Replayed, "record"), gone(r))
	}
	return changes(r)
}

// gone is the sentence about rows that could not be replayed; "" when all could.
func gone(r outcome) string {
	if r.Result.Retired == 0 {
		return ""
	}
	return " " + backfill.RetiredText(r.Result.Retired) + "."
}

// changes writes what has changed, aligned.
func changes(r outcome) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-12s%s\n", name, fmt.Sprintf(format, args...))
	}
	d := r.Result
	fmt.Fprintf(&b, "published: silver.%s, in one snapshot\n", r.Plan.Pipeline)
	line("rows", "%s → %s · %s, %s added, %s removed", human.Number(d.RowsWere), human.Number(d.Rows), amountOf(d.Differing, "differs", "differ"), human.Number(d.Entered), human.Number(d.Departed))
	if d.Retired > 0 {
		line("retired", "%s", backfill.RetiredText(d.Retired))
	}
	if len(d.Rejected)+len(d.Released) > 0 {
		line("quarantine", "in: %s · out: %s", reasons(d.Rejected), reasons(d.Released))
	}
	line("files", "%s → %s", human.Number(int64(d.Removed)), human.Number(int64(d.Added)))
	for _, w := range r.Windows {
		line("gold", "%s of %s", amount(w.Windows, "window"), w.Table)
	}
	line("snapshot", "%d → %d", d.Before, d.After)
	line("stream", "waited %.2f s", d.Pause.Seconds())
	line("took", "%.1f s; replayed %s, %s a second", r.Seconds, amount(d.Replayed, "record"), human.Number(int64(float64(d.Replayed)/max(r.replaying.Seconds(), 0.001))))
	if d.Tag != "" {
		line("old answer", `./scripts/query.sh --at %s -c "…"`, d.Tag)
	}
	return b.String()
}

// reasons writes counts by reason, the most first.
func reasons(counts map[string]int64) string {
	if len(counts) == 0 {
		return "none"
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %s", human.Number(counts[name]), name)
	}
	return strings.Join(names, ", ")
}

// amount writes a number and its noun.
func amount(n int64, noun string) string { return amountOf(n, noun, noun+"s") }

func amountOf(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return human.Number(n) + " " + many
}
