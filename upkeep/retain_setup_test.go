package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/bronze"
	"smelt/gold"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/table"
	"smelt/pipeline"
	"smelt/silver"
	"smelt/upkeep"
)

const (
	day = 24 * time.Hour

	keepBronze = 15 * day
	keepSilver = 10 * day
	keepGold   = 20 * day

	hourly = `SELECT date_trunc('hour', ts) AS hour, city, count(*) AS n, sum(v)::BIGINT AS total FROM silver.p GROUP BY ALL`
	other  = `SELECT date_trunc('hour', ts) AS hour, city, count(*) AS n, max(v) AS most FROM silver.p GROUP BY ALL`
)

// kept makes the pipeline p: readings v of places, a day of them a file. The lines
// stand under retain in pipeline.yml.
func kept(t *testing.T, model string, lines ...string) *smelt.Pipeline {
	t.Helper()
	p, err := pipeline.Read(fstest.MapFS{
		"p/pipeline.yml": {Data: []byte(`source: {kafka: t}
events:
  time: ts
  columns: {id: varchar not null, place: varchar, v: integer, ts: timestamptz not null}
references:
  places: {table: public.places, key: place, on: place}
silver:
  partition: day(ts)
  unique: [id]
gold:
  hourly: {window: 1h, column: hour}
retain:
  ` + strings.Join(lines, "\n  "))},
		"p/silver.sql": {Data: []byte("SELECT id, place, v, ts, city, _partition_id, _partition_offset FROM bronze.p LEFT JOIN reference.places USING (place)")},
		"p/hourly.sql": {Data: []byte(model)},
	}, "p")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lake is a line in memory, and what was sent into it.
type lake struct {
	t *testing.T
	*pipetest.Lake
	*line.Line
	duck    *duck.DB
	session *duck.Session
	retains []string             // lines under retain in pipeline.yml
	sent    map[string]time.Time // event time of the readings that fit, by id
}

// openLake makes a lake with a line whose data is kept for some time.
func openLake(t *testing.T) *lake {
	t.Helper()
	return openLakeOf(t, "bronze: 15d", "silver: 10d", "gold: 20d")
}

// openLakeOf makes a lake with a line, in which place a is in Espoo. The lines stand
// under retain in pipeline.yml.
func openLakeOf(t *testing.T, lines ...string) *lake {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := pipetest.NewLake(db, 2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	session, err := db.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := &lake{t: t, Lake: mem, duck: db, session: session, retains: lines, sent: map[string]time.Time{}}
	l.locate("Espoo")
	l.restart(hourly)
	t.Cleanup(func() {
		for _, c := range []func() error{session.Close, l.Line.Close, mem.Close, db.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	return l
}

// locate says where place a is.
func (l *lake) locate(city string) {
	varchar := smelt.Type{Name: "varchar"}
	l.References.Set("places", []smelt.Column{{Name: "place", Type: varchar}, {Name: "city", Type: varchar}}, [][]any{{"a", city}})
}

// restart opens the line again, with a model.
func (l *lake) restart(model string) {
	l.t.Helper()
	if l.Line != nil {
		if err := l.Line.Close(); err != nil {
			l.t.Fatal(err)
		}
	}
	var err error
	if l.Line, err = line.Open(l.t.Context(), kept(l.t, model, l.retains...), l.Parts); err != nil {
		l.t.Fatal(err)
	}
}

// send appends a reading of a time, with an id of its own; place b is nowhere.
func (l *lake) send(place string, at time.Time) {
	id := fmt.Sprint(len(l.sent))
	l.sent[id] = at
	l.append(fmt.Sprintf(`{"id":%q,"place":%q,"v":%d,"ts":%q}`, id, place, len(l.sent)%7, at.UTC().Format(time.RFC3339Nano)))
}

func (l *lake) append(value string) {
	l.Topic.Append(smelt.Record{Partition: int32(len(l.sent) % 2), Timestamp: time.Now().UnixMilli(), Value: []byte(value)})
}

// drain brings what was sent through to gold.
func (l *lake) drain() {
	l.t.Helper()
	if err := pipetest.Drain(l.t.Context(), l.Line); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lake) config() upkeep.Config {
	return upkeep.Config{Pipeline: l.Pipeline, Area: l.Parts.Area, Duck: l.duck, Locker: l.Parts.Locker, Log: l.Parts.Log}
}

// retain runs retention, and returns why jobs were postponed.
func (l *lake) retain() (lost []string) {
	l.t.Helper()
	lost, err := retainOnce(l.t.Context(), l.config())
	if err != nil {
		l.t.Fatal(err)
	}
	return lost
}

func retainOnce(ctx context.Context, cfg upkeep.Config) (lost []string, err error) {
	for _, task := range upkeep.Retention(cfg) {
		jobs, err := task.Plan(ctx, time.Now())
		if err != nil {
			return lost, err
		}
		for _, j := range jobs {
			done, err := j.Run(ctx)
			if err != nil {
				return lost, err
			}
			if done.Lost != "" {
				lost = append(lost, j.Table+": "+done.Lost)
			}
		}
	}
	return lost, nil
}

func (l *lake) load(name string) *table.Table {
	l.t.Helper()
	t, err := l.Parts.Area.Lake.Load(l.t.Context(), name)
	if err != nil {
		l.t.Fatal(err)
	}
	return t
}

func read[L ledger.Silver | ledger.Gold](l *lake, name string) L {
	l.t.Helper()
	out, _, ok, err := ledger.Read[L](l.load(name))
	if err != nil || !ok {
		l.t.Fatalf("ledger of %s: %v, %v", name, ok, err)
	}
	return out
}

const (
	silverName = "silver.p"
	goldName   = "gold.p_hourly"
)

// windows are the rows of gold, by window.
func (l *lake) windows() map[time.Time]string {
	l.t.Helper()
	t := l.load(goldName)
	var columns []string
	for _, c := range t.Columns() {
		columns = append(columns, c.Name)
	}
	rows, err := l.Rows(l.t.Context(), l.session, goldName, columns, "cells")
	if err != nil {
		l.t.Fatal(err)
	}
	out := map[time.Time]string{}
	for _, r := range rows {
		at, err := time.Parse("2006-01-02 15:04:05-07", r[0])
		if err != nil {
			l.t.Fatal(err)
		}
		out[at.UTC()] += strings.Join(r[1:], ",") + "\n"
	}
	return out
}

// floor is the first window that is computed.
func (l *lake) floor() time.Time {
	l.t.Helper()
	return gold.Floor(time.Hour, read[ledger.Silver](l, silverName), read[ledger.Gold](l, goldName))
}

// verify recounts the lake, which must be whole, and holds silver against what was
// sent.
func (l *lake) verify() inspect.Verdict {
	l.t.Helper()
	v, err := inspect.Verifier{Area: l.Parts.Area, Duck: l.duck, RecordMax: bronze.DefaultRecordMax}.Verify(l.t.Context(), l.Pipeline)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, m := range v.Mismatches {
		l.t.Errorf("%s: %s", m.Check, m.Message)
	}
	r, err := inspect.Count(l.t.Context(), l.Parts.Area.Store, l.Parts.Area.Lake, l.Pipeline, time.Now())
	if err != nil {
		l.t.Fatal(err)
	}
	if r.String() != v.Receipt.String() || !v.OK || !r.OK {
		l.t.Errorf("the receipt is %s, and recounted %s", r, v.Receipt)
	}
	since := read[ledger.Silver](l, silverName).Retained
	rows, err := l.Rows(l.t.Context(), l.session, silverName, []string{"id"}, "cells")
	if err != nil {
		l.t.Fatal(err)
	}
	have := map[string]bool{}
	for _, r := range rows {
		have[r[0]] = true
	}
	for id, at := range l.sent {
		if !have[id] && !at.Before(since) {
			l.t.Errorf("silver lacks reading %s of %s, although nothing from %s on was retired", id, at, since)
		}
	}
	return v
}

// trace follows a record, and wants its text to say something.
func (l *lake) trace(partition int32, offset int64, says string) {
	l.t.Helper()
	tr, err := inspect.Tracer{Area: l.Parts.Area, Duck: l.duck}.Trace(l.t.Context(), l.Pipeline, partition, offset)
	if err != nil {
		l.t.Error(err)
		return
	}
	if text := tr.Text(false); !strings.Contains(text, says) {
		l.t.Errorf("the trace of %d:%d does not say %q:\n%s", partition, offset, says, text)
	}
}

// plan says what a backfill would replay.
func (l *lake) plan(scope backfill.Scope) backfill.Plan {
	l.t.Helper()
	job, err := backfill.Open(l.t.Context(), line.SilverConfig(l.Pipeline, l.Parts), scope)
	if err != nil {
		l.t.Fatal(err)
	}
	p, err := job.Plan(l.t.Context())
	if err := errors.Join(err, job.Close()); err != nil {
		l.t.Fatal(err)
	}
	return p
}

// backfill replays what is in scope.
func (l *lake) backfill(scope backfill.Scope) backfill.Result {
	l.t.Helper()
	job, err := backfill.Open(l.t.Context(), line.SilverConfig(l.Pipeline, l.Parts), scope)
	if err != nil {
		l.t.Fatal(err)
	}
	r, err := job.Run(l.t.Context(), nil)
	if err := errors.Join(err, job.Close()); err != nil {
		l.t.Fatal(err)
	}
	return r
}

// expire drops snapshots that gold does not need and that have no tag.
func (l *lake) expire() {
	l.t.Helper()
	needed := []int64{read[ledger.Gold](l, goldName).SilverSnapshot}
	for _, name := range []string{silverName, goldName} {
		for tag := range l.load(name).Refs() {
			if strings.HasPrefix(tag, table.TagPrefix) {
				if err := l.Parts.Area.Lake.Untag(l.t.Context(), name, tag); err != nil {
					l.t.Fatal(err)
				}
			}
		}
		policy := table.Retention{Last: 1}
		if name == silverName {
			policy.Needed = needed
		}
		if _, err := l.Parts.Area.Lake.Expire(l.t.Context(), name, policy); err != nil {
			l.t.Fatal(err)
		}
	}
}

// rollBack moves silver and quarantine to one of silver's snapshots, as smelt rollback
// does.
func (l *lake) rollBack(rng *rand.Rand) {
	l.t.Helper()
	pair, err := silver.LoadPair(l.t.Context(), l.Parts.Area.Lake, "p")
	if err != nil {
		l.t.Fatal(err)
	}
	var to []int64
	for _, s := range pair.Silver.Snapshots() {
		if ledger.Has(s) {
			to = append(to, s.ID)
		}
	}
	id := to[rng.IntN(len(to))]
	if err := pair.Rollback(l.t.Context(), l.Parts.Area.Lake, id, ""); err != nil {
		l.t.Fatal(err)
	}
}
