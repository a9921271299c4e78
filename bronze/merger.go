package bronze

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"smelt"
)

// DefaultGrace is how long objects stay after they were merged, for those who
// have listed them and not read them yet.
const DefaultGrace = time.Hour

// LeastGrace is the shortest grace period: a writer may rely on what it knows of a chain's
// end for that long.
const LeastGrace = trust

const (
	// planPages is how many pages a plan lists of a partition: 64,000 objects, a day
	// of an object every 1.4 s. Of a longer chain it sees the beginning, and the rest
	// once that was merged and cleaned.
	planPages = 64

	// planStats bounds the objects of a partition whose metadata one plan reads for the first
	// time: merged ones, two years of days, and possible seams. The next plan reads the rest.
	planStats = 1000

	// stats is how many metadata requests run in parallel.
	stats = 16
)

// MergerConfig says what a Merger merges.
type MergerConfig struct {
	Pipeline string
	Store    smelt.Store
	Log      *slog.Logger

	ID    string        // tells this merger from every other that ever was; random when empty
	Codec Codec         // of merged objects; Zstd when empty
	Grace time.Duration // DefaultGrace when zero; LeastGrace at least
	Dir   string        // for an object in the making; the system's when empty
}

// Merger keeps chains short. It merges the small objects of an hour, and those of a day,
// after hour and day are over. It deletes merged members after Grace, and retires old
// records. At one event a second there are 24 objects for today and one for each earlier
// day. Each byte is written three times: by the writer, with its hour and with its day.
//
// Nothing is overwritten, and a merged object is usable as soon as it exists. So mergers
// may run in parallel and die at any moment.
//
// The last object of a chain is never merged, nor any object that ends after silver's
// position. So a reader that follows the end of a chain by object names meets writers'
// objects only.
//
// A Merger is safe for concurrent use.
type Merger struct {
	cfg    MergerConfig
	reader *Reader

	mu      sync.Mutex
	written map[string]writing // by key: merged objects and possible seams
}

// writing is when an object was written, of a merged one its last member.
type writing struct {
	at   time.Time
	seam bool // it is one
}

// NewMerger returns a merger.
func NewMerger(cfg MergerConfig) *Merger {
	cfg.ID = cmp.Or(cfg.ID, rand.Text())
	cfg.Codec = cmp.Or(cfg.Codec, Zstd)
	cfg.Grace = max(cmp.Or(cfg.Grace, DefaultGrace), LeastGrace)
	return &Merger{cfg: cfg, reader: NewReader(cfg.Store, cfg.Pipeline), written: map[string]writing{}}
}

// MergePlan is the work on a pipeline's bronze.
type MergePlan struct {
	Objects   int   // that are there now, as far as they were listed
	Bytes     int64 // of them, compressed
	Runs      []Run // to merge, independent of each other
	Leftovers []Leftovers
}

// Run is a stretch of a chain to be made one object.
type Run struct {
	Partition  int32
	Start, End int64     // positions
	Objects    int       // that it has now
	Bytes      int64     // of them, compressed
	When       time.Time // the hour or the day in which they were written; of a retirement, before when
	Day        bool

	members []Ref
}

// String says which stretch it is.
func (r Run) String() string {
	when := r.When.Format("2006-01-02 15:00")
	if r.Day {
		when = r.When.Format(time.DateOnly)
	}
	return fmt.Sprintf("partition %d, %s: %d objects", r.Partition, when, r.Objects)
}

func newRun(partition int32, members []Ref) Run {
	run := Run{Partition: partition, Start: members[0].From, End: members[len(members)-1].next, Objects: len(members), members: members}
	for _, ref := range members {
		run.Bytes += ref.Size
	}
	return run
}

// Plan finds what to merge and what to clean now. below has silver's position per partition.
// It lists each chain and reads the metadata of each merged object once. It changes
// nothing.
func (m *Merger) Plan(ctx context.Context, below map[int32]int64, now time.Time) (MergePlan, error) {
	var plan MergePlan
	partitions, err := m.reader.Partitions(ctx)
	if err != nil {
		return plan, err
	}
	there := map[string]bool{}
	for _, id := range partitions {
		listed, err := m.list(ctx, id)
		if err != nil {
			return plan, err
		}
		plan.Objects += len(listed)
		for _, ref := range listed {
			plan.Bytes += ref.Size
			there[ref.Key] = ref.Merged() || ref.mayBeSeam()
		}
		plan.Leftovers = append(plan.Leftovers, leftovers(listed, now.Add(-m.cfg.Grace))...)
		chosen := cover(listed, 0)
		written, err := m.times(ctx, chosen)
		if err != nil {
			return plan, err
		}
		plan.Runs = append(plan.Runs, runs(id, chosen, written, below[id], now.UTC())...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.written, func(key string, _ writing) bool { return !there[key] })
	return plan, nil
}

// list lists a chain from its beginning.
func (m *Merger) list(ctx context.Context, partition int32) (listed []Ref, err error) {
	after := Name{Pipeline: m.cfg.Pipeline, Partition: partition}.from()
	for range planPages {
		page, err := m.reader.list(ctx, partition, after, m.reader.page)
		if err != nil {
			return nil, err
		}
		listed = append(listed, page...)
		if len(page) < m.reader.page {
			return listed, nil
		}
		after = page[len(page)-1].Key
	}
	return listed, nil
}

// times returns when objects were written, by key, and which of them are seams. It leaves out
// those beyond the bound of a plan and those that were deleted.
func (m *Merger) times(ctx context.Context, refs []Ref) (map[string]writing, error) {
	out := make(map[string]writing, len(refs))
	var unknown []Ref
	m.mu.Lock()
	for _, ref := range refs {
		known, ok := m.written[ref.Key]
		switch {
		case ok:
			out[ref.Key] = known
		case !ref.Merged() && !ref.mayBeSeam():
			out[ref.Key] = writing{at: ref.Modified}
		case len(unknown) < planStats:
			unknown = append(unknown, ref)
		}
	}
	m.mu.Unlock()
	metas, err := m.metas(ctx, unknown)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, ref := range unknown {
		if meta := metas[i]; meta.End > 0 {
			known := writing{meta.Written, meta.Seam != ""}
			if !ref.Merged() {
				known.at = ref.Modified
			}
			out[ref.Key], m.written[ref.Key] = known, known
		}
	}
	return out, nil
}

// metas reads the metadata of objects in parallel. It is empty for a deleted object.
func (m *Merger) metas(ctx context.Context, refs []Ref) ([]Meta, error) {
	out := make([]Meta, len(refs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(stats)
	for i, ref := range refs {
		g.Go(func() (err error) {
			if out[i], err = m.reader.Stat(ctx, ref); isGone(err) {
				return nil
			}
			return err
		})
	}
	return out, g.Wait()
}
