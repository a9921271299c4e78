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
	"github.com/twmb/franz-go/pkg/kmsg"

	"smelt"
)

// ask is a question of the group's goroutine: where do these partitions begin?
// Poll answers it, so that Resume runs on the goroutine that polls.
type ask struct {
	ctx        context.Context // ends when the partitions are taken away again
	partitions []int32
	placed     map[int32]kgo.Offset // those whose beginning is known by now, or that are not read
	reply      chan map[int32]kgo.Offset
}

// placeTimeout bounds the search for the start of one partition. The search continues after Poll's context has
// ended, because in a long chain on a slow store it takes longer than one Poll. (In a folder of 300,000 objects
// the embedded S3 takes 0.8 s for each of about 20 listings.)
const placeTimeout = 2 * time.Minute

// adjust is called by the client when the group has assigned partitions. It makes Poll ask where they
// begin, and ignores committed offsets.
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
		at, err := k.position(ctx, a.ctx, p)
		switch {
		case errors.Is(err, smelt.ErrStopped):
			k.stop(p)
			a.placed[p] = kgo.NewOffset().At(0).WithEpoch(-1) // the client wants one, for later
		case err != nil:
			return err
		default:
			k.begin(p, at.Offset)
			a.placed[p] = kgo.NewOffset().At(at.Offset).WithEpoch(at.Epoch)
		}
	}
	return nil
}

// askEvery is how soon a partition that is not to be read is asked about again.
const askEvery = 3 * time.Second

// askAgain asks about one of the partitions that are not read, in turn, when it is
// time to, and begins it when it may be read by now. So the others are not kept waiting,
// however many there are.
func (k *Kafka) askAgain(ctx context.Context) error {
	stopped := k.notRead()
	if len(stopped) == 0 || time.Now().Before(k.askNext) {
		return nil
	}
	turn, _ := slices.BinarySearch(stopped, k.askAfter+1)
	p := stopped[turn%len(stopped)]
	at, err := k.position(ctx, context.WithoutCancel(ctx), p)
	k.askAfter, k.askNext = p, time.Now().Add(askEvery/time.Duration(len(stopped)))
	if errors.Is(err, smelt.ErrStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	k.move(p, at)
	k.begin(p, at.Offset)
	return nil
}

// move sends the client to an offset of a partition that it does not read. If the offset follows the last record
// that it returned, the client would ignore the move. But it may be elsewhere, after a leader has reported an
// earlier end of the log. So it is sent somewhere else first.
func (k *Kafka) move(partition int32, to kgo.EpochOffset) {
	for _, at := range []kgo.EpochOffset{{Epoch: smelt.NoEpoch, Offset: to.Offset + 1}, to} {
		k.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{k.cfg.Topic: {partition: at}})
	}
}

// notRead are the partitions that are this instance's and not read.
func (k *Kafka) notRead() []int32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.stopped))
}

// stop keeps the client from reading a partition, until begin.
func (k *Kafka) stop(partition int32) {
	k.mu.Lock()
	k.stopped[partition] = true
	k.mu.Unlock()
	k.client.PauseFetchPartitions(map[string][]int32{k.cfg.Topic: {partition}})
}

// begin has a partition read from an offset, which the client is given.
func (k *Kafka) begin(partition int32, next int64) {
	k.next[partition] = next
	k.cfg.Log.Info("partition assigned", "topic", k.cfg.Topic, "partition", partition, "offset", next)
	k.forget(k.client, partition)
}

// gone is called by the client when partitions are revoked. A group that rejects the instance calls it
// at once, perhaps before k.client is set.
func (k *Kafka) gone(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
	k.forget(client, partitions[k.cfg.Topic]...)
}

// forget that partitions are not read.
func (k *Kafka) forget(client *kgo.Client, partitions ...int32) {
	k.mu.Lock()
	for _, p := range partitions {
		delete(k.stopped, p)
	}
	k.mu.Unlock()
	client.ResumeFetchPartitions(map[string][]int32{k.cfg.Topic: partitions})
}

// position asks the lake where a partition begins. It continues after ctx has ended, until ours ends,
// which happens when the partition is revoked.
//
// With the offset it returns the epoch of the record before it, if the brokers support that. The
// client then checks the end of that epoch whenever the leader changes, even before it has read
// the partition. Otherwise a log that loses its end and grows past the offset would go unnoticed.
func (k *Kafka) position(ctx, ours context.Context, partition int32) (kgo.EpochOffset, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), placeTimeout)
	defer cancel()
	defer context.AfterFunc(ours, cancel)()

	at := kgo.EpochOffset{Epoch: smelt.NoEpoch}
	next, err := k.cfg.Resume(ctx, partition, func(ctx context.Context, epoch int32) (smelt.Extent, error) {
		at.Epoch = epoch
		return k.held(ctx, partition, epoch)
	})
	if err != nil {
		return at, fmt.Errorf("resume topic %s partition %d: %w", k.cfg.Topic, partition, err)
	}
	at.Offset = next
	if k.epochless.Load() {
		at.Epoch = smelt.NoEpoch
	}
	return at, nil
}

// held is what a partition's log has, as far as it still contains an epoch.
func (k *Kafka) held(ctx context.Context, partition, epoch int32) (smelt.Extent, error) {
	extent, err := k.extent(ctx, partition)
	if err != nil {
		return smelt.Extent{}, err
	}
	ends, err := k.epochEnds(ctx, map[int32]int32{partition: epoch})
	if err != nil {
		return smelt.Extent{}, err
	}
	if end, ok := ends[partition]; ok {
		extent.End = max(extent.Start, min(extent.End, end))
	}
	return extent, nil
}

