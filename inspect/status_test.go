package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/inspect"
	"smelt/upkeep"
)

var errDown = smelt.Mark(smelt.ErrSource, errors.New("kafka on 127.0.0.1:9092: connection refused"))

func (w *world) probe(live bool) inspect.Probe {
	return inspect.Probe{
		Store: w.Parts.Area.Store, Lake: w.Parts.Area.Lake,
		Describe: func(ctx context.Context, _ *smelt.Pipeline, _ map[int32]int32) (smelt.Description, error) {
			return w.Topic.Open(nil).Describe(ctx)
		},
		Live: func(context.Context) error {
			if live {
				return nil
			}
			return errors.New("connection refused")
		},
	}
}

// Ages differ from run to run, and with them the columns' widths.
var clock = regexp.MustCompile(`\d+(\.\d)? (s|min|h|days)\b`)

var gaps = regexp.MustCompile(`(\S)  +`)

func text(s *inspect.Status) string {
	return health.ReplaceAllString(plainText(s), "")
}

// plainText is a status with one form for every age and every gap.
func plainText(s *inspect.Status) string {
	return gaps.ReplaceAllString(clock.ReplaceAllString(s.Text(false), "AGE"), "$1  ")
}

// health matches the lines of how the tables are kept.
var health = regexp.MustCompile(`  table  files .*\n(?:  (?:bronze|silver|quarantine|gold)\..*\n)*`)

func TestStatusHealth(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	probe := w.probe(true)
	probe.CountObjects = true
	probe.Due = func(context.Context) ([]upkeep.Due, error) {
		soon := time.Now().Add(90 * time.Second)
		return []upkeep.Due{
			{Table: "silver.readings", Kind: upkeep.KindOrphans, Next: soon.Add(time.Hour)},
			{Table: "silver.readings", Kind: upkeep.KindCompact, Next: soon},
			{Table: "gold.readings_hourly", Kind: upkeep.KindExpire, Next: soon.Add(-time.Hour)},
		}, nil
	}
	s := inspect.Gather(t.Context(), probe, w.pipeline, time.Now())
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`[0-9.]+ (?:B|KiB)`).ReplaceAllString(health.FindString(plainText(s)), "SIZE")
	const want = `  table  files  average  deletes  snapshots  manifests  metadata  maintenance
  bronze.readings  4  SIZE  -  -  -  -  -
  silver.readings  2  SIZE  0  2  2  SIZE  compact in AGE
  quarantine.readings  1  SIZE  0  1  1  SIZE  -
  gold.readings_hourly  1  SIZE  0  2  2  SIZE  expire now
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	probe.Due = func(context.Context) ([]upkeep.Due, error) { return nil, errDown }
	if s = inspect.Gather(t.Context(), probe, w.pipeline, time.Now()); !strings.Contains(text(s), "! When maintenance comes next is not known: "+errDown.Error()) {
		t.Errorf("it does not say that smelt run did not tell:\n%s", text(s))
	}
	probe.Due = nil
	if s = inspect.Gather(t.Context(), probe, w.pipeline, time.Now()); s.Tables[1].Next != nil {
		t.Errorf("%v is due, though nobody was asked", s.Tables[1].Next)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	w.send(0, "aa!")
	if _, err := w.line.Bronze.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.send(1, "a")
	s := inspect.Gather(t.Context(), w.probe(true), w.pipeline, time.Now())
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	const want = `readings  running  fresh AGE, held up by silver.readings (AGE)
  table  rows  newest  behind  position
  bronze.readings  14  2026-11-29 12:02:00  1 (AGE)  0:10 1:4
  silver.readings  7  2026-11-29 12:02:00  3 (AGE)  0:7 1:4
  gold.readings_hourly  2  2026-11-29 12:02:00  0
  quarantined: not json 2
  unmatched: 2 rows
  bronze 11 = silver 7 + quarantine 2 + tombstones 2 ✓  + 3 on their way  gold 7 ✓  fresh AGE
