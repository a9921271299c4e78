package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/gold"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/silver"
	"smelt/upkeep"
)

// Probe is how the state of a pipeline is looked at.
type Probe struct {
	Store     smelt.Store
	Lake      *table.Lake // nil: LakeError says why
	LakeError error

	// Describe asks the source, also for the epochs of some partitions' records.
	Describe func(ctx context.Context, p *smelt.Pipeline, epochs map[int32]int32) (smelt.Description, error)
	Live     func(context.Context) error // nil when smelt run answers

	// Group returns who shares the pipeline's partitions; nil: unknown.
	Group func(context.Context, *smelt.Pipeline) ([]Process, error)

	// Failing returns what is wrong with the stages of smelt run, by table; nil: unknown.
	Failing func(context.Context) (map[string]string, error)

	// CountStale counts the rows of silver that were enriched with older versions of
	// references, those without any left out; nil: it is not looked for.
	CountStale func(context.Context, *smelt.Pipeline, *table.Table) ([]Stale, error)
	// Due asks smelt run when maintenance comes next; nil: it is not asked.
	Due          func(context.Context) ([]upkeep.Due, error)
	CountObjects bool // list bronze, to count its objects
	Heals        bool // smelt run heals rows that found no reference row

	Restore string // the command that brings services back that do not answer; "" when only a person can
}

// Status is the state of one pipeline. Its keys in JSON are stable. What could
// not be read is null, and its stage's Unknown says why.
type Status struct {
	Pipeline     string           `json:"pipeline"`
	At           time.Time        `json:"at"`
	Running      bool             `json:"running"`
	Processes    []Process        `json:"processes"`     // that run the pipeline, here or elsewhere; null: not known
	Stages       []StageStatus    `json:"stages"`        // bronze, silver, and gold's models as declared
	Receipt      *Receipt         `json:"receipt"`       //
	FreshSeconds *float64         `json:"fresh_seconds"` // age of the newest event that all of gold has
	Blame        string           `json:"blame"`         // the stage whose oldest waiting record is the oldest; empty when nothing waits
	Quarantined  map[string]int64 `json:"quarantined"`   // by reason
	Unmatched    *int64           `json:"unmatched"`     // silver rows that found no reference row
	Stale        []Stale          `json:"stale"`         // silver rows that are older than a change of their reference row, by reference
	Tables       []TableHealth    `json:"tables"`        // how each table is kept: bronze, silver, quarantine, gold
	LastBackfill *Backfill        `json:"last_backfill"` // null: none is among silver's snapshots
	Stopped      []int32          `json:"stopped"`       // partitions that are not read until an operator decides; null: not known
	Trouble      []Trouble        `json:"trouble"`       // most important first

	here bool // smelt run answers
	errs []error
}

// Process is a smelt run that works on the pipeline.
type Process struct {
	Name       string   `json:"name"`       // see smelt.Instance
	Host       string   `json:"host"`       // where Kafka sees it
	Partitions []int32  `json:"partitions"` // that it reads
	Tables     []string `json:"tables"`     // of silver and gold, whose last step was its
}

// StageStatus is the state of one stage.
type StageStatus struct {
	Table      string            `json:"table"`
	Partitions []PartitionStatus `json:"partitions"`  // null for gold
	LagRecords *int64            `json:"lag_records"` // not through yet; for bronze offsets, for gold silver rows
	LagSeconds *float64          `json:"lag_seconds"` // age of the oldest of them; for bronze, an upper bound: since the last read from their partition
	Rows       *int64            `json:"rows"`
	Snapshots  *int              `json:"snapshots"`    // null for bronze
	Behind     *int              `json:"behind"`       // for gold: silver snapshots since the one that it was computed from
	Newest     *time.Time        `json:"newest_event"` // for bronze, the newest time that the broker gave a record of the last objects
	Unknown    string            `json:"unknown"`      // why something here is null
}

// PartitionStatus is how far a stage has got with one partition.
type PartitionStatus struct {
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"` // the next offset
	End       *int64 `json:"end"`      // of the stage's input
}

// Trouble is one thing that is wrong.
type Trouble struct {
	Message string `json:"message"`
	Command string `json:"command"` // that mends it or looks closer
}

// Err is nil when everything could be read, and else marked with the kind of
// what could not. It leaves the reasons to the status, which has them all.
func (s *Status) Err() error {
	failed := errors.Join(s.errs...)
	if failed == nil {
		return nil
	}
	err := fmt.Errorf("%s: not everything could be read", s.Pipeline)
	for _, kind := range []error{smelt.ErrSource, smelt.ErrStore, smelt.ErrDatabase, smelt.ErrPipeline} {
		if errors.Is(failed, kind) {
			return smelt.Mark(kind, err)
		}
	}
	return err
}

