package smelt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/pipetest"
	"smelt/internal/staging"
	"smelt/internal/table"
	"smelt/upkeep"
)

// simHeld is how many tags of another engine there are at most.
const simHeld = 4

// policy draws when maintenance does what: mostly at once.
func (w *world) policy() upkeep.Policy {
	return upkeep.Policy{
		FileBytes: int64(2<<10) << w.rng.IntN(6),
		Snapshots: 1 + w.rng.IntN(20), Grace: time.Nanosecond,
		BronzeGrace: time.Minute,
	}
}

// upkeep is what the maintenance of a process works with.
func (w *world) upkeep(area staging.Area, locks smelt.Locker, parts upkeep.Policy) upkeep.Config {
	return upkeep.Config{
		Pipeline: w.load.pipeline, Area: area, Duck: w.duck, Locker: locks, Log: discard(), Policy: parts,
	}
}

// maintain has a process do one task of maintenance on one table.
func (w *world) maintain() {
	p := w.processes[w.rng.IntN(len(w.processes))]
	if p.dead || p.stopped || p.frozen {
		return
	}
	tasks := upkeep.Tasks(p.upkeep)
	t := tasks[w.rng.IntN(len(tasks))]
	w.note("%s: %s %s", p.name, t.Kind, t.Table)
	w.start(p, "maintenance", func() error { return t.Do(p.ctx, w.maintained) })
}

// maintained counts what maintenance has done, by its kind.
func (w *world) maintained(j upkeep.Job, d upkeep.Done, _ time.Duration, err error) {
	if err == nil && d.Lost == "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.jobs[j.Kind]++
	}
}

// rewrite has another engine compact a table, without asking for a lock.
func (w *world) rewrite() error {
	tasks := slices.DeleteFunc(upkeep.Tasks(w.upkeep(w.check.area, pipetest.NewLocks(), w.policy())), func(t upkeep.Task) bool {
		return t.Kind != upkeep.KindCompact && t.Kind != upkeep.KindManifests
	})
	t := tasks[w.rng.IntN(len(tasks))]
	w.note("another engine: %s %s", t.Kind, t.Table)
	return t.Do(context.Background(), w.maintained)
}

// versions are what becomes of a pipeline: a column is added, it gets a wider type
// and the table is partitioned otherwise, then not at all, then all is as before.
var versions = []struct {
	column    string
	partition func(was []smelt.PartitionField) []smelt.PartitionField
}{
	{"", as},
	{"_partition_id + 1", as},
	{"2 * _partition_offset", func(was []smelt.PartitionField) []smelt.PartitionField {
		return append(slices.Clone(was), smelt.PartitionField{Transform: "identity", Column: "_partition_id"})
	}},
	{"2 * _partition_offset", func([]smelt.PartitionField) []smelt.PartitionField { return nil }},
	{"", as},
}

func as(was []smelt.PartitionField) []smelt.PartitionField { return was }

// deploy brings the next version of the pipeline out: processes that start from now
// on run it, beside those that run an older one.
func (w *world) deploy() {
	if w.version+1 < len(versions) {
		w.version++
		w.note("version %d of the pipeline is out", w.version)
	}
}

// deployed is the pipeline of a process that starts.
func (w *world) deployed() *smelt.Pipeline {
	p, v := *w.load.pipeline, versions[w.version]
	p.Silver.Partition = v.partition(p.Silver.Partition)
	if v.column != "" {
		p.Silver.SQL = strings.Replace(p.Silver.SQL, "FROM bronze", ", "+v.column+" AS extra FROM bronze", 1)
	}
	return &p
}

// held is a tag that another engine has set, and what it read there.
type held struct {
	table, tag string
	columns    []smelt.Column
	rows       string
}