`
	head, trouble, _ := strings.Cut(text(s), "  !")
	if head != want {
		t.Errorf("got\n%s\nwant\n%s", head, want)
	}
	for _, says := range []string{
		"Quarantine is growing: in the last AGE", "not json 2", `./scripts/query.sh -c "SELECT reason, field, raw FROM quarantine.readings ORDER BY quarantined_at DESC LIMIT 10"`,
		"2 rows of silver.readings found no reference row.",
	} {
		if !strings.Contains(strings.ReplaceAll(trouble, "10 minutes", "AGE"), says) {
			t.Errorf("no %q in\n%s", says, trouble)
		}
	}
	if colourful := s.Text(true); !strings.Contains(colourful, "\x1b[32mrunning\x1b[0m") {
		t.Errorf("no colours in\n%s", colourful)
	}
}

func TestStatusKeys(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	w.backfilled(t, "--all")
	probe := w.probe(true)
	probe.CountStale = found(inspect.Stale{Reference: "places", Rows: 2, Exact: true})
	s := inspect.Gather(t.Context(), probe, w.pipeline, time.Now())
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var keys struct {
		Pipeline     *string          `json:"pipeline"`
		Running      *bool            `json:"running"`
		FreshSeconds *float64         `json:"fresh_seconds"`
		Blame        *string          `json:"blame"`
		Quarantined  map[string]int64 `json:"quarantined"`
		Stale        []struct {
			Reference       *string
			Rows, Unmatched *int64
			Exact           *bool
		} `json:"stale"`
		LastBackfill struct {
			Snapshot  *int64
			At, Scope *string
		} `json:"last_backfill"`
		Stages []struct {
			Table      string
			LagRecords *int64   `json:"lag_records"`
			LagSeconds *float64 `json:"lag_seconds"`
			Newest     *string  `json:"newest_event"`
		} `json:"stages"`
		Trouble []struct{ Message, Command *string } `json:"trouble"`
	}
	if err := json.Unmarshal(got, &keys); err != nil {
		t.Fatal(err)
	}
	if keys.Pipeline == nil || !*keys.Running || keys.FreshSeconds == nil || *keys.Blame != "" || keys.Quarantined["not json"] != 2 || len(keys.Stages) != 3 || len(keys.Trouble) != 3 {
		t.Fatalf("got %s", got)
	}
	if s, l := keys.Stale, keys.LastBackfill; len(s) != 1 || *s[0].Reference != "places" || *s[0].Rows != 2 || *s[0].Unmatched != 0 || !*s[0].Exact || l.Snapshot == nil || l.At == nil || *l.Scope != "--all" {
		t.Errorf("got %s", got)
	}
	for _, stage := range keys.Stages {
		if stage.LagRecords == nil || *stage.LagRecords != 0 || stage.LagSeconds == nil || *stage.LagSeconds != 0 || stage.Newest == nil {
			t.Errorf("%s: got %s", stage.Table, got)
		}
	}
}

// Status shows who runs the pipeline, if there are several processes, or none on this machine.
func TestStatusProcesses(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	w.backfilled(t, "--all") // whose process leads nothing
	probe := w.probe(false)
	me := inspect.Process{Name: smelt.Instance(), Host: "10.0.0.1", Partitions: []int32{0}}
	var group []inspect.Process
	probe.Group = func(context.Context, *smelt.Pipeline) ([]inspect.Process, error) { return slices.Clone(group), nil }
	for _, test := range []struct {
		live  bool
		group []inspect.Process
		want  []string // lines
		not   string
	}{
		{false, nil, []string{"readings  stopped", "! The pipeline is not running."}, "process"},
		{true, []inspect.Process{me}, []string{"readings  running"}, "process"},
		{false, []inspect.Process{me}, []string{"readings  running", "  process " + me.Name + " on 10.0.0.1 reads partitions 0; "}, "not running"},
		{true, []inspect.Process{me, {Name: "b-2", Host: "10.0.0.2", Partitions: []int32{1, 2}}, {Name: "c-3", Host: "10.0.0.3"}}, []string{
			"  process " + me.Name + " on 10.0.0.1 reads partitions 0; the last step of silver.readings, gold.readings_hourly was its\n",
			"  process b-2 on 10.0.0.2 reads partitions 1 2\n",
			"  process c-3 on 10.0.0.3 reads no partition\n",
		}, "not running"},
	} {
		group, probe.Live = test.group, w.probe(test.live).Live
		got := inspect.Gather(t.Context(), probe, w.pipeline, time.Now()).Text(false)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		if strings.Contains(got, test.not) {
			t.Errorf("%q in\n%s", test.not, got)
		}
	}
	probe.Group = func(context.Context, *smelt.Pipeline) ([]inspect.Process, error) { return nil, errDown }
	if got := text(inspect.Gather(t.Context(), probe, w.pipeline, time.Now())); !strings.Contains(got, "! Which processes run it is not known: "+errDown.Error()) {
		t.Errorf("it does not say that Kafka did not tell:\n%s", got)
	}
}

// TestStatusFailing has smelt run say what is wrong with its stages.
func TestStatusFailing(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	probe := w.probe(true)
	const full = "put bronze/readings/0/10: no space left on device"
	probe.Failing = func(context.Context) (map[string]string, error) {
		return map[string]string{"bronze.readings": full, "gold.readings_hourly": full, "silver.others": "denied"}, nil
	}
	got := text(inspect.Gather(t.Context(), probe, w.pipeline, time.Now()))
	if !strings.Contains(got, "! bronze.readings does not get on: "+full) || strings.Count(got, full) != 1 || strings.Contains(got, "denied") {
		t.Errorf("it does not say once what is wrong here:\n%s", got)
	}
	w.Topic.Recreate()
	probe.Failing = func(context.Context) (map[string]string, error) {
		const then = "partition 1 of readings is stopped: the lake was filled from topic log, but this is topic log+, which holds 0 to 99"
		return map[string]string{"bronze.readings": then}, nil
	}
	if got := text(inspect.Gather(t.Context(), probe, w.pipeline, time.Now())); strings.Contains(got, "does not get on") || !strings.Contains(got, "source switch") {
		t.Errorf("it says twice why a partition is stopped:\n%s", got)
	}
	probe.Failing = func(context.Context) (map[string]string, error) { return nil, errDown }
	if got = text(inspect.Gather(t.Context(), probe, w.pipeline, time.Now())); !strings.Contains(got, "Whether the stages get on is not known: "+errDown.Error()) {
		t.Errorf("it does not say that smelt run did not tell:\n%s", got)
	}
}

// TestStatusClock looks at the tables with a clock that is behind their last change.
func TestStatusClock(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	now := time.Now()
	if got := text(inspect.Gather(t.Context(), w.probe(true), w.pipeline, now)); strings.Contains(got, "clock") {
		t.Errorf("it finds fault with a clock that is right:\n%s", got)
	}
	const want = "! This machine's clock is AGE behind the last change of "
	if got := text(inspect.Gather(t.Context(), w.probe(true), w.pipeline, now.Add(-time.Hour))); strings.Count(got, want) != 1 {
		t.Errorf("it does not say %q once:\n%s", want, got)
	}
}

func TestStatusTrouble(t *testing.T) {
	t.Parallel()
	noTables := smelt.Mark(smelt.ErrDatabase, errors.New("postgres on 127.0.0.1:5433: connection refused"))
	for _, test := range []struct {
		name  string
		world func(*testing.T) *world
		probe func(*world, *inspect.Probe)
		kind  error
		text  string
	}{
		{
			name:  "nothing yet",
			world: newWorld,
			text: `readings  running
  table  rows  newest  behind  position
  bronze.readings  0  -  0  0:0 1:0
  silver.readings  0  -  0
  gold.readings_hourly  0  -  0
  bronze 0 = silver 0 + quarantine 0 ✓  gold is empty
  ! There is nothing in topic readings, and so nothing in bronze.
      ./bin/smelt generate