// gathering is a Status in the making.
type gathering struct {
	Probe
	*Status
	pipeline  *smelt.Pipeline
	reader    *bronze.Reader
	now       time.Time
	groupErr  error
	tables    tables
	tablesAt  time.Time // once they were loaded: no change of theirs is later, unless a clock is wrong
	tablesErr error
	ends      map[int32]bronze.Meta // of bronze's chains
	endsErr   error
	source    smelt.Description
	sourceErr error
	stops     []*bronze.Stop
	staleErr  error
	dueErr    error
	failing   map[string]string // by table
	failErr   error
}

// Gather looks at a pipeline: a few requests to each of the services.
func Gather(ctx context.Context, probe Probe, p *smelt.Pipeline, now time.Time) *Status {
	begun := time.Now()
	g := &gathering{
		Probe: probe, pipeline: p, reader: bronze.NewReader(probe.Store, p.Name), now: now,
		Status: &Status{Pipeline: p.Name, At: now.UTC(), Quarantined: map[string]int64{}, Trouble: []Trouble{}},
	}
	g.here = probe.Live(ctx) == nil
	if probe.Failing != nil && g.here {
		g.failing, g.failErr = probe.Failing(ctx)
	}
	if probe.Group != nil {
		g.Processes, g.groupErr = probe.Group(ctx, p)
	}
	g.Running = g.here || len(g.Processes) > 0
	if g.tablesErr = probe.LakeError; probe.Lake != nil {
		g.tables, g.tablesErr = load(ctx, probe.Lake, p)
	}
	g.tablesAt = now.Add(time.Since(begun))
	g.ends, g.endsErr = g.reader.Ends(ctx)
	g.source, g.sourceErr = probe.Describe(ctx, p, bronze.Epochs(g.ends))
	if g.endsErr == nil && g.sourceErr == nil {
		g.stops, g.Stopped = bronze.Stops(p.Name, g.ends, g.source), []int32{}
		for _, stop := range g.stops {
			g.Stopped = append(g.Stopped, stop.Partition)
		}
	}
	g.errs = []error{g.sourceErr, g.endsErr, g.tablesErr}

	g.Stages = append(g.Stages, g.bronzeStage(), g.silverStage(ctx))
	for _, m := range p.Gold {
		g.Stages = append(g.Stages, g.goldStage(ctx, m))
	}
	if g.tablesErr == nil {
		g.counts(ctx)
		g.lastBackfill()
		g.stale(ctx)
	}
	g.leaders()
	g.health(ctx)
	g.blame()
	g.trouble()
	return g.Status
}

// counts fills in what the ledgers count.
func (g *gathering) counts(ctx context.Context) {
	l := g.tables.silverLedger
	g.Quarantined = maps.Clone(l.Quarantined)
	if g.Quarantined == nil {
		g.Quarantined = map[string]int64{}
	}
	g.Unmatched = &l.Unmatched
	r, err := g.tables.receipt(ctx, g.pipeline, g.now)
	if err != nil {
		g.errs = append(g.errs, err)
		return
	}
	if g.endsErr == nil {
		r.OnTheirWay = max(0, chainRecords(g.ends)-r.Bronze)
	}
	g.Receipt, g.FreshSeconds = &r, r.FreshSeconds
}

// bronzeStage compares the chains' ends with the source's.
func (g *gathering) bronzeStage() StageStatus {
	s := StageStatus{Table: "bronze." + g.pipeline.Name}
	if g.endsErr != nil {
		s.Unknown = g.endsErr.Error()
		return s
	}
	total, lag, newest, written := chainRecords(g.ends), int64(0), smelt.NoTimestamp, time.Time{}
	s.Rows = &total
	for _, id := range keys(g.ends, g.source.Partitions) {
		end, has := g.ends[id]
		at := PartitionStatus{Partition: id, Position: end.End}
		if extent, known := g.source.Partitions[id]; known {
			waiting := extent.End - (end.End - end.Base)
			if !has {
				at.Position, waiting = extent.Start, extent.End-extent.Start
			}
			if i := slices.IndexFunc(g.stops, func(s *bronze.Stop) bool { return s.Partition == id }); i >= 0 {
				waiting = max(0, extent.End-g.stops[i].From())
			}
			log := at.Position + waiting // in the lake's offsets
			at.End = &log
			if waiting > 0 {
				lag += waiting
				if has && (written.IsZero() || end.Written.Before(written)) {
					written = end.Written
				}
			}
		}
		newest = max(newest, end.MaxTimestamp)
		s.Partitions = append(s.Partitions, at)
	}
	if newest > 0 {
		t := time.UnixMilli(newest).UTC()
		s.Newest = &t
	}
	if g.sourceErr != nil {
		s.Unknown = g.sourceErr.Error()
		return s
	}
	s.LagRecords, s.LagSeconds = &lag, lagSeconds(lag, written, g.now)
	return s
}

