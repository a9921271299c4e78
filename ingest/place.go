package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt"
)

// lostAdvice says what may have happened when a partition does not hold what
// the lake has yet to read, or no longer holds what the lake has read.
const lostAdvice = "either records were deleted before smelt had read them (retention), " +
	"or the topic was re-created, or the cluster lost data: nothing is skipped until you have decided"

// ask is a question of the group's goroutine: where do these partitions begin?
// Poll answers it, so that Resume runs on the goroutine that polls.
type ask struct {
	ctx        context.Context // ends when the partitions are taken away again
	partitions []int32
	placed     map[int32]kgo.Offset // those whose beginning is known by now
	reply      chan map[int32]kgo.Offset
}

// placeTimeout bounds the search for where one partition begins, which goes on
// when Poll's context has ended: in a long chain of objects on a slow store it
// takes longer than one Poll, and would begin again and again. (In a folder of
// 300,000 objects the embedded S3 takes 0.8 s for each of some 20 listings.)
const placeTimeout = 2 * time.Minute

// adjust is called by the client when the group has given it partitions. It
// asks Poll where they begin, whatever was committed.
func (k *Kafka) adjust(ctx context.Context, given map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	a := &ask{
		ctx:        ctx,
		partitions: slices.Sorted(maps.Keys(given[k.cfg.Topic])),
		placed:     make(map[int32]kgo.Offset),
		reply:      make(chan map[int32]kgo.Offset, 1),
	}
	k.ask(a)
	select {
	case offsets := <-a.reply:
		return map[string]map[int32]kgo.Offset{k.cfg.Topic: offsets}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask leaves a question for Poll, and wakes it.
func (k *Kafka) ask(a *ask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = a
	if k.interrupt != nil {
		k.interrupt()
	}
}

// answer takes the question that waits, if there is one. One that comes later
// calls interrupt.
func (k *Kafka) answer(interrupt context.CancelFunc) *ask {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.interrupt = interrupt
	a := k.asked
	k.asked = nil
	return a
}

// putBack leaves a question for the next Poll, unless there is a newer one.
func (k *Kafka) putBack(a *ask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked == nil {
		k.asked = a
	}
}

// place answers a question. When it cannot, the question stays, with what is
// known by now, and nothing of its partitions is read before it has been
// answered.
func (k *Kafka) place(ctx context.Context, a *ask) error {
	err := k.positions(ctx, a)
	switch {
	case a.ctx.Err() != nil:
		return nil
	case err == nil && len(a.placed) == len(a.partitions):
		a.reply <- a.placed
		return nil
	}
	k.putBack(a)
	return err
}

// positions finds where partitions begin: at least that of one, and then as
// long as ctx lasts.
func (k *Kafka) positions(ctx context.Context, a *ask) error {
	first := true
	for _, p := range a.partitions {
		if _, ok := a.placed[p]; ok {
			continue
		}
		if !first && ctx.Err() != nil {
			return nil
		}
		first = false
		next, err := k.position(ctx, a, p)
		if err != nil {
			return err
		}
		k.next[p] = next
		a.placed[p] = kgo.NewOffset().At(next).WithEpoch(-1)
		k.cfg.Log.Info("partition assigned", "topic", k.cfg.Topic, "partition", p, "offset", next)
	}
	return nil
}

// position asks the lake where a partition begins, and checks it against what
// its log holds.
func (k *Kafka) position(ctx context.Context, a *ask, partition int32) (int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), placeTimeout)
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()

	next, err := k.cfg.Resume(ctx, partition)
	if err != nil {
		return 0, fmt.Errorf("resume topic %s partition %d: %w", k.cfg.Topic, partition, err)
	}
	extents, err := k.extents(ctx, k.admin.ListEndOffsets)
	if err != nil {
		return 0, err
	}
	extent, ok := extents[partition]
	if !ok {
		return 0, smelt.Mark(smelt.ErrSource, fmt.Errorf("topic %s has no partition %d", k.cfg.Topic, partition))
	}
	if next < 0 {
		next = extent.Start // the lake has nothing of it: its chain begins here
	}
	if next < extent.Start || next > extent.End {
		return 0, k.outOfRange(partition, next, extent)
	}
	return next, nil
}

func (k *Kafka) outOfRange(partition int32, next int64, extent smelt.Extent) error {
	return smelt.Mark(smelt.ErrSource, fmt.Errorf(
		"topic %s partition %d: the lake goes on at offset %d, but the log holds %d to %d: %s",
		k.cfg.Topic, partition, next, extent.Start, extent.End, lostAdvice))
}

// extents asks for every partition's start, and its end as listEnd has it.
func (k *Kafka) extents(ctx context.Context, listEnd func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[int32]smelt.Extent, error) {
	starts, err := k.admin.ListStartOffsets(ctx, k.cfg.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", k.cfg.Cluster.explain(k.cfg.Topic, err))
	}
	ends, err := listEnd(ctx, k.cfg.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", k.cfg.Cluster.explain(k.cfg.Topic, err))
	}
	extents := make(map[int32]smelt.Extent, len(ends[k.cfg.Topic]))
	for p, end := range ends[k.cfg.Topic] {
		if start, ok := starts.Lookup(k.cfg.Topic, p); ok {
			extents[p] = smelt.Extent{Start: start.Offset, End: end.Offset}
		}
	}
	return extents, nil
}

// fault notes an error that a partition was fetched with: as the end of the
// source when the client would go on elsewhere, or never again.
func (k *Kafka) fault(partition int32, err error) {
	var lost *kgo.ErrDataLoss
	var tooLarge *kgo.ErrDecompressTooLarge
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		k.failed = smelt.Mark(smelt.ErrSource, fmt.Errorf(
			"topic %s partition %d no longer holds offset %d: %s: %w",
			k.cfg.Topic, partition, k.next[partition], lostAdvice, err))
	case errors.As(err, &lost):
		k.failed = smelt.Mark(smelt.ErrSource, fmt.Errorf(
			"topic %s partition %d lost records below offset %d: %s: %w",
			k.cfg.Topic, partition, k.next[partition], lostAdvice, err))
	case errors.Is(err, kerr.UnknownTopicID):
		k.failed = smelt.Mark(smelt.ErrSource, fmt.Errorf(
			"topic %s was deleted or re-created while it was read: %w", k.cfg.Topic, err))
	case errors.As(err, &tooLarge), errors.Is(err, kgo.ErrClientClosed):
		k.failed = smelt.Mark(smelt.ErrSource, fmt.Errorf(
			"read topic %s partition %d at offset %d: %w", k.cfg.Topic, partition, k.next[partition], err))
	default:
		k.trouble = k.cfg.Cluster.explain(k.cfg.Topic, err)
	}
}