`,
		},
		{
			name:  "the source is down, and the pipeline",
			world: newWorld,
			probe: func(_ *world, p *inspect.Probe) {
				p.Live = func(context.Context) error { return errors.New("connection refused") }
				p.Describe = func(context.Context, *smelt.Pipeline, map[int32]int32) (smelt.Description, error) {
					return smelt.Description{}, errDown
				}
			},
			kind: smelt.ErrSource,
			text: `readings  stopped
  table  rows  newest  behind  position
  bronze.readings  0  ?  ?
  silver.readings  0  -  0
  gold.readings_hourly  0  -  0
  bronze 0 = silver 0 + quarantine 0 ✓  gold is empty
  ! The pipeline is not running.
      ./scripts/start.sh
  ! The source cannot be read: kafka on 127.0.0.1:9092: connection refused.
      ./bin/smelt config
`,
		},
		{
			name:  "the tables cannot be read",
			world: newWorld,
			probe: func(_ *world, p *inspect.Probe) { p.Lake, p.LakeError = nil, noTables },
			kind:  smelt.ErrDatabase,
			text: `readings  running
  table  rows  newest  behind  position
  bronze.readings  0  -  0  0:0 1:0
  silver.readings  ?  ?  ?
  gold.readings_hourly  ?  ?  ?
  ! The tables cannot be read: postgres on 127.0.0.1:5433: connection refused.
      ./bin/smelt config
  ! There is nothing in topic readings, and so nothing in bronze.
      ./bin/smelt generate
