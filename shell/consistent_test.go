package shell_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"smelt"
	"smelt/backfill"
	"smelt/internal/line"
	"smelt/internal/table"
	"smelt/shell"
	"smelt/silver"
)

// daily adds a second gold table, of days, to a pipeline.
func daily(p *smelt.Pipeline) {
	p.Gold = append(p.Gold, smelt.Model{Name: "daily", Window: 24 * time.Hour, Column: "day",
		SQL: "SELECT time_bucket(INTERVAL 1 DAY, event_time) AS day, count(*) AS readings FROM silver." + p.Name + " GROUP BY ALL"})
}

// odd counts what does not fit in the state that a statement sees: records in neither table or in both, and rows of gold that differ
// from its SQL.
const odd = `SELECT (SELECT count(*) FROM bronze) AS bronze,
	(SELECT count(*) FROM silver) + (SELECT count(*) FROM quarantine.agreed) - (SELECT count(*) FROM bronze) AS beside,
	(SELECT count(*) FROM (SELECT _partition_id, _partition_offset FROM silver UNION ALL SELECT _partition_id, _partition_offset FROM quarantine.agreed
		EXCEPT ALL SELECT _partition_id, _partition_offset FROM bronze)) AS twice,
	(SELECT count(*) FROM (SELECT time_bucket(INTERVAL 1 HOUR, event_time), city, count(*) FROM silver GROUP BY ALL EXCEPT ALL SELECT hour, city, readings FROM gold)) AS lacking,
	(SELECT count(*) FROM (SELECT hour, city, readings FROM gold EXCEPT ALL SELECT time_bucket(INTERVAL 1 HOUR, event_time), city, count(*) FROM silver GROUP BY ALL)) AS surplus,
	(SELECT coalesce(sum(readings), 0) FROM gold.agreed_daily) - (SELECT count(*) FROM silver) AS days`

// The answers of a consistent shell always fit: while events come in, backfills publish, and silver is rolled back.
func TestConsistent(t *testing.T) {
	t.Parallel()
	const reads = 10
	l := newLake(t, "agreed", daily)
	l.send(0, espoo)
	l.drain()
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	forever := func(do func() error) {
		work.Go(func() {
			for ctx.Err() == nil {
				if err := do(); err != nil && ctx.Err() == nil && !errors.Is(err, table.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	step := func(stage smelt.Stage) func() error {
		return func() error { _, err := stage.Step(ctx); return err }
	}
	n := 0
	forever(func() error {
		for range 5 {
			l.send(int32(n%2), reading("hel-001", fmt.Sprint(n%30), "C", fmt.Sprintf("2026-11-29T%02d:%02d:00Z", n/60%24, n%60)))
			n++
		}
		l.send(0, "!")
		_, err := l.line.Bronze.Step(ctx)
		return err
	})
	forever(step(l.line.Silver))
	for _, g := range l.line.Gold {
		forever(step(g))
	}
	rounds := 0
	forever(func() error { return l.disturb(ctx, &rounds) })

	config := l.config
	config.Consistent = true
	s, err := shell.Open(t.Context(), config)
	l.must(err)
	defer s.Close()
	states := map[string]bool{}
	for i := range reads {
		got := l.query(s, odd)
		if bronze, rest, _ := strings.Cut(got, ","); rest != "0,0,0,0,0" {
			t.Errorf("read %d: bronze %s, and %s do not fit", i, bronze, rest)
		} else {
			states[bronze] = true
		}
	}
	stop()
	work.Wait()
	if rounds < 2 || len(states) < 2 {
		t.Errorf("%d backfills and rollbacks, %d states: the test has lost its point", rounds, len(states))
	}
}

// disturb corrects a location and replays history, and every other time rolls silver
// back instead.
func (l *lake) disturb(ctx context.Context, rounds *int) error {
	*rounds++
	if *rounds%2 == 0 {
		return l.rollBack(ctx)
	}
	locate(l.references, [][3]string{{"hel-001", fmt.Sprint("City ", *rounds), "Finland"}})
	job, err := backfill.Open(ctx, line.SilverConfig(l.line.Pipeline, l.parts), backfill.Scope{ReferenceChanges: true})
	if err != nil {
		return err
	}
	_, err = job.Run(ctx, nil)
	return errors.Join(err, job.Close())
}

// rollBack takes silver and quarantine a snapshot back.
func (l *lake) rollBack(ctx context.Context) error {
	name := silver.TableName(l.line.Pipeline.Name)
	unlock, err := l.parts.Locker.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	pair, err := silver.LoadPair(ctx, l.config.Tables, l.line.Pipeline.Name)
	if err != nil {
		return err
	}
	chain := pair.Silver.Ancestors()
	return pair.Rollback(ctx, l.config.Tables, chain[min(1, len(chain)-1)].ID, "")
}