// hold lets another engine tag a table and remember its rows, or remove a tag.
func (w *world) hold() error {
	if n := len(w.held); n == simHeld || n > 0 && w.rng.IntN(4) == 0 {
		h := w.held[w.rng.IntN(n)]
		w.held = slices.DeleteFunc(w.held, func(o held) bool { return o.tag == h.tag })
		w.note("another engine lets go of %s of %s", h.tag, h.table)
		return w.check.lake.Untag(w.check.ctx, h.table, h.tag)
	}
	names, err := w.check.lake.List(w.check.ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	name := names[w.rng.IntN(len(names))]
	t, err := w.check.lake.Load(w.check.ctx, name)
	if err != nil {
		return err
	}
	current, ok := t.Current()
	if !ok {
		return nil
	}
	h := held{table: name, tag: fmt.Sprintf("audit-%d", w.events), columns: t.Columns()}
	if h.rows, err = w.check.digest(t, current.ID, h.columns); err != nil {
		return err
	}
	w.held = append(w.held, h)
	w.note("another engine tags %s as %s", name, h.tag)
	return w.check.lake.Tag(w.check.ctx, name, h.tag, current.ID, 0)
}

// digest identifies the rows of a snapshot, in whatever files.
func (c *checker) digest(t *table.Table, snapshot int64, columns []smelt.Column) (string, error) {
	files, err := t.Files(c.ctx, snapshot)
	if err != nil {
		return "", err
	}
	paths, release, err := c.area.Fetch(c.ctx, files)
	if err != nil {
		return "", err
	}
	defer release()
	var rows string
	err = c.session.Row(c.ctx, fmt.Sprintf("SELECT count(*) || ' ' || coalesce(sum(hash(%s)::HUGEINT), 0) FROM %s",
		duck.Names(columns), duck.ReadParquet(columns, paths)), &rows)
	return rows, err
}

// kept checks that every tag of another engine reads as it did, and that no file
// is missing that a branch or a tag has.
func (c *checker) kept() error {
	for _, h := range c.w.held {
		t, err := c.lake.Load(c.ctx, h.table)
		if err != nil {
			return err
		}
		snapshot, ok := t.Refs()[h.tag]
		if !ok {
			return fmt.Errorf("%s has lost its tag %s", h.table, h.tag)
		}
		rows, err := c.digest(t, snapshot, h.columns)
		if err != nil {
			return fmt.Errorf("%s at %s: %w", h.table, h.tag, err)
		}
		if rows != h.rows {
			return fmt.Errorf("%s at %s reads %s rows and digest; it was %s", h.table, h.tag, rows, h.rows)
		}
	}
	names, err := c.lake.List(c.ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.whole(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// whole checks that each file is there which a branch or tag of a table has.
func (c *checker) whole(name string) error {
	t, err := c.lake.Load(c.ctx, name)
	if err != nil {
		return err
	}
	for ref, snapshot := range t.Refs() {
		files, err := t.Files(c.ctx, snapshot)
		if err != nil {
			return fmt.Errorf("at %s: %w", ref, err)
		}
		for _, f := range files {
			if _, err := c.area.Store.Stat(c.ctx, f.Key); err != nil {
				return fmt.Errorf("at %s: %w", ref, err)
			}
		}
	}
	return nil
}

// maintainAll has everything maintained that can be, once all trouble is over,
// until nothing is left to do.
func (w *world) maintainAll() error {
	p := w.processes[0]
	for round := 0; ; round++ {
		before := w.jobsDone()
		for _, t := range upkeep.Tasks(p.upkeep) {
			w.start(p, "maintenance", func() error { return t.Do(p.ctx, w.maintained) })
			if err := w.quiet(); err != nil {
				return err
			}
		}
		if w.jobsDone() == before {
			return nil
		}
		if round == 20 {
			return errors.New("maintenance finds something to do for ever: " + strings.Join(w.trace[len(w.trace)-5:], "\n"))
		}
	}
}

// jobsDone counts the jobs of maintenance that were done.
func (w *world) jobsDone() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, jobs := range w.jobs {
		n += jobs
	}
	return n
}