`,
		},
		{
			name: "the topic has gone back, and the gold SQL changed",
			world: func(t *testing.T) *world {
				w := newWorld(t)
				w.send(1, "aa")
				w.drain(t)
				w.pipeline.Gold[0].SQL += " "
				return w
			},
			probe: func(_ *world, p *inspect.Probe) {
				p.Describe = func(context.Context, *smelt.Pipeline, map[int32]int32) (smelt.Description, error) {
					return smelt.Description{Partitions: map[int32]smelt.Extent{1: {Start: 0, End: 1}}}, nil
				}
			},
			text: `readings  running  fresh AGE
  table  rows  newest  behind  position
  bronze.readings  2  2026-11-29 12:01:00  0  1:2
  silver.readings  2  2026-11-29 12:01:00  0  1:2
  gold.readings_hourly  1  2026-11-29 12:01:00  0
  bronze 2 = silver 2 + quarantine 0 ✓  gold 2 ✓  fresh AGE
  ! Partition 1 of topic readings is not read: the lake goes on at offset 2, but what it was filled from ends at 1 in the log: the log has lost records, or was brought back from a backup.
      ./bin/smelt source switch readings
  ! gold.readings_hourly was computed by another version of hourly.sql; the pipeline computes it again when it runs.
      ./scripts/start.sh
`,
		},
		{
			name: "records were deleted before they were read",
			world: func(t *testing.T) *world {
				w := newWorld(t)
				w.send(1, "aa")
				w.drain(t)
				w.send(1, "bbb")
				w.Topic.Truncate(1, 4)
				return w
			},
			text: `readings  running  fresh AGE, held up by bronze.readings (AGE)
  table  rows  newest  behind  position
  bronze.readings  2  2026-11-29 12:01:00  1 (AGE)  0:0 1:2
  silver.readings  2  2026-11-29 12:01:00  0  1:2
  gold.readings_hourly  1  2026-11-29 12:01:00  0
  bronze 2 = silver 2 + quarantine 0 ✓  gold 2 ✓  fresh AGE
  ! Partition 1 of topic readings is not read: the lake goes on at offset 2, but the log begins at 4: what is in between was deleted before it was read.
      ./bin/smelt source accept-gap readings
`,
		},
		{
			name: "the topic was re-created",
			world: func(t *testing.T) *world {
				w := newWorld(t)
				w.send(0, "aa")
				w.send(1, "aa")
				w.drain(t)
				w.Topic.Recreate()
				w.send(1, "bbb")
				return w
			},
			text: `readings  running  fresh AGE, held up by bronze.readings (AGE)
  table  rows  newest  behind  position
  bronze.readings  4  2026-11-29 12:01:00  3 (AGE)  0:2 1:2
  silver.readings  4  2026-11-29 12:01:00  0  0:2 1:2
  gold.readings_hourly  1  2026-11-29 12:01:00  0
  bronze 4 = silver 4 + quarantine 0 ✓  gold 4 ✓  fresh AGE
  ! Partition 0 of topic readings is not read: the lake was filled from topic log up to offset 2, but this is topic log+, which holds 0 to 0: it was deleted and re-created. The same goes for partition 1.
      ./bin/smelt source switch readings
`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := test.world(t)
			probe := w.probe(true)
			if test.probe != nil {
				test.probe(w, &probe)
			}
			s := inspect.Gather(t.Context(), probe, w.pipeline, time.Now())
			if got := text(s); got != test.text {
				t.Errorf("got\n%s\nwant\n%s", got, test.text)
			}
			if err := s.Err(); test.kind == nil && err != nil || test.kind != nil && !errors.Is(err, test.kind) {
				t.Errorf("err: %v", err)
			}
		})
	}
}
