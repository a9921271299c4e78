package sourcetest

import (
	"context"
	"sync"
	"testing"

	"smelt"
)

// testShare has two instances read the partitions of one topic. Records of a
// partition that changes hands go on where Resume said, and when an instance
// leaves, the other has them all.
func testShare(t *testing.T, open func(testing.TB, int) Topic) {
	const partitions = 4
	topic := open(t, partitions)
	lake := newLake()
	records := numbered(0, 400, partitions)
	topic.Append(t, records...)

	first := topic.Open(t, lake.resume)
	lake.fill(t, first, len(records))
	if got := len(lake.resumed); got != partitions {
		t.Fatalf("the only instance was given %d partitions, want %d", got, partitions)
	}

	second := openSource(t, topic, lake.resume)
	stopFirst := poll(t, lake, first)
	stopSecond := poll(t, lake, second)
	if topic.Share != nil {
		topic.Share(t, first, second)
	}
	// Records come while the partitions move, a few at a time, until the second
	// instance has brought in some.
	shared := deadline(t)
	for n := len(records); stopSecond.count() == 0 && shared.Err() == nil; n = len(records) {
		more := numbered(n, partitions*10, partitions)
		topic.Append(t, more...)
		records = append(records, more...)
		lake.await(t, len(records))
	}
	stopFirst.stop(t)
	if err := first.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if topic.Share != nil {
		topic.Share(t, second, second)
	}
	more := numbered(len(records), 400, partitions)
	topic.Append(t, more...)
	records = append(records, more...)
	lake.await(t, len(records))
	stopSecond.stop(t)
	if stopSecond.count() == 0 {
		t.Errorf("the second instance has brought in nothing")
	}
	lake.check(t, records)
}

// poller polls an instance on a goroutine of its own.
type poller struct {
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	err    error
	n      int
}

func poll(t testing.TB, lake *lake, source smelt.Source) *poller {
	ctx, cancel := context.WithCancel(context.Background())
	p := &poller{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			records, err := source.Poll(ctx, pollBytes)
			if err == nil {
				err = lake.add(records)
			}
			p.mu.Lock()
			p.n += len(records)
			p.err = err
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-p.done })
	return p
}

func (p *poller) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

func (p *poller) stop(t testing.TB) {
	t.Helper()
	p.cancel()
	<-p.done
	if p.err != nil {
		t.Fatalf("poll: %v", p.err)
	}
}
