// Package telemetry tells the world outside how the line is: metrics for
// Prometheus, and whether it lives and is ready.
package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"smelt"
	"smelt/internal/table"
)

// Metrics counts what the stages do. Labels are tables, pipelines and reasons, which are few; never keys, contents or errors. It is
// safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	records   *prometheus.CounterVec
	bytes     *prometheus.CounterVec
	repeated  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	failures  *prometheus.CounterVec
	retries   *prometheus.CounterVec
	conflicts *prometheus.CounterVec
	lag       *prometheus.GaugeVec
	delay     *prometheus.GaugeVec
	newest    *prometheus.GaugeVec
	assigned  *prometheus.GaugeVec
	rejected  *prometheus.GaugeVec
	unmatched *prometheus.GaugeVec
	stale     *prometheus.GaugeVec
	stopped   *prometheus.GaugeVec
	health    map[string]*prometheus.GaugeVec // by figure
	chores    *prometheus.CounterVec
	rewritten *prometheus.CounterVec
	due       *prometheus.GaugeVec

	mu     sync.Mutex
	stages map[string]error     // the outcome of the last step of each stage that is expected
	begun  map[string]time.Time // when the step began that is under way, by stage
}

// New makes the metrics.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), stages: map[string]error{}, begun: map[string]time.Time{}}
	counter := func(name, help string) *prometheus.CounterVec {
		return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "smelt", Name: name, Help: help}, []string{"table"}))
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "smelt", Name: name, Help: help}, labels))
	}
	m.records = counter("records_total", "Records that went through the stage that writes the table; for gold, windows recomputed.")
	m.bytes = counter("bytes_total", "Compressed bytes of bronze that the stage wrote (bronze) or read (silver).")
	m.repeated = counter("repeated_names_total", "Declared names that occurred again within a JSON object, and were ignored: the first one counts.")
	m.failures = counter("step_failures_total", "Steps that failed.")
	m.retries = counter("step_retries_total", "Steps that were tried again after a failure.")
	m.conflicts = counter("commit_conflicts_total", "Commits that lost a race against another writer.")
	m.duration = register(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "smelt", Name: "step_duration_seconds", Help: "How long steps took that did something.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2.5, 9), // 10 ms to 15 s
	}, []string{"table"}))
	m.lag = gauge("lag_records", "Records (for gold: silver rows) that the layer before has and the table has not.", "table")
	m.delay = gauge("lag_seconds", "Age of the oldest record that is not in the table yet; 0 without such records.", "table")
	m.newest = gauge("newest_event_timestamp_seconds", "Event time of the newest event in the table, in seconds since 1970.", "table")
	m.assigned = gauge("partitions", "Partitions of the topic that this process reads into the table.", "table")
	m.rejected = gauge("quarantined_records", "Records that were quarantined, by reason.", "pipeline", "reason")
	m.unmatched = gauge("unmatched_rows", "Rows that found no row in a reference table.", "pipeline")
	m.stale = gauge("stale_rows", "Rows that were enriched with an older version of a reference than the one that changed their row; absent while that is too much to count.", "pipeline", "reference")
	m.stopped = gauge("stopped_partitions", "Partitions that are not read until an operator decides: see smelt source.", "pipeline")
	m.health = map[string]*prometheus.GaugeVec{}
	for name, help := range map[string]string{
		"table_files":          "Data files of the table's newest snapshot.",
		"table_bytes":          "Bytes of those files.",
		"table_delete_files":   "Files of row-level deletes, which other engines make.",
		"table_snapshots":      "Snapshots that the table has, tagged ones among them.",
		"table_manifests":      "Manifests of the newest snapshot.",
		"table_metadata_bytes": "Bytes of the table's metadata file and of the newest snapshot's manifests.",
	} {
		m.health[name] = gauge(name, help, "table")
	}
	m.chores = register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "smelt", Name: "maintenance_jobs_total",
		Help: "Pieces of maintenance, by what became of them: done, lost to another writer, failed."}, []string{"table", "kind", "outcome"}))
	m.rewritten = register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "smelt", Name: "maintenance_written_bytes_total",
		Help: "Bytes that upkeep has rewritten."}, []string{"table", "kind"}))
	m.due = gauge("maintenance_due_timestamp_seconds", "When maintenance comes next, in seconds since 1970.", "table", "kind")
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func register[C prometheus.Collector](m *Metrics, c C) C {
	m.registry.MustRegister(c)
	return c
}

// slowStep is far above what a step takes while all that it needs answers: one that
// has been under way for longer waits, or has very much to do. It tells of a service
// that is silent before the step itself does, whose calls have 20 s and more.
const slowStep = 15 * time.Second

// Begin notes that a step of a stage begins: the line is not ready while it takes long.
func (m *Metrics) Begin(stage string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun[stage] = time.Now()
}