// shared returns, for the leader epochs of some partitions' last records, the offset up to which each
// log still contains that epoch. It is at most the log's end, open transactions included, because
// the lake may have read further than they now allow. Without an epoch, or if the brokers do not
// support it, it is the log's end. If the log no longer knows the epoch, it was truncated to some
// point before it. Partitions that the topic does not have are left out.
func (k *Kafka) shared(ctx context.Context, epochs map[int32]int32) (map[int32]int64, error) {
	ends, err := k.list(ctx, "end", k.admin.ListEndOffsets)
	if err != nil {
		return nil, err
	}
	shared, there := map[int32]int64{}, map[int32]int32{}
	for p, epoch := range epochs {
		if end, ok := ends.Lookup(k.cfg.Topic, p); ok {
			shared[p], there[p] = end.Offset, epoch
		}
	}
	epochEnds, err := k.epochEnds(ctx, there)
	for p, end := range epochEnds {
		shared[p] = min(shared[p], end)
	}
	return shared, err
}

// epochEnds asks where the records of epochs end. A partition without an epoch is left
// out, and so are all where the brokers cannot tell.
func (k *Kafka) epochEnds(ctx context.Context, epochs map[int32]int32) (map[int32]int64, error) {
	request := kadm.OffsetForLeaderEpochRequest{}
	for p, epoch := range epochs {
		if epoch != smelt.NoEpoch {
			request.Add(k.cfg.Topic, p, epoch)
		}
	}
	ends := map[int32]int64{}
	if len(request) == 0 || k.epochless.Load() {
		return ends, nil
	}
	replies, err := k.admin.OffsetForLeaderEpoch(ctx, request)
	for p, reply := range replies[k.cfg.Topic] {
		err = errors.Join(err, reply.Err)
		ends[p] = max(0, reply.EndOffset)
	}
	if err != nil && !k.tellsEpochs(ctx) {
		k.epochless.Store(true)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the ends of epochs: %w", k.cfg.Cluster.explain(k.cfg.Topic, err))
	}
	return ends, nil
}

// tellsEpochs says whether the brokers support epochs in requests. Kafka before 2.1 does not, nor do some
// systems that only speak its protocol.
func (k *Kafka) tellsEpochs(ctx context.Context) bool {
	const readers = 3                      // the version that has them
	brokers, _ := k.admin.ApiVersions(ctx) // who does not answer now has not answered before
	for _, broker := range brokers {
		if version, ok := broker.KeyMaxVersion(int16(kmsg.OffsetForLeaderEpoch)); broker.Err == nil && (!ok || version < readers) {
			return false
		}
	}
	return true
}

// extents returns every partition's start, and its end for a reader of committed records.
func (k *Kafka) extents(ctx context.Context) (map[int32]smelt.Extent, error) {
	starts, err := k.list(ctx, "start", k.admin.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	ends, err := k.list(ctx, "end", k.admin.ListCommittedOffsets)
	if err != nil {
		return nil, err
	}
	extents := make(map[int32]smelt.Extent, len(ends[k.cfg.Topic]))
	for p, end := range ends[k.cfg.Topic] {
		if start, ok := starts.Lookup(k.cfg.Topic, p); ok {
			extents[p] = smelt.Extent{Start: start.Offset, End: end.Offset}
		}
	}
	return extents, nil
}

// list requests one offset of every partition. name is what an error calls it.
func (k *Kafka) list(ctx context.Context, what string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (kadm.ListedOffsets, error) {
	offsets, err := list(ctx, k.cfg.Topic)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list %s offsets: %w", what, k.cfg.Cluster.explain(k.cfg.Topic, err))
	}
	return offsets, nil
}

// extent requests one partition's start and end. It asks for that partition alone, because the answer must
// be newer than the lake's, and a topic may have thousands of partitions.
func (k *Kafka) extent(ctx context.Context, partition int32) (extent smelt.Extent, err error) {
	const start, end = -2, -1 // as Kafka has them
	if extent.Start, err = k.offset(ctx, partition, start); err == nil {
		extent.End, err = k.offset(ctx, partition, end)
	}
	if err != nil {
		return smelt.Extent{}, fmt.Errorf("list the offsets of partition %d: %w", partition, k.cfg.Cluster.explain(k.cfg.Topic, err))
	}
	return extent, nil
}

// offset requests the start or the end of a partition.
func (k *Kafka) offset(ctx context.Context, partition int32, which int64) (int64, error) {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, which
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = k.cfg.Topic, append(t.Partitions, p)
	request := kmsg.NewPtrListOffsetsRequest()
	request.Topics = append(request.Topics, t)
	response, err := request.RequestWith(ctx, k.client)
	if err != nil {
		return 0, err
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if p.Partition == partition {
				return p.Offset, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return 0, errors.New("the broker's reply does not have it")
}

// fault notes an error that a partition was fetched with. Where the log no longer
// holds what comes next the lake is asked again; it ends the source when the client
// would go on elsewhere, or never again.
func (k *Kafka) fault(partition int32, err error) {
	var lost *kgo.ErrDataLoss
	var tooLarge *kgo.ErrDecompressTooLarge
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange), errors.As(err, &lost):
		k.cfg.Log.Warn("the log no longer holds what comes next", "topic", k.cfg.Topic, "partition", partition, "offset", k.next[partition], "error", err)
		k.stop(partition)
		k.askAfter, k.askNext = partition-1, time.Time{}
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
