package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// chore is something that a person does to the lake.
type chore string

const (
	choreCorrect  chore = "correction: reference rows and backfill"
	choreArrive   chore = "a sensor's place that comes late"
	choreReplay   chore = "backfill of a time or of quarantine"
	choreRollback chore = "rollback of silver"
	choreVerify   chore = "smelt verify"
	choreQuery    chore = "queries"
	choreMaintain chore = "smelt maintain"
)

var choreWeights = []struct {
	chore  chore
	weight int
}{
	{choreCorrect, 30}, {choreArrive, 6}, {choreReplay, 10}, {choreRollback, 8}, {choreVerify, 16}, {choreQuery, 16}, {choreMaintain, 14},
}

const (
	leastRest, mostRest = 1 * time.Second, 8 * time.Second

	// patience bounds any command: services may be away for half a minute at a time,
	// several times in a row.
	patience = 4 * time.Minute

	// settlePatience bounds a backfill of all of history, at the end.
	settlePatience = 20 * time.Minute

	// killShare is how many of a hundred backfills are killed, within mostBackfill.
	killShare    = 40
	mostBackfill = 4 * time.Second
)

// operator corrects, checks and asks while the line runs.
type operator struct {
	fleet  *fleet
	t      *tally
	rng    *rand.Rand
	places map[string]place // what the reference table holds
	open   string           // a sensor whose reference row may or may not exist; "" for none
	known  map[string]int64 // by query, what it said last: it must not fall
}

// run does one chore after the other until ctx ends.
func (o *operator) run(ctx context.Context) {
	total := 0
	for _, w := range choreWeights {
		total += w.weight
	}
	for sleep(ctx, between(o.rng, leastRest, mostRest)) {
		draw := o.rng.IntN(total)
		for _, w := range choreWeights {
			if draw -= w.weight; draw < 0 {
				o.do(ctx, w.chore)
				break
			}
		}
	}
}

func (o *operator) do(ctx context.Context, c chore) {
	o.t.count(groupOperations, string(c), 1)
	switch c {
	case choreCorrect:
		for range 1 + o.rng.IntN(3) {
			o.move(ctx, sensor(o.rng.IntN(placed)))
		}
		for _, p := range []string{readings.name, visits.name} {
			o.backfill(ctx, p, "--reference-changes")
		}
	case choreArrive:
		for i := placed; i < sensors-homeless; i++ {
			if _, ok := o.places[sensor(i)]; !ok {
				o.move(ctx, sensor(i))
				break
			}
		}
	case choreReplay:
		p := pipelines()[o.rng.IntN(len(pipelines()))].name
		if o.rng.IntN(2) == 0 {
			o.backfill(ctx, p, "--quarantined")
		} else {
			o.backfill(ctx, p, "--from", "2m")
		}
	case choreRollback:
		p := pipelines()[o.rng.IntN(len(pipelines()))].name
		// At first there is no state that old.
		o.expect(ctx, []int{2}, "rollback", "silver."+p, []string{"10s", "45s", "2m"}[o.rng.IntN(3)], "--yes")
	case choreVerify:
		o.verify(ctx)
	case choreQuery:
		o.ask(ctx)
	case choreMaintain:
		if printed, ok := o.expect(ctx, nil, "maintain", "--json"); ok {
			o.maintained(printed)
		}
	}
}

// move writes a sensor's place into the reference table, another one than it has.
func (o *operator) move(ctx context.Context, sensor string) {
	to := cities[o.rng.IntN(len(cities))]
	for to == o.places[sensor] {
		to = cities[o.rng.IntN(len(cities))]
	}
	o.t.count(groupOperations, "reference rows written", 1)
	o.locate(ctx, sensor, to)
}

// locate writes a row of the reference table, again until it is sure to be there, or
// ctx ends: then it is open whether it is.
func (o *operator) locate(ctx context.Context, sensor string, at place) {
	o.places[sensor] = at
	for ctx.Err() == nil {
		got, err := o.fleet.smelt(ctx, o.fleet.wired, patience, "locate", sensor, at.city, at.country)
		if err == nil && got.code == 0 {
			return
		}
		if ctx.Err() == nil && (err != nil || !slices.Contains(unavailable, got.code)) {
			o.t.discrepancy("smelt locate: exit code %d, %v: %s", got.code, err, got.err)
		}
		sleep(ctx, startAgain)
	}
	o.open = sensor
}

