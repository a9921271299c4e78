package crash_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/bronze"
	"smelt/gold"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/table"
	"smelt/silver"
	"smelt/upkeep"
)

// act is one thing that a process does, in the scenario.
type act struct {
	chapter string               // of the scenario: the acts of one go with each other
	by      string               // who does it
	world   func(w *world) error // what happens in the world before; nil: nothing
	do      func(ctx context.Context, p *process) error
	// meanwhile, when it is set, is what another process does right before the first
	// call that has the prefix.
	meanwhile string
	rival     func(ctx context.Context, p *process) error
	// aside marks acts outside the line: the stages run as soon as a new process starts, and the act is repeated afterwards.
	aside bool
}

const hour = time.Hour

// scenario is what happens to a lake that is empty at first.
func scenario() []act {
	return []act{
		{chapter: "start", by: "prepare", world: first, do: prepare},
		{chapter: "first batch in bronze", by: "bronze", do: ingests},
		{chapter: "first batch in silver", by: "silver", do: refines},
		{chapter: "first batch in gold", by: "gold", do: refreshes},

		{chapter: "second batch in bronze", by: "bronze", world: second, do: ingests},
		{chapter: "second batch in silver", by: "silver", do: refines},
		{chapter: "second batch in gold", by: "gold", do: refreshes},

		{chapter: "race in bronze", by: "bronze-beaten", world: third, do: ingests, meanwhile: "bronze-beaten put bronze/readings/1/", rival: ingests},
		{chapter: "race in silver", by: "silver-beaten", do: refines, meanwhile: "silver-beaten swap ", rival: refines},
		{chapter: "race in gold", by: "gold-beaten", do: refreshes, meanwhile: "gold-beaten swap gold.", rival: refreshes},

		{chapter: "correction", by: "backfill", world: moves, do: corrects(backfill.Scope{ReferenceChanges: true}), aside: true},
		{chapter: "release", by: "backfill", do: corrects(backfill.Scope{Quarantined: true}), aside: true},
		{chapter: "healing", by: "heal", world: appears, do: heals, aside: true},
		{chapter: "healing", by: "gold", do: refreshes},

		{chapter: "stream in bronze", by: "bronze", world: streams(15), do: ingests},
		{chapter: "stream in silver", by: "silver", do: refines},
		{chapter: "stream in gold", by: "gold", do: refreshes},

		{chapter: "merging", by: "merge", world: passes(2 * hour), do: maintains(upkeep.KindMerge, "bronze.readings"), aside: true},
		{chapter: "cleaning", by: "clean", world: passes(2 * hour), do: maintains(upkeep.KindClean, "bronze.readings"), aside: true},
		{chapter: "compaction", by: "compact", do: maintains(upkeep.KindCompact, silverName), aside: true},
		{chapter: "compaction of quarantine", by: "compact", do: maintains(upkeep.KindCompact, quarantineName), aside: true},
		{chapter: "manifests", by: "manifests", do: lists(goldName), aside: true},

		{chapter: "tag", by: "tag", do: tags, aside: true},
		{chapter: "after the tag in bronze", by: "bronze", world: fourth, do: ingests},
		{chapter: "after the tag in silver", by: "silver", do: refines},
		{chapter: "after the tag in gold", by: "gold", do: refreshes},
		{chapter: "rollback", by: "rollback", do: rollsBack, aside: true},
		{chapter: "rollback", by: "silver", do: refines},
		{chapter: "rollback", by: "gold", do: refreshes},
		{chapter: "rollback by another engine", by: "silver", world: rolledBack, do: refines},
		{chapter: "rollback by another engine", by: "gold", do: refreshes},
		{chapter: "evolution", by: "prepare", world: evolves, do: prepare},

		{chapter: "expiry", by: "expire", world: grows, do: maintains(upkeep.KindExpire, silverName), aside: true},
		{chapter: "orphans", by: "orphans", world: strays, do: maintains(upkeep.KindOrphans, silverName), aside: true},
		{chapter: "orphans of quarantine", by: "orphans", do: maintains(upkeep.KindOrphans, quarantineName), aside: true},

		{chapter: "retention of bronze", by: "retain", world: ages, do: maintains(upkeep.KindRetain, "bronze.readings"), aside: true},
		{chapter: "retention of silver", by: "retain", do: maintains(upkeep.KindRetain, silverName), aside: true},
		{chapter: "retention of gold", by: "retain", do: maintains(upkeep.KindRetain, goldName), aside: true},
		{chapter: "cleaning of what was retired", by: "clean", world: passes(2 * hour), do: maintains(upkeep.KindClean, "bronze.readings"), aside: true},

		{chapter: "drop of a table", by: "drop", do: drops(goldName), aside: true},
		{chapter: "drop of a table", by: "gold", do: refreshes},
		{chapter: "drop", by: "drop", do: dropsAll, aside: true},
		{chapter: "drop", by: "bronze", do: ingests},
		{chapter: "drop", by: "silver", do: refines},
		{chapter: "drop", by: "gold", do: refreshes},
	}
}

