package smelt_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/ingest"
	"smelt/internal/duck"
	"smelt/internal/pipetest"
	"smelt/internal/store"
	"smelt/internal/table"
)

const (
	simPartitions = 3
	simProcesses  = 3
	// simTrace is how many events a failure prints.
	simTrace = 50
	// simCheck is how many events lie between two checks.
	simCheck = 200
)

// workload is a pipeline and how its records are made.
type workload struct {
	pipeline *smelt.Pipeline
	make     func(*maker) made
	id, at   string // columns of silver
	number   string
	enriched bool // silver has the city of a location
	moody    bool // whether a record fits depends on its location
}

// world is everything outside of the processes. It lives in a bubble of
// testing/synctest, where a call of a process to the outside waits at the gate:
// once every goroutine waits, the world draws what happens next. So one thing
// happens at a time, time passes when the world says so, and a seed tells the
// whole story.
type world struct {
	load  workload
	rng   *rand.Rand
	maker *maker
	check *checker
	dir   string

	topic      *ingest.Log
	sent       [simPartitions][]made // by partition, in order
	end        [simPartitions]int64
	objects    *store.Memory
	catalog    *table.MemoryCatalog
	references *pipetest.References
	places     []map[string]string // city by sensor, by version
	locks      *pipetest.Locks
	duck       *duck.DB

	cacheBytes int64
	batchBytes int
	faults     float64 // probability that a call meets one
	rollbacks  bool    // silver is rolled back at times, so that not everything goes forward

	processes []*process
	lives     int
	events    int
	published int // backfills
	steps     map[string]int
	jobs      map[string]int // of maintenance that were done, by kind
	version   int            // of the pipeline, for processes that start
	held      []held
	trace     []string

	mu      sync.Mutex
	waiting []*call
	ended   []ending
}

// ending is the end of a stage's step.
type ending struct {
	p     *process
	stage string
	err   error
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%5d  ", w.events)+fmt.Sprintf(format, args...))
	if len(w.trace) > 2*simTrace {
		w.trace = slices.Clone(w.trace[simTrace:])
	}
}

// run lets events happen, checks the promises now and then, and once more when
// all trouble is over.
func (w *world) run(events int) error {
	for w.events < events {
		if err := w.settle(); err != nil {
			return err
		}
		if err := w.event(); err != nil {
			return err
		}
		if w.events++; w.events%simCheck == 0 {
			if err := w.check.all(); err != nil {
				return err
			}
		}
	}
	return w.heal()
}