// backfill replays a scope, and now and then is killed meanwhile; it is then
// repeated.
func (o *operator) backfill(ctx context.Context, pipeline string, scope ...string) {
	args := slices.Concat([]string{"backfill", pipeline, "--yes"}, scope)
	if o.rng.IntN(100) < killShare {
		o.killed(ctx, args)
	}
	o.expect(ctx, nil, args...)
}

// killed runs a command and kills it on the way.
func (o *operator) killed(ctx context.Context, args []string) {
	cmd := o.fleet.command(ctx, o.fleet.wired, args...)
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return
		}
		o.t.discrepancy("smelt %s: %v", args[0], err)
		return
	}
	sleep(ctx, between(o.rng, 100*time.Millisecond, mostBackfill))
	_ = cmd.Process.Signal(syscall.SIGKILL) // unless it was quicker
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() == -1 {
		o.t.say("! kill -9 of smelt %s", strings.Join(args, " "))
		o.t.count(groupKills, "kill -9 of a backfill", 1)
	}
}

// expect runs a command that has to succeed, unless a service is away. It returns what
// it printed, and whether it did succeed.
func (o *operator) expect(ctx context.Context, also []int, args ...string) (string, bool) {
	began := time.Now()
	got, err := o.fleet.smelt(ctx, o.fleet.wired, patience, args...)
	what := "smelt " + strings.Join(args, " ")
	switch {
	case errors.Is(err, errHung):
		o.t.discrepancy("%s: it did not end within %s", what, patience)
	case ctx.Err() != nil:
	case err == nil && got.code == 0:
		o.t.say("  %s: %.1f s", shorten(what), time.Since(began).Seconds())
		return got.out, true
	case err == nil && slices.Contains(append(also, unavailable...), got.code):
		o.t.say("  %s: exit code %d: %s", shorten(what), got.code, lastLine(got.err))
		o.t.count(groupOperations, "commands that found a service away", 1)
	case err == nil && gaveWay(got.err):
		o.t.say("  %s: exit code %d: %s", shorten(what), got.code, lastLine(got.err))
		o.t.count(groupOperations, "commands that found a table busy", 1)
	default:
		o.t.discrepancy("%s: exit code %d, %v: %s", what, got.code, err, got.out+got.err)
	}
	return "", false
}

// gaveWay says whether a command gave up because others were at its table for longer than
// it waits.
func gaveWay(said string) bool {
	return strings.Contains(said, "nothing was done") || strings.Contains(said, "try again later")
}

