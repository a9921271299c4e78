package bronze

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"smelt"
)

// puts is how many partitions' objects are put at a time: enough to hide the
// store's latency, and few enough to bound compressors and connections.
const puts = 16

// flush puts what is buffered of every partition, and tells the source.
func (w *Writer) flush(ctx context.Context) (smelt.Progress, error) {
	ctx, cancel := grace(ctx, drainTimeout)
	defer cancel()
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		progress = w.early
		errs     []error
		settled  = make(map[int32]int64)
		slots    = make(chan struct{}, puts)
	)
	w.early = smelt.Progress{}
	for _, p := range w.all() {
		if p.bytes() == 0 {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			done, next, err := p.settle(ctx, w)
			mu.Lock()
			defer mu.Unlock()
			progress.Records += done.Records
			progress.Bytes += done.Bytes
			if err != nil {
				errs = append(errs, err)
				return
			}
			settled[p.id] = next
		})
	}
	wg.Wait()
	w.commit(ctx, settled)
	if slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, errTurn) }) {
		errs = append(errs, w.Close()) // the next step opens it again
	}
	// A source that has just given records may have more; an idle one is waited for in Poll.
	progress.More = len(settled) > 0 && len(errs) == 0
	return progress, errors.Join(errs...)
}

// grace returns a context that outlives ctx by d.
func grace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(d, cancel)
		context.AfterFunc(long, func() { t.Stop() })
	})
	return long, func() {
		stop()
		cancel()
	}
}

// commit tells the source what the lake has. The source only displays it, so a failure has
// no other effect.
func (w *Writer) commit(ctx context.Context, next map[int32]int64) {
	if w.source == nil || len(next) == 0 {
		return
	}
	if err := w.source.Commit(ctx, next); err != nil {
		w.cfg.Log.Warn("offsets not committed", "pipeline", w.cfg.Pipeline, "error", err)
	}
}

// seal makes an object of a partition's buffer.
func (w *Writer) seal(p *partition) (*sealed, error) {
	s := &sealed{
		name: Name{Pipeline: w.cfg.Pipeline, Partition: p.id, Start: p.next, Codec: w.cfg.Codec},
		meta: p.lines.meta,
	}
	s.meta.Start, s.meta.Base = p.next, p.base
	s.meta.Chain = p.chain.plus(s.meta.Counts)
	w.mu.Lock()
	w.seals++
	s.meta.Writer = w.cfg.ID + "-" + strconv.FormatInt(w.seals, 10)
	s.meta.Cluster, s.meta.Topic = w.identity.Cluster, w.identity.Topic
	w.mu.Unlock()
	s.meta.Written = time.Now()
	var err error
	if s.body, err = w.compress(&p.lines); err != nil {
		return nil, fmt.Errorf("compress %s: %w", s.name.Key(), err)
	}
	return s, nil
}

func (w *Writer) compress(l *lines) ([]byte, error) {
	enc, _ := w.coders.Get().(encoder)
	if enc == nil {
		var err error
		if enc, err = newEncoder(w.cfg.Codec); err != nil {
			return nil, err
		}
	}
	var body bytes.Buffer
	enc.Reset(&body)
	for _, chunk := range l.chunks {
		if _, err := enc.Write(chunk); err != nil {
			return nil, err
		}
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	w.coders.Put(enc)
	return body.Bytes(), nil
}

// lastOf reads the metadata of the last object of a chain that there is.
func (w *Writer) lastOf(ctx context.Context, id int32) (Meta, error) {
	m, err := w.reader.Last(ctx, id)
	if errors.Is(err, smelt.ErrNotFound) {
		err = smelt.Mark(smelt.ErrStore, fmt.Errorf("partition %d of %s is empty, although an object was put: %w", id, w.cfg.Pipeline, ErrBreak))
	}
	return m, err
}

// resume is the smelt.Resume of the writer's source. A partition continues at the end of its
// chain, or at the log's start without a chain. Buffered records of the partition are put
// first, because the log may have deleted them.
func (w *Writer) resume(ctx context.Context, id int32, held held) (next int64, err error) {
	p := w.given(id)
	done, _, err := p.settle(ctx, w)
	w.early.Records += done.Records
	w.early.Bytes += done.Bytes
	if err != nil && !errors.Is(err, errTurn) {
		return 0, fmt.Errorf("resume partition %d of %s: %w", id, w.cfg.Pipeline, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at, before := wall(), p.stop
	p.restart(Meta{}, at, w.stock)
	p.held = held
	last, err := w.reader.Last(ctx, id)
	none := errors.Is(err, smelt.ErrNotFound)
	if err != nil && !none {
		return 0, fmt.Errorf("resume partition %d of %s: %w", id, w.cfg.Pipeline, err)
	}
	epoch := last.Epoch
	if none || !last.sameLog(w.topic()) { // another log's epochs are others
		epoch = smelt.NoEpoch
	}
	log, err := held(ctx, epoch)
	if err != nil {
		return 0, err
	}
	if none {
		return log.Start, nil
	}
	next, err = Continue(w.cfg.Pipeline, id, last, w.topic(), log)
	if err == nil {
		p.restart(last, at, w.stock)
		return next, nil
	}
	if errors.As(err, &p.stop); before == nil || before.Misfit != p.stop.Misfit {
		w.cfg.Log.Error("partition stopped", "pipeline", w.cfg.Pipeline, "partition", id, "error", err)
	}
	p.stopped = at
	return 0, err
}

// topic is the identity of the open source.
func (w *Writer) topic() smelt.Description {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.identity
}

// stopAge is how long a stop is reported after the source last asked about it. The source
// asks every few seconds while the partition is this writer's.
const stopAge = time.Minute

// stops is why partitions are not read: the first one's reason, and how many there are.
func (w *Writer) stops() error {
	var stops []*Stop
	for _, p := range w.all() {
		p.mu.Lock()
		if p.stop != nil && wall().Sub(p.stopped) < stopAge {
			stops = append(stops, p.stop)
		}
		p.mu.Unlock()
	}
	if len(stops) == 0 {
		return nil
	}
	first := slices.MinFunc(stops, func(a, b *Stop) int { return cmp.Compare(a.Partition, b.Partition) })
	if more := len(stops) - 1; more > 0 {
		return fmt.Errorf("%w (and %d more of its partitions)", first, more)
	}
	return first
}

// given returns the partition, new or known.
func (w *Writer) given(id int32) *partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.partitions[id]
	if p == nil {
		p = &partition{id: id}
		w.partitions[id] = p
	}
	return p
}