// trouble says by stage what keeps the line from being ready; nil: nothing.
func (m *Metrics) trouble(now time.Time) map[string]error {
	m.mu.Lock()
	defer m.mu.Unlock()
	stages := maps.Clone(m.stages)
	for name, err := range stages {
		quiet := err == nil || errors.Is(err, errNotYet)
		if begun, ok := m.begun[name]; ok && quiet && now.Sub(begun) > slowStep {
			stages[name] = fmt.Errorf("its step has been under way for %s: a service does not answer, or there is very much to do", now.Sub(begun).Round(time.Second))
		}
	}
	return stages
}

// Observe notes a step of a stage.
func (m *Metrics) Observe(stage string, p smelt.Progress, took time.Duration, err error) {
	m.records.WithLabelValues(stage).Add(float64(p.Records))
	m.bytes.WithLabelValues(stage).Add(float64(p.Bytes))
	m.repeated.WithLabelValues(stage).Add(float64(p.Repeated))
	if p.Records > 0 {
		m.duration.WithLabelValues(stage).Observe(took.Seconds())
	}
	if err != nil && !errors.Is(err, smelt.ErrStopped) {
		m.failures.WithLabelValues(stage).Inc()
	}
	if errors.Is(err, table.ErrConflict) {
		m.conflicts.WithLabelValues(stage).Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.begun, stage)
	last, expected := m.stages[stage]
	if !expected { // upkeep does not affect readiness
		return
	}
	if last != nil && !errors.Is(last, errNotYet) && !errors.Is(last, smelt.ErrStopped) {
		m.retries.WithLabelValues(stage).Inc()
	}
	m.stages[stage] = err
}

// Expect names the stages that the line is ready with. Their counters are there
// from then on: an alert on a rise must not miss the first one.
func (m *Metrics) Expect(stages ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range stages {
		m.stages[s] = errNotYet
		for _, c := range []*prometheus.CounterVec{m.records, m.bytes, m.failures, m.retries, m.conflicts} {
			c.WithLabelValues(s)
		}
	}
}

// NotYet is what is wrong with a stage before its first step has ended: nothing so far.
const NotYet = "has not been stepped yet"

var errNotYet = errors.New(NotYet)

// Layer is how a table stands.
type Layer struct {
	Known      bool // Lag and LagSeconds hold
	Lag        int64
	LagSeconds float64
	Newest     time.Time // zero: unknown
}

// Layer sets a table's gauges. Unknown values keep the last one.
func (m *Metrics) Layer(table string, l Layer) {
	if l.Known {
		m.lag.WithLabelValues(table).Set(float64(l.Lag))
		m.delay.WithLabelValues(table).Set(l.LagSeconds)
	}
	if !l.Newest.IsZero() {
		m.newest.WithLabelValues(table).Set(float64(l.Newest.UnixMicro()) / 1e6)
	}
}

// Partitions sets how many partitions this process reads into a table.
func (m *Metrics) Partitions(table string, n int) { m.assigned.WithLabelValues(table).Set(float64(n)) }

// Quality sets a pipeline's gauges of rejects.
func (m *Metrics) Quality(pipeline string, quarantined map[string]int64, unmatched int64) {
	for reason, n := range quarantined {
		m.rejected.WithLabelValues(pipeline, reason).Set(float64(n))
	}
	m.unmatched.WithLabelValues(pipeline).Set(float64(unmatched))
}

// Stopped sets how many partitions of a pipeline wait for an operator.
func (m *Metrics) Stopped(pipeline string, partitions int) {
	m.stopped.WithLabelValues(pipeline).Set(float64(partitions))
}

// Stale sets the gauges of rows that were enriched with older versions of a
// pipeline's references, by reference. One that is not there is not known.
func (m *Metrics) Stale(pipeline string, rows map[string]int64) {
	m.stale.DeletePartialMatch(prometheus.Labels{"pipeline": pipeline})
	for reference, n := range rows {
		m.stale.WithLabelValues(pipeline, reference).Set(float64(n))
	}
}

// Health is how a table is kept.
type Health struct {
	Files, Deletes, Snapshots, Manifests int64
	Bytes, MetadataBytes                 int64
}

// Health sets the gauges of how a table is kept.
func (m *Metrics) Health(table string, h Health) {
	for name, v := range map[string]float64{
		"table_files": float64(h.Files), "table_bytes": float64(h.Bytes), "table_delete_files": float64(h.Deletes),
		"table_snapshots": float64(h.Snapshots), "table_manifests": float64(h.Manifests), "table_metadata_bytes": float64(h.MetadataBytes),
	} {
		m.health[name].WithLabelValues(table).Set(v)
	}
}

// Maintained counts a piece of maintenance that has ended: done, lost or failed.
func (m *Metrics) Maintained(table, kind, outcome string, written int64) {
	m.chores.WithLabelValues(table, kind, outcome).Inc()
	m.rewritten.WithLabelValues(table, kind).Add(float64(written))
}

// Due says when a kind of maintenance comes next.
func (m *Metrics) Due(table, kind string, next time.Time) {
	m.due.WithLabelValues(table, kind).Set(float64(next.Unix()))
}