// first is the first batch: what fits, of two days, in two partitions, what is
// malformed, what is nowhere, and a sensor without a location.
func first(w *world) error {
	w.pass(36 * hour)
	w.locate("hel-001=Espoo", "nyc-001=New York", "out-001=Nowhere")
	w.send("a hel-001 1 -3h", "b nyc-001 2 -2h", "x out-001 3 -2h", `{"id":"z","sensor_id":"hel-001","v":"hot"}`,
		"1/c hel-001 4 -26h", "1/d zzz-001 5 -1h")
	return nil
}

// second has a duplicate, an event that comes late, a tombstone, and text that is no
// JSON.
func second(w *world) error {
	w.pass(hour)
	w.send("1/a hel-001 6 -238m", "e nyc-001 7 -1h", "f hel-001 8 -27h", "", "no json", "1/x nyc-001 9 -179m")
	return nil
}

func third(w *world) error {
	w.pass(hour)
	w.send("g hel-001 10 -1h", "1/h nyc-001 11 -2h", "1/y out-001 12 -1h")
	return nil
}

// moves corrects two locations: a row that silver has is in another city, one is
// nowhere, so that its twin comes in, and one that was nowhere is somewhere.
func moves(w *world) error {
	w.pass(hour)
	w.locate("hel-001=Helsinki", "nyc-001=Nowhere", "out-001=Turku")
	return nil
}

// appears gives the sensor a location that had none.
func appears(w *world) error {
	w.pass(hour)
	w.locate("hel-001=Helsinki", "nyc-001=Nowhere", "out-001=Turku", "zzz-001=Oulu")
	return nil
}

func passes(d time.Duration) func(*world) error {
	return func(w *world) error {
		w.pass(d)
		return nil
	}
}

// streams has batches come in, and takes them to gold, so that there is something to
// keep in shape; one more comes in.
func streams(batches int) func(*world) error {
	return func(w *world) error {
		w.pass(hour)
		return w.undisturbed(func(ctx context.Context, p *process) error {
			return with(func() (*line.Line, error) { return line.Open(ctx, p.pipeline, p.parts) }, func(l *line.Line) error {
				for i := range batches {
					w.send(fmt.Sprintf("s%d hel-001 %[1]d -1h", i), fmt.Sprintf("1/t%d zzz-001 %[1]d -30m", i), "not json")
					if err := errors.Join(steps(ctx, l.Bronze), steps(ctx, l.Silver)); err != nil {
						return err
					}
				}
				w.send("u hel-001 1 -1h", "not json")
				return commits(ctx, p, goldName, oldMetadata)
			})
		})
	}
}

func fourth(w *world) error {
	w.pass(hour)
	w.send("k hel-001 1 -1h", "1/l nyc-001 2 -1h", "not json", "1/k hel-001 2 -1h")
	return nil
}

// evolves gives the pipeline one column more.
func evolves(w *world) error {
	p := *w.pipeline
	p.Silver.SQL = strings.Replace(p.Silver.SQL, "city,", "city, 2 * v AS twice,", 1)
	w.pipeline = &p
	return nil
}

// grows has another engine commit so many snapshots, which change nothing, that it
// pays to expire them, and then a little come in.
func grows(w *world) error {
	w.pass(hour)
	err := w.undisturbed(func(ctx context.Context, p *process) error { return commits(ctx, p, silverName, table.ExpireBatch) })
	if err != nil {
		return err
	}
	w.send(fmt.Sprintf("m%d hel-001 1 -1h", len(w.records)), "1/n hel-001 2 -1h")
	return w.undisturbed(goesOn)
}

// oldMetadata is so many commits that each further one deletes a metadata file.
const oldMetadata = 20

