package bronze

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"smelt"
)

const (
	// DefaultFlush is how long a record waits for others to share its object.
	DefaultFlush = 2 * time.Second
	// DefaultObjectBytes of lines close an object: about 4 MiB compressed,
	// which is worth a request and small enough to be read in one go.
	DefaultObjectBytes = 32 << 20
	// DefaultRecordMax in bytes is the record bound.
	DefaultRecordMax = 8 << 20

	// buffered is how many objects' worth of lines all partitions together may
	// buffer. It bounds the writer's memory, however many partitions there are.
	buffered = 2
	// pollMax in bytes is what one poll may bring.
	pollMax = 8 << 20
	// drainTimeout is how long a stopping writer continues to put what it has polled: half of the time
	// of a stop.
	drainTimeout = 5 * time.Second
)

// Config says what a Writer writes, and where.
type Config struct {
	Pipeline string
	Store    smelt.Store
	// Open opens the source. The writer does so when it is first stepped, and
	// again when the source has failed.
	Open func(context.Context, smelt.Resume) (smelt.Source, error)
	Log  *slog.Logger

	ID          string        // tells this writer from every other that ever was; random when empty
	Flush       time.Duration // DefaultFlush when zero
	ObjectBytes int           // DefaultObjectBytes when zero
	RecordMax   int           // DefaultRecordMax when zero
	Codec       Codec         // Zstd when empty
}

// Writer is the stage that writes a pipeline's records from its source to bronze. Its only state is
// what it has polled and not yet put. It continues at the end of each partition's chain. One
// goroutine uses Step and Close.
type Writer struct {
	cfg    Config
	reader *Reader
	source smelt.Source // nil when it is not open
	stock  *chunks
	coders sync.Pool      // of encoder
	early  smelt.Progress // of puts during a poll

	mu         sync.Mutex
	partitions map[int32]*partition
	identity   smelt.Description // of the open source, without extents
	seals      int64             // how many objects were sealed
}

// NewWriter returns a writer that has opened nothing yet.
func NewWriter(cfg Config) *Writer {
	cfg.ID = cmp.Or(cfg.ID, rand.Text())
	cfg.Flush = cmp.Or(cfg.Flush, DefaultFlush)
	cfg.ObjectBytes = cmp.Or(cfg.ObjectBytes, DefaultObjectBytes)
	cfg.RecordMax = cmp.Or(cfg.RecordMax, DefaultRecordMax)
	cfg.Codec = cmp.Or(cfg.Codec, Zstd)
	return &Writer{
		cfg:        cfg,
		reader:     NewReader(cfg.Store, cfg.Pipeline),
		stock:      new(chunks),
		partitions: make(map[int32]*partition),
	}
}

// Name is bronze.<pipeline>.
func (w *Writer) Name() string { return "bronze." + w.cfg.Pipeline }

// Step polls the source until an object is full, or until the flush interval has passed since the
// first record. Then it puts one object for each partition with records. Without records for
// the flush interval it returns no progress. When ctx ends, it still puts what it has polled.
// After an error the polled records are still there, and the next step starts with them. A
// partition whose log does not continue its chain is not read; Step reports it with a [Stop]
// and processes the others.
func (w *Writer) Step(ctx context.Context) (smelt.Progress, error) {
	if w.buffered() > 0 { // the step before could not put it
		return w.flush(ctx)
	}
	if ctx.Err() != nil {
		return smelt.Progress{}, nil
	}
	if err := w.open(ctx); err != nil {
		return smelt.Progress{}, err
	}
	pollErr := w.fill(ctx)
	if pollErr != nil {
		pollErr = errors.Join(pollErr, w.Close()) // the next step opens it again
	}
	progress, err := w.flush(ctx)
	if err = errors.Join(pollErr, err); err == nil {
		err = w.stops()
	}
	return progress, err
}

// Close closes the source. It puts nothing: the end of Step's context does.
func (w *Writer) Close() error {
	if w.source == nil {
		return nil
	}
	err := w.source.Close()
	w.source = nil
	if err != nil {
		return smelt.Mark(smelt.ErrSource, fmt.Errorf("close the source of %s: %w", w.cfg.Pipeline, err))
	}
	return nil
}

func (w *Writer) open(ctx context.Context) error {
	if w.source != nil {
		return nil
	}
	source, err := w.cfg.Open(ctx, w.resume)
	if err != nil {
		return smelt.Mark(smelt.ErrSource, fmt.Errorf("open the source of %s: %w", w.cfg.Pipeline, err))
	}
	d, err := source.Describe(ctx)
	if err != nil {
		err = fmt.Errorf("describe the source of %s: %w", w.cfg.Pipeline, errors.Join(err, source.Close()))
		return smelt.Mark(smelt.ErrSource, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.source, w.identity = source, smelt.Description{Cluster: d.Cluster, Topic: d.Topic}
	return nil
}

// fill polls until something is due to be put, or the time or ctx is over; it
// polls once in any case, so that a slow machine gets on.
func (w *Writer) fill(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(w.cfg.Flush, cancel)
	defer timer.Stop()
	for first, polls := true, 0; polls == 0 || ctx.Err() == nil && !w.full(); polls++ {
		room := buffered*w.cfg.ObjectBytes - w.buffered()
		records, err := w.source.Poll(ctx, min(room, pollMax))
		if err != nil {
			return smelt.Mark(smelt.ErrSource, fmt.Errorf("poll the source of %s: %w", w.cfg.Pipeline, err))
		}
		if err := w.add(records); err != nil {
			return err
		}
		if first && len(records) > 0 {
			first = false
			timer.Reset(w.cfg.Flush)
		}
	}
	return nil
}

// add buffers records, which come in runs of one partition.
func (w *Writer) add(records []smelt.Record) error {
	for len(records) > 0 {
		id, n := records[0].Partition, 1
		for n < len(records) && records[n].Partition == id {
			n++
		}
		p := w.partition(id)
		if p == nil {
			err := fmt.Errorf("the source of %s delivers partition %d without having asked where to resume it", w.cfg.Pipeline, id)
			return smelt.Mark(smelt.ErrSource, err)
		}
		p.add(records[:n], w.cfg.RecordMax, w.stock)
		records = records[n:]
	}
	return nil
}

func (w *Writer) partition(id int32) *partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.partitions[id]
}

// all returns the partitions that the writer knows.
func (w *Writer) all() []*partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.partitions))
}

// buffered is how many bytes of lines wait to be put.
func (w *Writer) buffered() (n int) {
	for _, p := range w.all() {
		n += p.bytes()
	}
	return n
}

// full says whether an object has its size, or the buffer has.
func (w *Writer) full() bool {
	total := 0
	for _, p := range w.all() {
		n := p.bytes()
		if n >= w.cfg.ObjectBytes {
			return true
		}
		total += n
	}
	return total >= buffered*w.cfg.ObjectBytes
}
