package bronze

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"smelt"
)

const (
	// putAttempts is how often a step tries to put one object before it gives
	// the error to its caller, who steps again later. The store retries too.
	putAttempts = 3
	// putPause is the time before the second attempt. It doubles with each attempt. Up to half of it is added at
	// random, so that writers do not return at the same moment.
	putPause = 200 * time.Millisecond
	// putPatience is how long the attempts may have taken for another one. A store
	// that is silent has had its time then.
	putPatience = 10 * time.Second

	// trust is how long a writer takes an end of a chain that it knows for the end, or
	// for one whose successor shows by its name. A merger lets objects be for longer.
	trust = 5 * time.Minute
)

// partition is what a writer knows of one partition that it was given.
type partition struct {
	id int32

	mu     sync.Mutex
	next   int64     // the end of the chain, as far as is known: the position of the next object
	known  time.Time // when that was the end, by the wall clock
	base   int64     // what is added to the source's offsets
	held   held      // asks the source what the log holds
	chain  Counts    // of the chain up to there
	lines  lines     // records from next on that are not in the lake yet
	sealed *sealed   // an object made of lines, the outcome of whose put is not known

	stop    *Stop     // why it is not read, when the lake was last asked
	stopped time.Time // when that was, by the wall clock
}

// held asks a source what the log of a partition holds; see [smelt.Resume].
type held = func(ctx context.Context, epoch int32) (smelt.Extent, error)

// sealed is an object whose bytes are final. Whatever happens to the put, its Meta.Writer never
// stands for other bytes.
type sealed struct {
	name Name
	meta Meta
	body []byte
}

// restart forgets what is buffered, for the chain has it or the source sends it
// again, and goes on after the chain's last object.
func (p *partition) restart(last Meta, at time.Time, stock *chunks) {
	p.lines.clear(stock)
	p.sealed = nil
	p.next, p.chain, p.known = last.End, last.Chain, at
	p.base, p.stop = last.Base, nil
}

// wall is the time by the wall clock alone: the other one stands still while a
// machine sleeps.
func wall() time.Time { return time.Now().Round(0) }

// add buffers those of the records that are new.
func (p *partition) add(records []smelt.Record, max int, stock *chunks) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range records {
		r.Offset += p.base
		if r.Offset >= p.next && r.Offset >= p.lines.meta.End {
			p.lines.add(&r, max, stock)
		}
	}
}

// bytes is how many bytes of lines are buffered.
func (p *partition) bytes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.lines.meta.Bytes)
}

// settle puts the buffer and returns once the lake has it. If another writer has put the same
// records first, it drops those and puts the rest after them. It returns what this
// writer's objects hold and where the chain then ends, by the source's offsets. After an
// error the object is kept, and the next call settles it first; errTurn is the exception.
//
// A writer that was stopped for long may find a free name although others have continued
// the chain: their objects were merged and deleted. Its own put then lies under a merged
// object with the same records and does no harm. But it must not continue after it. So it
// looks up where the chain really ends.
func (p *partition) settle(ctx context.Context, w *Writer) (done smelt.Progress, next int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.lines.meta.Count > 0 {
		if p.sealed == nil {
			if p.sealed, err = w.seal(p); err != nil {
				return done, p.next, err
			}
		}
		began := wall()
		there, err := p.put(ctx, w)
		if err == nil && wall().Sub(p.known) >= trust {
			began = wall()
			there, err = w.lastOf(ctx, p.id)
		}
		if err != nil {
			return done, p.next, err
		}
		switch {
		case there.Writer == p.sealed.meta.Writer:
			done.Records += there.Count
			done.Bytes += int64(len(p.sealed.body))
		case !p.goesOn(ctx, w, there):
			p.restart(there, began, w.stock)
			return done, 0, fmt.Errorf("partition %d of %s: %w", p.id, w.cfg.Pipeline, errTurn)
		default:
			w.cfg.Log.Info("another writer was first", "object", p.sealed.name.Key(), "writer", there.Writer, "end", there.End)
		}
		p.sealed, p.next, p.chain, p.known = nil, there.End, there.Chain, began
		if there.End > p.lines.meta.Last {
			p.lines.clear(w.stock)
		} else if err := p.lines.dropBelow(there.End, w.stock); err != nil {
			return done, p.next, err
		}
	}
	return done, p.next - p.base, nil
}

// errTurn is the error of a writer whose buffer may not be what follows the chain's end,
// because others have continued the chain. The buffer was dropped, and the source must be
// opened again.
var errTurn = errors.New("the chain was continued from another log, and is read again")

// goesOn says whether the buffer continues another writer's object: the object has the same log offsets, and
// the log still contains the records of both. In doubt it says no. Records deleted from the log since then
// are still in the buffer.
func (p *partition) goesOn(ctx context.Context, w *Writer, there Meta) bool {
	if there.Base != p.base || !there.sameLog(w.topic()) {
		return false
	}
	for _, m := range []Meta{there, p.lines.meta} {
		if log, err := p.held(ctx, m.Epoch); err != nil || m.End-p.base > log.End {
			return false
		}
	}
	return true
}

// put puts the sealed object and returns the metadata of the object that is at
// its position then: its own, or that of a writer who was first.
func (p *partition) put(ctx context.Context, w *Writer) (Meta, error) {
	s := p.sealed
	key := s.name.Key()
	opts := smelt.PutOptions{IfAbsent: true, Meta: s.meta.user(s.name.Codec)}
	began := time.Now()
	for attempt := 1; ; attempt++ {
		err := w.cfg.Store.Put(ctx, key, bytes.NewReader(s.body), opts)
		if errors.Is(err, smelt.ErrExists) {
			return w.reader.stat(ctx, s.name)
		}
		if err == nil {
			return s.meta, nil
		}
		wait := putPause << (attempt - 1)
		if attempt == putAttempts || time.Since(began) > putPatience || !pause(ctx, wait+rand.N(wait/2)) {
			return Meta{}, smelt.Mark(smelt.ErrStore, err)
		}
	}
}

// pause waits, and returns false when ctx has ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