// commits has another engine commit snapshots that change nothing.
func commits(ctx context.Context, p *process, name string, n int) error {
	for range n {
		t, err := p.parts.Area.Lake.Load(ctx, name)
		if err != nil {
			return err
		}
		if _, err := t.Commit(ctx, table.Change{}); err != nil {
			return err
		}
	}
	return nil
}

// strays leaves files that no snapshot has, and lets them become old.
func strays(w *world) error {
	for _, key := range []string{"silver/readings/data/stray.parquet", "quarantine/readings/data/stray.parquet"} {
		if err := w.objects.Put(context.Background(), key, strings.NewReader("stray"), smelt.PutOptions{}); err != nil {
			return err
		}
	}
	w.pass(4 * 24 * hour)
	return nil
}

// ages lets time pass until everything may be retired, and adds a few events.
func ages(w *world) error {
	w.pass(60 * 24 * hour)
	p := *w.pipeline
	p.Retain = smelt.Retain{Bronze: 20 * 24 * hour, Silver: 20 * 24 * hour, Gold: 20 * 24 * hour}
	w.pipeline = &p
	if err := grows(w); err != nil {
		return err
	}
	w.pass(hour)
	return w.undisturbed(maintains(upkeep.KindExpire, silverName))
}

// undisturbed does something in a process that does not die.
func (w *world) undisturbed(do func(context.Context, *process) error) error {
	p, err := w.process("undisturbed")
	if err != nil {
		return err
	}
	return do(context.Background(), p)
}

// goesOn is what smelt run does first: it prepares the line, and brings through what
// there is.
func goesOn(ctx context.Context, p *process) error {
	return with(func() (*line.Line, error) { return line.Open(ctx, p.pipeline, p.parts) }, func(l *line.Line) error {
		if err := l.Prepare(ctx); err != nil {
			return err
		}
		return pipetest.Drain(ctx, l)
	})
}

func (p *process) silver() silver.Config { return line.SilverConfig(p.pipeline, p.parts) }

// with does something with what has to be closed.
func with[T interface{ Close() error }](open func() (T, error), do func(T) error) (err error) {
	t, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return do(t)
}

// prepare makes the tables, or brings them to what the pipeline is.
func prepare(ctx context.Context, p *process) error {
	return with(func() (*line.Line, error) { return line.Open(ctx, p.pipeline, p.parts) }, func(l *line.Line) error { return l.Prepare(ctx) })
}

// ingests takes into bronze what the topic has.
func ingests(ctx context.Context, p *process) error {
	return with(func() (*bronze.Writer, error) {
		return bronze.NewWriter(bronze.Config{
			Pipeline: p.pipeline.Name, Store: p.parts.Area.Store, Log: p.parts.Log, Flush: flush,
			Open: func(ctx context.Context, resume smelt.Resume) (smelt.Source, error) {
				return p.parts.Source(ctx, p.pipeline, resume)
			},
		}), nil
	}, func(w *bronze.Writer) error { return steps(ctx, w) })
}

// refines takes into silver and quarantine what bronze has.
func refines(ctx context.Context, p *process) error {
	return with(func() (*silver.Stage, error) { return silver.Open(ctx, p.silver()) }, func(s *silver.Stage) error { return steps(ctx, s) })
}

// refreshes brings gold up to silver.
func refreshes(ctx context.Context, p *process) error {
	return with(func() (*gold.Stage, error) {
		return gold.Open(ctx, gold.Config{Pipeline: p.pipeline, Model: p.pipeline.Gold[0], Area: p.parts.Area, Duck: p.duck, Locker: p.parts.Locker, Log: p.parts.Log})
	}, func(s *gold.Stage) error { return steps(ctx, s) })
}

// steps steps a stage like smelt run, until there is no more work. After a lost race it starts over.
func steps(ctx context.Context, s smelt.Stage) error {
	for {
		did, err := s.Step(ctx)
		switch {
		case errors.Is(err, table.ErrConflict):
		case err != nil || !did.More:
			return err
		}
	}
}

// corrects does a backfill, as the command does.
func corrects(scope backfill.Scope) func(context.Context, *process) error {
	return func(ctx context.Context, p *process) error {
		stages, err := line.OpenGold(ctx, p.pipeline, p.parts)
		if err != nil {
			return err
		}
		defer line.CloseGold(stages)
		follower, err := backfill.NewFollower(ctx, p.parts.Area.Lake, stages)
		if err != nil {
			return err
		}
		return with(func() (*backfill.Job, error) { return backfill.Open(ctx, p.silver(), scope) }, func(j *backfill.Job) error {
			if _, err := j.Plan(ctx); err != nil {
				return err
			}
			if r, err := j.Run(ctx, nil); err != nil || !r.Published {
				return err
			}
			_, err := follower.Follow(ctx)
			return err
		})
	}
}

