package bronze

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
		progress smelt.Progress
		errs     []error
		settled  = make(map[int32]int64)
		slots    = make(chan struct{}, puts)
	)
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

// commit tells the source what the lake has. The source only shows it to
// people, so a failure is no one else's business.
func (w *Writer) commit(ctx context.Context, next map[int32]int64) {
	if w.source == nil || len(next) == 0 {
		return
	}
	if err := w.source.Commit(ctx, next); err != nil {
		w.cfg.Log.Warn("offsets not committed", "pipeline", w.cfg.Pipeline, "error", err)
	}
}

// seal makes an object of what a partition has buffered.
func (w *Writer) seal(p *partition) (*sealed, error) {
	s := &sealed{
		name: Name{Pipeline: w.cfg.Pipeline, Partition: p.id, Start: p.next, Codec: w.cfg.Codec},
		meta: p.lines.meta,
	}
	s.meta.Start = p.next
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

// whoIsAt reads the metadata of an object that exists already.
func (w *Writer) whoIsAt(ctx context.Context, name Name) (Meta, error) {
	m, err := w.reader.stat(ctx, name)
	if err != nil {
		return Meta{}, err
	}
	return m, w.sameTopic(name, &m)
}

// lastOf reads the metadata of the last object of a chain that there is.
func (w *Writer) lastOf(ctx context.Context, id int32) (Meta, error) {
	name, m, found, err := w.reader.end(ctx, id)
	if err == nil && !found {
		err = smelt.Mark(smelt.ErrStore, fmt.Errorf("partition %d of %s is empty, although an object was put: %w", id, w.cfg.Pipeline, ErrBreak))
	}
	if err != nil {
		return Meta{}, err
	}
	return m, w.sameTopic(name, &m)
}

// resume is the smelt.Resume that the source gets: it goes on at the end of the
// partition's chain, or at the log's start (-1) when there is no chain.
func (w *Writer) resume(ctx context.Context, id int32) (int64, error) {
	p := w.given(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	at := wall()
	p.restart(Meta{}, at, w.stock)
	name, last, found, err := w.reader.end(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("resume partition %d of %s: %w", id, w.cfg.Pipeline, err)
	}
	if !found {
		return -1, nil
	}
	if err := w.sameTopic(name, &last); err != nil {
		return 0, err
	}
	p.restart(last, at, w.stock)
	return last.End, nil
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

// sameTopic refuses to go on after an object whose offsets are those of another
// topic: a re-created topic begins at 0 again and may well have grown past the
// offset at which the lake ends.
func (w *Writer) sameTopic(name Name, m *Meta) error {
	w.mu.Lock()
	is := w.identity
	w.mu.Unlock()
	what, was, now := "topic", m.Topic, is.Topic
	if was == "" || now == "" {
		what, was, now = "cluster", m.Cluster, is.Cluster
	}
	if was == now || was == "" || now == "" {
		return nil
	}
	return smelt.Mark(smelt.ErrSource, fmt.Errorf(
		"%s of pipeline %s is not the one that the lake was filled from: its id is %s, but %s in %s. It was deleted and re-created, or another broker took its place, so offsets no longer mean the same records. Bring the old one back, or start over with an empty lake (scripts/reset.sh)",
		what, w.cfg.Pipeline, now, was, name.Key()))
}