// silverStage compares silver's position with the chains' ends.
func (g *gathering) silverStage(ctx context.Context) StageStatus {
	s := StageStatus{Table: "silver." + g.pipeline.Name}
	if g.tablesErr != nil {
		s.Unknown = g.tablesErr.Error()
		return s
	}
	l := g.tables.silverLedger
	g.table(ctx, &s, g.tables.silver)
	if !l.Newest.IsZero() {
		s.Newest = &l.Newest
	}
	if g.endsErr != nil {
		s.Unknown = g.endsErr.Error()
	}
	for _, id := range keys(l.Position, g.ends) {
		at := PartitionStatus{Partition: id, Position: l.Position[id]}
		if end, ok := g.ends[id]; ok {
			at.End = &end.End
		}
		s.Partitions = append(s.Partitions, at)
	}
	if s.Unknown != "" {
		return s
	}
	lag := max(0, chainRecords(g.ends)-l.Records)
	oldest, err := g.oldestWaiting(ctx)
	if err != nil {
		g.errs = append(g.errs, err)
		s.Unknown = err.Error()
		return s
	}
	s.LagRecords, s.LagSeconds = &lag, lagSeconds(lag, oldest, g.now)
	return s
}

// goldStage compares the silver snapshot that a table was computed from with
// silver's newest.
func (g *gathering) goldStage(ctx context.Context, m smelt.Model) StageStatus {
	s := StageStatus{Table: gold.TableName(g.pipeline.Name, m.Name)}
	if g.tablesErr != nil {
		s.Unknown = g.tablesErr.Error()
		return s
	}
	i := slices.IndexFunc(g.tables.gold, func(t goldTable) bool { return t.name == s.Table })
	t := g.tables.gold[i]
	g.table(ctx, &s, t.table)
	if !t.ledger.Newest.IsZero() {
		s.Newest = &t.ledger.Newest
	}
	if s.Unknown != "" {
		return s
	}
	lag := g.tables.silverLedger.Rows() - t.ledger.SilverRows
	behind, since := 0, time.Time{}
	if g.tables.silver != nil {
		if then, ok, err := ledger.At[ledger.Silver](g.tables.silver, t.ledger.SilverSnapshot); err == nil && ok {
			lag += g.tables.silverLedger.Retired - then.Retired // it had them, or they would be there
		}
		for _, a := range g.tables.silver.Ancestors() {
			if a.ID == t.ledger.SilverSnapshot {
				break
			}
			behind, since = behind+1, a.Time
		}
	}
	lag = max(0, lag)
	s.Behind, s.LagRecords, s.LagSeconds = &behind, &lag, lagSeconds(lag, since, g.now)
	return s
}

// table fills in the rows and snapshots of a table.
func (g *gathering) table(ctx context.Context, s *StageStatus, t *table.Table) {
	n, err := rows(ctx, t)
	if err != nil {
		g.errs = append(g.errs, err)
		s.Unknown = err.Error()
		return
	}
	snapshots := 0
	if t != nil {
		snapshots = len(t.Snapshots())
	}
	s.Rows, s.Snapshots = &n, &snapshots
}

// leaders notes which process made the last step of each table.
func (g *gathering) leaders() {
	note := func(name string, t *table.Table) {
		if t == nil {
			return
		}
		for _, a := range t.Ancestors() {
			if !ledger.Has(a) || a.Summary[ledger.Maintenance] != "" || a.Summary[ledger.BackfillID] != "" {
				continue
			}
			i := slices.IndexFunc(g.Processes, func(p Process) bool { return p.Name == a.Summary[table.AppID] })
			if i >= 0 {
				g.Processes[i].Tables = append(g.Processes[i].Tables, name)
			}
			return
		}
	}
	note(silver.TableName(g.pipeline.Name), g.tables.silver)
	for _, t := range g.tables.gold {
		note(t.name, t.table)
	}
}

// lagSeconds is the age of the oldest record that waits; 0 when none does.
func lagSeconds(lag int64, oldest, now time.Time) *float64 {
	var none float64
	if lag == 0 {
		return &none
	}
	return since(oldest, now)
}

// blame finds the stage that waits longest.
func (g *gathering) blame() {
	longest := 0.0
	for _, s := range g.Stages {
		if s.LagSeconds != nil && *s.LagSeconds > longest {
			longest, g.Blame = *s.LagSeconds, s.Table
		}
	}
}

// say notes a trouble.
func (g *gathering) say(command, format string, args ...any) {
	g.Trouble = append(g.Trouble, Trouble{fmt.Sprintf(format, args...), command})
}
