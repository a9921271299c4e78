package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"smelt/bronze"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/human"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

const (
	// slowSeconds is how long a record may wait before a stage that runs is said
	// to be slow: many times what a step usually takes.
	slowSeconds = 60

	// recently is how far back quarantine is said to grow.
	recently = 10 * time.Minute
)

// Commands that troubles name.
const (
	start    = "./scripts/start.sh"
	settings = "./bin/smelt config"
)

// trouble says what is wrong, the root of the matter first.
func (g *gathering) trouble() {
	if !g.Running {
		g.say(start, "The pipeline is not running.")
	}
	g.unreachable()
	g.fails()
	if g.sourceErr == nil && g.endsErr == nil {
		g.sourceTrouble()
	}
	if g.Running {
		g.slow()
	}
	if g.tablesErr == nil {
		g.tableTrouble()
	}
	if g.groupErr != nil && g.sourceErr == nil {
		g.say(settings, "Which processes run it is not known: %v.", g.groupErr)
	}
	if g.dueErr != nil {
		g.say(settings, "When maintenance comes next is not known: %v.", g.dueErr)
	}
}

// unreachable names the services that do not answer, each once.
func (g *gathering) unreachable() {
	seen := map[string]bool{}
	for _, e := range []struct {
		err  error
		what string
	}{{g.sourceErr, "The source"}, {g.endsErr, "Bronze"}, {g.tablesErr, "The tables"}} {
		if e.err != nil && !seen[e.err.Error()] {
			seen[e.err.Error()] = true
			g.say(cmp.Or(g.Restore, settings), "%s cannot be read: %v.", e.what, e.err)
		}
	}
}

// fails says what keeps stages from getting on, each reason once. Partitions that are
// stopped have words of their own.
func (g *gathering) fails() {
	seen := map[string]bool{}
	for _, s := range g.Stages {
		why := g.failing[s.Table]
		stopped := slices.ContainsFunc(g.stops, func(stop *bronze.Stop) bool { return strings.HasPrefix(why, stop.What()+":") })
		if why != "" && !stopped && !seen[why] {
			seen[why] = true
			g.say("./bin/smelt status --watch", "%s does not get on: %s.", s.Table, strings.TrimSuffix(why, "."))
		}
	}
	if g.failErr != nil {
		g.say(settings, "Whether the stages get on is not known: %v.", g.failErr)
	}
}

// sourceTrouble reports the partitions that wait for a decision, and the choices.
func (g *gathering) sourceTrouble() {
	for i, stop := range g.stops {
		if same := func(o *bronze.Stop) bool { return o.Misfit == stop.Misfit }; slices.IndexFunc(g.stops, same) == i {
			more := ""
			for _, o := range g.stops[i+1:] {
				if same(o) {
					more += fmt.Sprintf(", %d", o.Partition)
				}
			}
			if more != "" {
				more = " The same goes for partition" + more[1:] + "."
			}
			g.say("./bin/"+stop.Command(), "Partition %d of topic %s is not read: %s.%s", stop.Partition, g.pipeline.Topic, stop.Wrong(), more)
		}
	}
	held := int64(0)
	for _, extent := range g.source.Partitions {
		held += extent.End - extent.Start
	}
	if held == 0 && chainRecords(g.ends) == 0 {
		g.say("./bin/smelt generate", "There is nothing in topic %s, and so nothing in bronze.", g.pipeline.Topic)
	}
}

// slow names the stage in which records wait for long, though it runs.
func (g *gathering) slow() {
	for _, s := range g.Stages {
		if s.Table == g.Blame && *s.LagSeconds > slowSeconds {
			g.say("./bin/smelt status --watch", "%d wait for %s, for up to %s: unless that is getting less, the log of smelt run says why.",
				*s.LagRecords, s.Table, age(*s.LagSeconds))
		}
	}
}

// tableTrouble looks at what the tables and their ledgers say.
func (g *gathering) tableTrouble() {
	name := g.pipeline.Name
	g.clockTrouble()
	if g.Receipt != nil && !g.Receipt.OK {
		g.say("./bin/smelt verify "+name, "The counts do not add up: %s.", g.Receipt)
	}
	for _, t := range g.tables.gold {
		if t.recorded && t.ledger.Model != gold.Digest(t.model) {
			g.say(start, "%s was computed by another version of %s.sql; the pipeline computes it again when it runs.", t.name, t.model.Name)
		}
	}
	for _, t := range g.tables.gold {
		if n := len(t.ledger.Held); n > 0 {
			first := t.ledger.Held[0]
			g.say(query(fmt.Sprintf("FROM silver.%s WHERE %s BETWEEN '%s' AND '%s' LIMIT 10", name, duck.Quote(g.pipeline.Events.Time),
				first.Start.Format(time.DateTime+"Z07:00"), first.Start.Add(t.model.Window).Format(time.DateTime+"Z07:00"))),
				"%s holds back %s, because %s.sql throws on the rows: window %s, %s. Correct the SQL or the rows.",
				t.name, human.Count(int64(n), "window"), t.model.Name, first.Start.Format("2006-01-02 15:04"), first.Error)
		}
	}
	if reasons := g.recentRejects(); len(reasons) > 0 {
		g.say(query("SELECT reason, field, raw FROM quarantine."+name+" ORDER BY quarantined_at DESC LIMIT 10"),
			"Quarantine is growing: in the last %d minutes %s.", int(recently.Minutes()), byReason(reasons))
	}
	if n := g.tables.silverLedger.Unmatched; n > 0 {
		g.say(query("SELECT _unmatched, count(*) FROM silver."+name+" WHERE _unmatched IS NOT NULL GROUP BY ALL"),
			"%s of silver.%s found no reference row.", human.Count(n, "row"), name)
	}
	g.staleTrouble()
}

// clockTrouble says that this machine's clock is behind what was done to a table, for
// which commits wait, or fail.
func (g *gathering) clockTrouble() {
	var name string
	var back time.Duration
	for _, t := range g.tables.all() {
		if b := t.ClockBack(g.tablesAt); b > back {
			name, back = t.Name(), b
		}
	}
	if back >= table.TellClockBack {
		g.say("date -u", "This machine's clock is %s behind the last change of %s, at %s: commits made here wait until it is past that, or fail where it is more than a minute.",
			age(back.Seconds()), name, g.tablesAt.Add(back).UTC().Format(time.RFC3339))
	}
}

// recentRejects counts what silver has rejected lately, by reason.
func (g *gathering) recentRejects() map[string]int64 {
	reasons := map[string]int64{}
	if g.tables.silver == nil {
		return reasons
	}
	var after map[string]int64 // of the snapshot that came next
	add := func(before map[string]int64) {
		for reason, n := range after {
			if more := n - before[reason]; more > 0 {
				reasons[reason] += more
			}
		}
	}
	for _, s := range g.tables.silver.Ancestors() {
		l, ok, err := ledger.Of[ledger.Silver](s)
		if err != nil || !ok {
			continue
		}
		add(l.Quarantined)
		if after = l.Quarantined; g.now.Sub(s.Time) > recently {
			return reasons
		}
		if s.Parent == 0 {
			add(nil)
		}
	}
	return reasons
}

// query is the command that runs a statement.
func query(sql string) string { return fmt.Sprintf("./scripts/query.sh -c %q", sql) }

// byReason writes counts, the greatest first.
func byReason(reasons map[string]int64) string {
	order := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	for i, reason := range order {
		order[i] = fmt.Sprintf("%s %d", reason, reasons[reason])
	}
	return strings.Join(order, ", ")
}
