package inspect

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"smelt/internal/human"
)

// partitionsShown is how many positions a line has room for.
const partitionsShown = 6

// Text writes a status for a person to read, with ANSI colours or without.
func (s *Status) Text(colours bool) string {
	paint := func(code, text string) string {
		if !colours {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	const bold, red, green, yellow = "1", "31", "32", "33"
	var b strings.Builder
	state := paint(red, "stopped")
	if s.Running {
		state = paint(green, "running")
	}
	fmt.Fprintf(&b, "%s  %s%s\n", paint(bold, s.Pipeline), state, s.freshness())
	b.WriteString(s.stageTable())
	if len(s.Processes) > 1 || len(s.Processes) == 1 && !s.here {
		for _, p := range s.Processes {
			fmt.Fprintf(&b, "  %s\n", p)
		}
	}
	if len(s.Tables) > 0 {
		b.WriteString(s.healthTable())
	}
	if len(s.Quarantined) > 0 {
		fmt.Fprintf(&b, "  quarantined: %s\n", byReason(s.Quarantined))
	}
	if s.Unmatched != nil && *s.Unmatched > 0 {
		fmt.Fprintf(&b, "  unmatched: %s\n", human.Count(*s.Unmatched, "row"))
	}
	for _, r := range s.Stale {
		if r.Rows > 0 {
			fmt.Fprintf(&b, "  stale by %s: %s\n", r.Reference, strings.ToLower(r.rows()))
		}
	}
	if s.LastBackfill != nil {
		fmt.Fprintf(&b, "  last backfill: %s\n", s.LastBackfill)
	}
	if s.Receipt != nil {
		fmt.Fprintf(&b, "  %s\n", s.Receipt)
	}
	for _, stage := range s.Stages {
		if stage.Unknown != "" && !s.told(stage.Unknown) {
			fmt.Fprintf(&b, "  %s %s: %s\n", paint(yellow, "?"), stage.Table, stage.Unknown)
		}
	}
	for _, t := range s.Trouble {
		fmt.Fprintf(&b, "  %s %s\n      %s\n", paint(red, "!"), t.Message, t.Command)
	}
	return b.String()
}

// String says what a process works on.
func (p Process) String() string {
	reads := "no partition"
	if len(p.Partitions) > 0 {
		reads = "partitions " + strings.Trim(fmt.Sprint(p.Partitions), "[]")
	}
	text := fmt.Sprintf("process %s on %s reads %s", p.Name, p.Host, reads)
	if len(p.Tables) > 0 {
		text += "; the last step of " + strings.Join(p.Tables, ", ") + " was its"
	}
	return text
}

// told says whether a reported trouble includes a reason.
func (s *Status) told(reason string) bool {
	return slices.ContainsFunc(s.Trouble, func(t Trouble) bool { return strings.Contains(t.Message, reason) })
}

// freshness says how old the newest event in gold is, and which stage waits.
func (s *Status) freshness() string {
	if s.FreshSeconds == nil {
		return ""
	}
	text := "  fresh " + age(*s.FreshSeconds)
	for _, stage := range s.Stages {
		if stage.Table == s.Blame {
			text += fmt.Sprintf(", held up by %s (%s)", s.Blame, age(*stage.LagSeconds))
		}
	}
	return text
}

// stageTable writes a line a stage.
func (s *Status) stageTable() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  table\trows\tnewest\tbehind\tposition")
	for _, stage := range s.Stages {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", stage.Table, known(stage.Rows), stage.newest(), stage.behind(), stage.position())
	}
	w.Flush()
	return trimmed(b.String())
}

// trimmed takes the blanks away that pad the last column.
func trimmed(table string) string {
	var out strings.Builder
	for line := range strings.Lines(table) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}

// known writes a number, or a question mark.
func known[N int | int64](n *N) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

func (s *StageStatus) newest() string {
	switch {
	case s.Newest != nil:
		return s.Newest.UTC().Format(time.DateTime)
	case s.Unknown != "":
		return "?"
	}
	return "-"
}

func (s *StageStatus) behind() string {
	text := known(s.LagRecords)
	if s.LagRecords != nil && *s.LagRecords > 0 && s.LagSeconds != nil {
		text += " (" + age(*s.LagSeconds) + ")"
	}
	return text
}

// position writes partition:offset of the first few partitions.
func (s *StageStatus) position() string {
	var out []string
	for i, p := range s.Partitions {
		if i == partitionsShown {
			out = append(out, fmt.Sprintf("and %d more", len(s.Partitions)-i))
			break
		}
		out = append(out, fmt.Sprintf("%d:%d", p.Partition, p.Position))
	}
	return strings.Join(out, " ")
}