// shorten leaves the text of a long command out.
func shorten(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// lastLine is the last line of a text.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// verify has the lake recounted while it is in use. Quarantine follows a rollback of
// silver with the next step: until then that is all that may be wrong.
func (o *operator) verify(ctx context.Context) {
	got, err := o.fleet.smelt(ctx, o.fleet.wired, patience, "verify")
	switch {
	case ctx.Err() != nil:
	case err == nil && got.code == 0:
		o.t.say("  smelt verify: passed")
		o.t.count(groupOperations, "verify: passed", 1)
	case err == nil && slices.Contains(unavailable, got.code):
		o.t.say("  smelt verify: exit code %d: %s", got.code, lastLine(got.err))
		o.t.count(groupOperations, "verify: found a service away", 1)
	case err == nil && got.code == 7 && onlyFollows(got.out):
		o.t.count(groupOperations, "verify: quarantine was to follow a rollback", 1)
	default:
		o.t.discrepancy("smelt verify: exit code %d, %v: %s", got.code, err, got.out+got.err)
	}
}

// verifyDirect has the lake recounted when all is at rest.
func (o *operator) verifyDirect(ctx context.Context) {
	got, err := o.fleet.smelt(ctx, o.fleet.direct, settlePatience, "verify")
	if err != nil || got.code != 0 {
		o.t.discrepancy("smelt verify at the end: exit code %d, %v: %s", got.code, err, got.out+got.err)
		return
	}
	o.t.count(groupOperations, "verify: passed", 1)
	o.t.say("%s", strings.TrimSpace(got.out))
}

// onlyFollows says whether each mismatch that verify printed is that quarantine has
// yet to follow silver.
func onlyFollows(printed string) bool {
	for line := range strings.Lines(printed) {
		if strings.Contains(line, "✗ ") && !strings.Contains(line, "follows with the pipeline's next step") {
			return false
		}
	}
	return true
}

// ask asks what must hold at any moment: no record twice in a layer, silver within
// bronze, and bronze never less than it was.
func (o *operator) ask(ctx context.Context) {
	for _, p := range pipelines() {
		var counts [3]int64
		for i, layer := range []string{"silver", "quarantine", "bronze"} { // the layer that the others come from last
			statement := fmt.Sprintf("SELECT count(*), count(DISTINCT (_partition_id, _partition_offset)) FROM %s.%s", layer, p.name)
			text, ok := o.expect(ctx, nil, "query", "--csv", "-c", statement)
			if !ok {
				return
			}
			n, distinct, err := twoNumbers(text)
			if err != nil {
				o.t.discrepancy("%s: %v", statement, err)
				return
			}
			if n != distinct {
				o.t.discrepancy("%s.%s has %d rows of %d records", layer, p.name, n, distinct)
			}
			counts[i] = n
		}
		if counts[0] > counts[2] || counts[1] > counts[2] {
			o.t.discrepancy("silver.%s has %d rows and quarantine %d, though bronze has %d records", p.name, counts[0], counts[1], counts[2])
		}
		if was := o.known[p.name]; counts[2] < was {
			o.t.discrepancy("bronze.%s has %d records, %d before", p.name, counts[2], was)
		}
		o.known[p.name] = counts[2]
	}
}

// twoNumbers reads a result of one row.
func twoNumbers(text string) (a, b int64, err error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(records) != 2 || len(records[1]) != 2 {
		return 0, 0, fmt.Errorf("an answer of %q: %v", text, err)
	}
	a, err = strconv.ParseInt(records[1][0], 10, 64)
	if err != nil {
		return 0, 0, err
	}
	b, err = strconv.ParseInt(records[1][1], 10, 64)
	return a, b, err
}

// maintained counts the jobs that smelt maintain has printed, one a line.
func (o *operator) maintained(printed string) {
	for line := range strings.Lines(printed) {
		var job struct {
			Kind string `json:"kind"`
			Lost string `json:"lost"` // to another writer
		}
		if err := json.Unmarshal([]byte(line), &job); err != nil {
			o.t.discrepancy("smelt maintain printed %q: %v", line, err)
			continue
		}
		outcome := "done"
		if job.Lost != "" {
			outcome = "lost"
		}
		o.t.count(groupUpkeep, job.Kind+": "+outcome, 1)
	}
}

// maintain does what is left to do on all tables, so that what is compared has been
// through it.
func (o *operator) maintain(ctx context.Context) error {
	got, err := o.fleet.smelt(ctx, o.fleet.direct, settlePatience, "maintain", "--json")
	if err != nil || got.code != 0 {
		return fmt.Errorf("smelt maintain at the end: exit code %d, %v: %s", got.code, err, got.out+got.err)
	}
	o.maintained(got.out)
	return nil
}

// settle has all history follow what the reference table holds now.
func (o *operator) settle(ctx context.Context) error {
	if o.open != "" {
		o.locate(ctx, o.open, o.places[o.open])
	}
	for _, p := range pipelines() {
		scopes := []string{"--quarantined"}
		if p.located {
			scopes = []string{"--reference-changes", "--quarantined"}
		}
		for _, scope := range scopes {
			got, err := o.fleet.smelt(ctx, o.fleet.direct, settlePatience, "backfill", p.name, scope, "--yes")
			if err != nil || got.code != 0 {
				return fmt.Errorf("smelt backfill %s %s: exit code %d, %v: %s", p.name, scope, got.code, err, got.out+got.err)
			}
		}
	}
	return nil
}
