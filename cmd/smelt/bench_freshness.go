//go:build bench

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/table"
)

// benchFreshnessCmd measures how long events of a stream take to gold.
type benchFreshnessCmd struct {
	For time.Duration `default:"10m" help:"Events of so long are measured."`
}

// commitsEvery is how often gold's new snapshots are read, far more often than snapshots expire.
const commitsEvery = 5 * time.Second

// Run waits while events come and arrive in gold, and then looks each of them up.
func (c *benchFreshnessCmd) Run(ctx context.Context, s *settings, io *streams, bench *benchCmd) error {
	stream, err := s.openStream(ctx)
	if err != nil {
		return err
	}
	defer stream.lake.Close()
	if err := stream.live(ctx); err != nil {
		return err
	}
	a := arrivals{stream: stream, table: gold.TableName(stream.pipeline.Name, stream.pipeline.Gold[0].Name)}
	from := time.Now().Truncate(time.Millisecond)
	to := from.Add(c.For)
	for deadline := to.Add(benchLive); a.newest.Before(to); {
		if err := a.note(ctx); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("gold does not have all events %s after the last one", benchLive)
		}
		if !pause(ctx, commitsEvery) {
			return context.Cause(ctx)
		}
	}
	samples, err := a.latencies(ctx, from, to)
	if err != nil {
		return err
	}
	return bench.Samples.record(io.Out, samples...)
}

// arrivals are the commits of a gold table.
type arrivals struct {
	stream *stream
	table  string
	newest time.Time // event that is in gold
	commit []arrival // the oldest first
}

// arrival is a commit, and up to where silver had each partition.
type arrival struct {
	id       int64
	at       time.Time
	position map[int32]int64
}

// note adds the commits that are new. Silver is loaded after gold: so it has all
// snapshots that gold was computed from.
func (a *arrivals) note(ctx context.Context) error {
	t, err := a.stream.lake.Tables.Load(ctx, a.table)
	if err != nil {
		return err
	}
	silver, err := a.stream.silver(ctx)
	if err != nil {
		return err
	}
	var last int64
	if n := len(a.commit); n > 0 {
		last = a.commit[n-1].id
	}
	var fresh []arrival
	for _, s := range t.Ancestors() {
		if s.ID == last {
			break
		}
		computed, ok, err := ledger.Of[ledger.Gold](s)
		if err != nil {
			return err
		}
		if !ok || s.Summary[ledger.Maintenance] != "" {
			continue
		}
		taken, err := a.taken(silver, computed)
		if err != nil {
			return err
		}
		fresh = append(fresh, arrival{s.ID, s.Time, taken})
		if computed.Newest.After(a.newest) {
			a.newest = computed.Newest
		}
	}
	slices.Reverse(fresh)
	a.commit = append(a.commit, fresh...)
	return nil
}

// taken is up to where silver had each partition when gold was computed.
func (a *arrivals) taken(silver *table.Table, computed ledger.Gold) (map[int32]int64, error) {
	l, ok, err := ledger.At[ledger.Silver](silver, computed.SilverSnapshot)
	if err == nil && !ok {
		err = fmt.Errorf("silver no longer has the snapshot %d, which %s was computed from", computed.SilverSnapshot, a.table)
	}
	return l.Position, err
}

// latencies looks up, for each event of a time, the first commit that has it.
func (a *arrivals) latencies(ctx context.Context, from, to time.Time) ([]benchSample, error) {
	var values []string
	commits := 0.0
	for _, c := range a.commit {
		for partition, position := range c.position {
			values = append(values, fmt.Sprintf("(%d, %d, %d)", partition, position, c.at.UnixMilli()))
		}
		if c.at.After(from) && c.at.Before(to) {
			commits++
		}
	}
	query := fmt.Sprintf(`, arrivals AS (
			SELECT partition_id, position, min(committed) AS committed
			FROM (VALUES %[1]s) AS v(partition_id, position, committed)
			GROUP BY ALL
		), latencies AS (
			SELECT (a.committed - epoch_ms(r.%[2]s)) / 1000 AS latency
			FROM (FROM rows WHERE epoch_ms(%[2]s) >= %[3]d AND epoch_ms(%[2]s) < %[4]d) AS r
			ASOF LEFT JOIN arrivals AS a ON r._partition_id = a.partition_id AND r._partition_offset < a.position
		)
		SELECT count(*), count(latency), coalesce(quantile_cont(latency, 0.5), 0), coalesce(quantile_cont(latency, 0.95), 0),
			coalesce(quantile_cont(latency, 0.99), 0), coalesce(max(latency), 0)
		FROM latencies`,
		strings.Join(values, ", "), duck.Quote(a.stream.pipeline.Events.Time), from.UnixMilli(), to.UnixMilli())
	var events, found int64
	var p50, p95, p99, most float64
	if err := a.stream.ask(ctx, query, &events, &found, &p50, &p95, &p99, &most); err != nil {
		return nil, err
	}
	if found < events || events == 0 {
		return nil, fmt.Errorf("%d of %d events are in no commit of %s that was seen", events-found, events, a.table)
	}
	const of = "event to gold"
	return []benchSample{
		{of, p95, "s at p95"}, {of, p50, "s at p50"}, {of, p99, "s at p99"}, {of, most, "s at most"},
		{"generator", float64(events) / to.Sub(from).Seconds(), "events/s"},
		{a.table, commits / to.Sub(from).Minutes(), "commits a minute"},
	}, nil
}