// settle waits until nothing moves, and looks at the steps that have ended.
func (w *world) settle() error {
	synctest.Wait()
	w.mu.Lock()
	ended := w.ended
	w.ended = nil
	w.mu.Unlock()
	for _, e := range ended {
		delete(e.p.running, e.stage)
		if e.stage == prepare && e.err == nil {
			e.p.prepared = true
		}
		w.steps[strings.SplitN(e.stage, ".", 2)[0]]++
		if e.err != nil {
			w.note("%s: %s failed: %v", e.p.name, e.stage, e.err)
			if err := w.excuse(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// excuse says which errors a step may end with: those of the world, and a race
// that was lost. Others are of smelt's making.
func (w *world) excuse(e ending) error {
	switch {
	case errors.Is(e.err, store.ErrInjected), errors.Is(e.err, table.ErrConflict), errors.Is(e.err, table.ErrOld):
		return nil
	case e.p.dead || e.p.stopped && errors.Is(e.err, context.Canceled):
		return nil
	case errors.Is(e.err, smelt.ErrNotFound), errors.Is(e.err, context.DeadlineExceeded):
		return nil // it expired while it was read, or a night passed in the middle of a commit
	case strings.Contains(e.err.Error(), "re-created"), strings.Contains(e.err.Error(), "read anew"), errors.Is(e.err, smelt.ErrStopped):
		return nil // it has yet to notice that the topic is another one, and that this was accepted
	}
	return fmt.Errorf("%s: step of %s: %w", e.p.name, e.stage, e.err)
}

// event makes one thing happen.
func (w *world) event() error {
	switch n := w.rng.IntN(1000); {
	case n < 40:
		w.produce()
	case n < 140:
		w.step()
	case n < 160:
		w.rebalance()
	case n < 163:
		w.crash()
	case n < 165:
		w.stop()
	case n < 185:
		return w.reopen()
	case n < 193:
		w.freeze()
	case n < 205:
		w.thaw()
	case n < 209:
		w.correct()
	case n < 212:
		return w.foreign()
	case n < 218:
		w.expire()
	case n < 223:
		w.backfill()
	case n < 224 && w.rollbacks:
		w.rollback()
	case n < 244:
		w.maintain()
	case n < 247:
		return w.rewrite()
	case n < 249:
		return w.hold()
	case n < 250:
		w.deploy()
	case n < 265:
		return w.recreate()
	case n < 275:
		w.pass()
	default:
		if !w.release(w.faults) {
			w.pass()
		}
	}
	return nil
}

func (w *world) produce() {
	partition := int32(w.rng.IntN(simPartitions))
	if w.rng.IntN(6) == 0 {
		n := int64(1 + w.rng.IntN(5))
		w.note("a hole of %d in partition %d", n, partition)
		w.topic.Skip(partition, n)
		w.end[partition] += n
	}
	n := 1 + w.rng.IntN(8)
	w.note("%d records in partition %d from %d", n, partition, w.end[partition])
	for range n {
		m := w.load.make(w.maker)
		m.Partition, m.Offset = partition, w.end[partition]
		w.end[partition]++
		w.sent[partition] = append(w.sent[partition], m)
		w.topic.Append(m.Record)
	}
}

// recreate deletes and re-creates the topic after bronze has read all of it, and an operator accepts that.
func (w *world) recreate() error {
	ctx, reader := context.Background(), bronze.NewReader(w.objects, w.load.pipeline.Name)
	ends := map[int32]bronze.Meta{}
	for p := range int32(simPartitions) {
		last, err := reader.Last(ctx, p)
		switch {
		case errors.Is(err, smelt.ErrNotFound) && w.end[p] == 0:
			continue
		case errors.Is(err, smelt.ErrNotFound) || err == nil && last.End != w.end[p]:
			return nil // something has not been read
		case err != nil:
			return err
		}
		ends[p] = last
	}
	w.note("the topic is re-created")
	w.topic.Recreate()
	looked := w.topic.Open(nil)
	source, err := looked.Describe(ctx)
	if err = errors.Join(err, looked.Close()); err != nil {
		return err
	}
	for _, stop := range bronze.Stops(w.load.pipeline.Name, ends, source) {
		seam, err := bronze.Sew(ctx, w.objects, stop, stop.From(), "", bronze.Zstd)
		if err != nil {
			return err
		}
		w.end[stop.Partition] = seam.End
		w.steps["seams"]++
	}
	return nil
}

// prepare is the name of what a process does before it steps its stages.
const prepare = "prepare"

// step begins a step of a stage that is idle.
func (w *world) step() {
	p := w.processes[w.rng.IntN(len(w.processes))]
	stages := p.stages()
	if p.dead || p.stopped || p.frozen {
		return
	}
	i := w.rng.IntN(len(stages) + 2)
	w.begin(p, stages[max(0, i-2)]) // bronze thrice as often: the others have nothing to do without it
}

func (w *world) begin(p *process, s smelt.Stage) {
	if !p.prepared { // as it begins its life
		w.start(p, prepare, func() error { return p.line.Prepare(p.ctx) })
		return
	}
	w.start(p, s.Name(), func() error {
		done, err := s.Step(p.ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		p.more = done.More
		return err
	})
}

func (w *world) start(p *process, name string, step func() error) {
	if p.running[name] {
		return
	}
	p.running[name] = true
	w.note("%s: step %s", p.name, name)
	go func() {
		err := step()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = append(w.ended, ending{p, name, err})
	}()
}

// rebalance assigns a partition to a process, which reads on at once. The former owner does not know yet. Sometimes it is just about
// to put what it has read, and sleeps first.
func (w *world) rebalance() {
	partition, p := int32(w.rng.IntN(simPartitions)), w.processes[w.rng.IntN(len(w.processes))]
	if w.rng.IntN(3) > 0 {
		w.mu.Lock()
		for _, c := range w.waiting {
			if at, ok := strings.CutPrefix(c.op, "put bronze/"+w.load.pipeline.Name+"/"); ok && c.p != p {
				partition, c.p.frozen = int32(at[0]-'0'), true
			}
		}
		w.mu.Unlock()
	}
	if p.source == nil || p.dead {
		return
	}
	w.note("partition %d goes to %s", partition, p.name)
	w.topic.Assign(partition, p.source)
	if p.frozen = false; !p.stopped {
		w.begin(p, p.line.Bronze)
	}
}

// crash ends a process at once.
func (w *world) crash() {
	p := w.processes[w.rng.IntN(len(w.processes))]
	if !p.dead && !w.spared(p) {
		w.note("%s crashes", p.name)
		w.kill(p)
	}
}

// kill makes a process dead: its calls at the gate fail.
func (w *world) kill(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.dead, p.frozen = true, false
	w.waiting = slices.DeleteFunc(w.waiting, func(c *call) bool {
		if c.p == p {
			c.reply <- verdict{fault: store.Crash}
		}
		return c.p == p
	})
}

// stop stops a process: bronze puts what it has polled.
func (w *world) stop() {
	p := w.processes[w.rng.IntN(len(w.processes))]
	if p.dead || p.stopped || w.spared(p) {
		return
	}
	w.note("%s is told to stop", p.name)
	p.stopped, p.frozen = true, false
	p.cancel()
}

// reopen starts again the processes that have ended.
func (w *world) reopen() error {
	for i, p := range w.processes {
		if !p.dead && !p.stopped || len(p.running) > 0 {
			continue
		}
		if err := p.close(); err != nil {
			return err
		}
		w.lives++
		next, err := w.open(fmt.Sprintf("%c%d", 'A'+i, w.lives), p.dir)
		if err != nil {
			return err
		}
		w.note("%s starts in place of %s", next.name, p.name)
		w.processes[i] = next
	}
	return nil
}

// close releases what a process holds; nothing of it may run.
func (p *process) close() error {
	p.cancel()
	return p.line.Close()
}

// freeze blocks a process's calls, as if its machine were paused.
func (w *world) freeze() {
	p := w.processes[w.rng.IntN(len(w.processes))]
	if !p.dead && !p.stopped && !p.frozen && !w.spared(p) {
		w.note("%s freezes", p.name)
		p.frozen = true
	}
}

func (w *world) thaw() {
	p := w.processes[w.rng.IntN(len(w.processes))]
	if p.frozen {
		w.note("%s wakes", p.name)
		p.frozen = false
	}
}

// correct changes the place of a sensor, or takes it away.
func (w *world) correct() {
	sensors := simSensors[:3]
	places := maps.Clone(w.places[len(w.places)-1])
	sensor := sensors[w.rng.IntN(len(sensors))]
	delete(places, sensor)
	if w.rng.IntN(4) > 0 {
		places[sensor] = fmt.Sprintf("City %d", len(w.places))
		if w.rng.IntN(3) == 0 {
			places[sensor] = nowhere
		}
	}
	w.note("%s is in %q", sensor, places[sensor])
	w.locate(places)
}

func (w *world) locate(places map[string]string) {
	text := smelt.Type{Name: "varchar"}
	var rows [][]any
	for _, sensor := range slices.Sorted(maps.Keys(places)) {
		rows = append(rows, []any{sensor, places[sensor], "Land of " + places[sensor]})
	}
	w.places = append(w.places, places)
	w.references.Set("locations", []smelt.Column{{Name: "sensor_id", Type: text}, {Name: "city", Type: text}, {Name: "country", Type: text}}, rows)
}

// foreign commits snapshots that change nothing and carry no ledger, as another
// engine's maintenance does; so many that snapshots are to expire.
func (w *world) foreign() error {
	names, err := w.check.lake.List(context.Background())
	if err != nil || len(names) == 0 {
		return err
	}
	name, n := names[w.rng.IntN(len(names))], 1+w.rng.IntN(60)
	w.note("another engine commits %d times to %s", n, name)
	for range n {
		t, err := w.check.lake.Load(context.Background(), name)
		if err != nil {
			return err
		}
		if _, err := t.Commit(context.Background(), table.Change{}); err != nil {
			return err
		}
	}
	return nil
}

// expire has a process drop old snapshots, also ones that gold is to go on from.
func (w *world) expire() {
	p := w.processes[w.rng.IntN(len(w.processes))]
	if p.dead || p.stopped || p.frozen {
		return
	}
	last, spare := 1+w.rng.IntN(10), w.rng.IntN(2) == 0
	w.start(p, "expiry", func() error {
		names, err := p.lake.List(p.ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			policy := table.Retention{Last: last, Grace: time.Nanosecond}
			if policy.Needed, err = w.needed(p, name, spare); err != nil {
				return err
			}
			if _, err = p.lake.Expire(p.ctx, name, policy); err != nil {
				return err
			}
		}
		return nil
	})
}

// pass lets time pass: usually a flush interval, sometimes a night or some days.
func (w *world) pass() {
	d := simFlush
	switch n := w.rng.IntN(1000); {
	case n < 2:
		d = 4 * 24 * time.Hour // long enough for what nobody refers to
	case n < 10:
		d = 10 * time.Hour
	case n < 50:
		d = time.Minute
	}
	time.Sleep(d)
}

// release lets one call go on, with a fault perhaps. It returns false when none
// waits.
func (w *world) release(faults float64) bool {
	w.mu.Lock()
	ready := slices.DeleteFunc(slices.Clone(w.waiting), func(c *call) bool { return c.p.frozen })
	w.mu.Unlock()
	if len(ready) == 0 {
		return false
	}
	if some := slices.DeleteFunc(slices.Clone(ready), func(c *call) bool { return !c.p.hurries() }); len(some) > 0 && w.rng.IntN(4) > 0 {
		ready = some
	}
	slices.SortStableFunc(ready, func(a, b *call) int { return cmp.Or(cmp.Compare(a.p.name, b.p.name), cmp.Compare(a.op, b.op)) })
	c := ready[w.rng.IntN(len(ready))]
	v := verdict{lost: w.rng.IntN(4) > 0}
	switch { // those that decide what has happened fail most often
	case strings.HasPrefix(c.op, "swap"):
		faults *= 15
	case strings.HasPrefix(c.op, "put"):
		faults *= 3
	}
	if c.p.hurries() {
		faults /= 20
	}
	if w.rng.Float64() < faults {
		v.fault = []store.Fault{store.FailBefore, store.FailBefore, store.FailAfter, store.FailAfter, store.FailAfter, store.Crash, store.CrashAfter}[w.rng.IntN(7)]
	}
	w.note("%s: %s%s", c.p.name, c.op, []string{"", " fails", " is done, the reply is lost", ": crash before", ": crash after"}[v.fault])
	w.mu.Lock()
	w.waiting = slices.DeleteFunc(w.waiting, func(o *call) bool { return o == c })
	w.mu.Unlock()
	c.reply <- v
	if v.fault == store.Crash || v.fault == store.CrashAfter {
		synctest.Wait()
		w.kill(c.p)
	}
	return true
}

// heal ends all trouble, lets every process do its work, and checks that nothing
// is missing.
func (w *world) heal() error {
	w.note("all trouble ends")
	for _, p := range w.processes {
		p.frozen = false
	}
	if err := w.quiet(); err != nil {
		return err
	}
	if err := w.reopen(); err != nil {
		return err
	}
	if err := w.check.all(); err != nil {
		return err
	}
	for round := 0; round < 2; round++ {
		for _, p := range w.processes {
			if w.begin(p, p.line.Bronze); !p.prepared {
				if err := w.quiet(); err != nil {
					return err
				}
			}
			for _, s := range append(p.stages(), p.stages()...) {
				for p.more = true; p.more; {
					w.begin(p, s)
					if err := w.quiet(); err != nil {
						return err
					}
				}
			}
			if p.source != nil && round == 0 {
				for i := range int32(simPartitions) {
					w.topic.Assign(i, p.source)
				}
			}
		}
	}
	if err := w.check.complete(); err != nil {
		return err
	}
	time.Sleep(4 * 24 * time.Hour) // for what is put off
	if err := w.maintainAll(); err != nil {
		return err
	}
	if err := w.check.complete(); err != nil {
		return err
	}
	return w.correctAll()
}

// quiet lets every step that has begun come to its end, without faults.
func (w *world) quiet() error {
	for {
		if err := w.settle(); err != nil {
			return err
		}
		busy := false
		for _, p := range w.processes {
			busy = busy || len(p.running) > 0
		}
		if !busy {
			return nil
		}
		if !w.release(0) {
			time.Sleep(simFlush)
		}
	}
}

// close ends every process.
func (w *world) close() error {
	var errs []error
	for _, p := range w.processes {
		w.kill(p)
	}
	for synctest.Wait(); ; synctest.Wait() {
		_ = w.settle()
		if !slices.ContainsFunc(w.processes, func(p *process) bool { return len(p.running) > 0 }) {
			break
		}
		time.Sleep(time.Second) // a retry's pause
	}
	for _, p := range w.processes {
		errs = append(errs, p.close())
	}
	return errors.Join(append(errs, w.check.close(), w.duck.Close())...)
}