func heals(ctx context.Context, p *process) error { return steps(ctx, backfill.NewHealer(p.silver())) }

// policy keeps little, so that little is enough for something to do.
var policy = upkeep.Policy{Snapshots: 2, Grace: time.Nanosecond, Hourly: time.Nanosecond, Daily: time.Nanosecond}

// maintains does one kind of maintenance on a table.
func maintains(kind, name string) func(context.Context, *process) error {
	return func(ctx context.Context, p *process) error {
		var lost []string
		for _, t := range upkeep.Tasks(upkeep.Config{
			Pipeline: p.pipeline, Area: p.parts.Area, Duck: p.duck, Locker: p.parts.Locker, Log: p.parts.Log, Policy: policy,
		}) {
			if t.Kind != kind || t.Table != name {
				continue
			}
			err := t.Do(ctx, func(j upkeep.Job, d upkeep.Done, _ time.Duration, err error) {
				if d.Lost != "" {
					lost = append(lost, j.What+": "+d.Lost)
				}
			})
			if err != nil {
				return err
			}
		}
		if len(lost) > 0 {
			return fmt.Errorf("maintenance gave way: %s", strings.Join(lost, "; "))
		}
		return nil
	}
}

// lists rewrites the manifests of a table, even if there are few.
func lists(name string) func(context.Context, *process) error {
	return func(ctx context.Context, p *process) error {
		unlock, err := p.parts.Locker.Lock(ctx, name)
		if err != nil {
			return err
		}
		defer unlock()
		t, err := p.parts.Area.Lake.Load(ctx, name)
		if err == nil {
			_, err = t.RewriteManifests(ctx)
		}
		return err
	}
}

const mine = "mine" // a tag

func tags(ctx context.Context, p *process) error {
	t, err := p.parts.Area.Lake.Load(ctx, silverName)
	if err != nil {
		return err
	}
	current, _ := t.Current()
	return p.parts.Area.Lake.Tag(ctx, silverName, mine, current.ID, 0)
}

// rolledBack is what another engine does: it takes silver back to the tag, alone.
func rolledBack(w *world) error {
	return w.undisturbed(func(ctx context.Context, p *process) error {
		t, err := p.parts.Area.Lake.Load(ctx, silverName)
		if err != nil {
			return err
		}
		to, err := t.Resolve(mine)
		if err == nil {
			_, err = t.Rollback(ctx, to.ID, nil, "")
		}
		return err
	})
}

// rollsBack takes silver back to the tag.
func rollsBack(ctx context.Context, p *process) error {
	unlock, err := p.parts.Locker.Lock(ctx, silverName)
	if err != nil {
		return err
	}
	defer unlock()
	pair, err := silver.LoadPair(ctx, p.parts.Area.Lake, p.pipeline.Name)
	if err != nil {
		return err
	}
	to, err := pair.Silver.Resolve(mine)
	if err != nil {
		return err
	}
	if now, _ := pair.Silver.Current(); now.ID == to.ID {
		return nil
	}
	return pair.Rollback(ctx, p.parts.Area.Lake, to.ID, fmt.Sprintf("smelt-rollback-%d", time.Now().UnixMilli()))
}

// drops drops a table, if there is one or something of it left.
func drops(name string) func(context.Context, *process) error {
	return func(ctx context.Context, p *process) error {
		unlock, err := p.parts.Locker.Lock(ctx, name)
		if err != nil {
			return err
		}
		defer unlock()
		if _, err := p.parts.Area.Lake.Drop(ctx, name); !errors.Is(err, smelt.ErrNotFound) {
			return err
		}
		return nil
	}
}

// dropsAll drops all that the pipeline has made, and bronze.
func dropsAll(ctx context.Context, p *process) error {
	for _, name := range []string{silverName, quarantineName, goldName} {
		if err := drops(name)(ctx, p); err != nil {
			return err
		}
	}
	unlock, err := p.parts.Locker.Lock(ctx, upkeep.Lock("bronze.readings"))
	if err != nil {
		return err
	}
	defer unlock()
	objects, err := bronze.Objects(ctx, p.parts.Area.Store, p.pipeline.Name)
	if err != nil {
		return err
	}
	return bronze.Drop(ctx, p.parts.Area.Store, objects)
}
