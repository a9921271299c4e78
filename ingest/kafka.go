package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt"
)

const (
	// fetchBytes bounds one broker's reply, as sent: some 100,000 events, enough
	// to keep a core busy while the next one is under way. A batch that is
	// larger still comes whole.
	fetchBytes = 16 << 20

	// fetchPartitionBytes bounds one partition's share of a reply, so that
	// several partitions advance together.
	fetchPartitionBytes = 4 << 20

	// fetchesAtOnce bounds the replies held at a time: with fetchBytes, the
	// memory that a backlog takes, however many brokers hold it.
	fetchesAtOnce = 8

	// replyBytes bounds what is read as one reply at all. A broker takes no
	// request above 100 MiB by default, so no batch can be larger.
	replyBytes = 256 << 20

	// pollRecords bounds the records taken from the client at a time.
	pollRecords = 16_384

	// fetchWait is how long a broker waits for records when it has none. It holds
	// up a partition that is assigned meanwhile, so it is short.
	fetchWait = 500 * time.Millisecond

	// fetchMin is how many bytes a broker gathers before it answers, within its wait. At thousands of events a second
	// it has them at once. At a few events it answers less often.
	fetchMin = 64 << 10

	// sessionTimeout is how long the group waits for a dead instance before it reassigns its partitions. It is Kafka's
	// default minimum, because an unnecessary reassignment costs little.
	sessionTimeout = 6 * time.Second

	// heartbeatInterval leaves room for two lost heartbeats in a session.
	heartbeatInterval = 1500 * time.Millisecond

	// metadataAge is how soon partitions that the topic is given are seen, and read
	// from their beginning: one small request in that time.
	metadataAge = 10 * time.Second

	// leaveTimeout bounds the good-bye to the group. After it the group waits
	// for the session to end instead.
	leaveTimeout = 5 * time.Second
)

// KafkaConfig says which topic to read, and as whom.
type KafkaConfig struct {
	Cluster Cluster
	Topic   string
	Group   string // the consumer group that shares the topic's partitions
	Resume  smelt.Resume
	Gather  time.Duration // how long a broker may keep a few records back for more to come with them
	Log     *slog.Logger
}

// Kafka is a topic of a Kafka cluster as a source. The lake owns the offsets:
// the group only shares the partitions out, and what is committed to it is
// never read.
type Kafka struct {
	cfg    KafkaConfig
	client *kgo.Client
	admin  *kadm.Client

	epochless atomic.Bool // the brokers cannot be asked about epochs

	mu        sync.Mutex
	asked     *ask               // partitions that wait for their positions
	interrupt context.CancelFunc // ends the wait of the Poll under way
	stopped   map[int32]bool     // the partitions that are not read; see smelt.Resume
	topicID   kadm.TopicID       // as first described

	// Of the goroutine that polls.
	next     map[int32]int64      // by partition, the least offset that may follow
	askNext  time.Time            // when to ask the lake again about a stopped partition
	askAfter int32                // the one that was asked about last
	fetched  []kgo.FetchPartition // taken from the client
	taken    int                  // how many of fetched were returned
	trouble  error                // came with records; the next Poll returns it
	failed   error                // has ended the source
	records  []smelt.Record       // what Poll returned last
	headers  []smelt.Header       // of records
}

// OpenKafka joins the group and reads the topic from the offsets that cfg.Resume returns. It fails
// with smelt.ErrSource if no broker answers in time, the broker rejects the log-in, or the topic
// does not exist.
func OpenKafka(ctx context.Context, cfg KafkaConfig) (*Kafka, error) {
	k := &Kafka{cfg: cfg, next: make(map[int32]int64), stopped: make(map[int32]bool)}
	if k.cfg.Log == nil {
		k.cfg.Log = slog.New(slog.DiscardHandler)
	}
	wait, least := fetchWait, int32(1)
	if cfg.Gather > 0 {
		wait, least = min(fetchWait, cfg.Gather), fetchMin
	}
	client, details, err := cfg.Cluster.dial(ctx, cfg.Topic, k.cfg.Log,
		kgo.ClientID(clientID(smelt.Instance())),
		kgo.ConsumeTopics(cfg.Topic),
		kgo.ConsumerGroup(cfg.Group),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(heartbeatInterval),
		kgo.MetadataMaxAge(metadataAge),
		kgo.DisableAutoCommit(),
		kgo.AdjustFetchOffsetsFn(k.adjust),
		kgo.OnPartitionsRevoked(k.gone),
		kgo.OnPartitionsLost(k.gone),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(wait),
		kgo.FetchMinBytes(least),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		kgo.MaxConcurrentFetches(fetchesAtOnce),
		kgo.BrokerMaxReadBytes(replyBytes),
		kgo.MaxDecompressBatchBytes(replyBytes),
	)
	if err != nil {
		return nil, err
	}
	k.client, k.admin = client, kadm.NewClient(client)
	if err := cfg.Cluster.usable(cfg.Topic, details); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Poll returns records that follow those it returned before. When ctx has ended
// already it returns those that are here, without waiting for more. It fails
// with smelt.ErrSource, and goes on failing when the topic is another one now; it
// fails with what Resume failed with, and calls Resume again the next time.
func (k *Kafka) Poll(ctx context.Context, max int) ([]smelt.Record, error) {
	for {
		if records := k.take(max); len(records) > 0 {
			return records, nil
		}
		if err := cmp.Or(k.failed, k.trouble); err != nil {
			k.trouble = nil
			return nil, err
		}
		if ctx.Err() != nil {
			// The client hands out nothing to a context that has ended, and what
			// it has, without waiting, to none at all.
			var none context.Context
			if !k.fetch(none) {
				return nil, nil
			}
			continue
		}
		if err := k.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// wait waits until there are records, or partitions to be placed, or ctx ends.
// Only here do partitions change hands.
func (k *Kafka) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.client.AllowRebalance()
	if a := k.answer(cancel); a != nil {
		return k.place(ctx, a)
	}
	if err := k.askAgain(ctx); err != nil {
		return err
	}
	if len(k.notRead()) > 0 {
		ctx, cancel = context.WithDeadline(ctx, k.askNext)
		defer cancel()
	}
	k.fetch(ctx)
	return nil
}

// fetch takes records from the client and reports whether there were any, or an
// error.
func (k *Kafka) fetch(ctx context.Context) bool {
	k.fetched, k.taken = k.fetched[:0], 0
	polled := k.client.PollRecords(ctx, pollRecords)
	polled.EachTopic(k.sameTopic)
	// The error comes first: it belongs after the records before it.
	polled.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Err != nil && k.failed == nil && !isDone(p.Err) {
			k.fault(p.Partition, p.Err)
		}
	})
	polled.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 || k.failed != nil {
			return
		}
		if first := p.Records[0].Offset; first < k.next[p.Partition] {
			if slices.Contains(k.notRead(), p.Partition) {
				return // the client went to the end of a log that has lost some, and said so
			}
			k.failed = smelt.Mark(smelt.ErrSource, fmt.Errorf(
				"topic %s partition %d went back from offset %d to %d while it was read", k.cfg.Topic, p.Partition, k.next[p.Partition], first))
			return
		}
		k.next[p.Partition] = p.Records[len(p.Records)-1].Offset + 1
		k.fetched = append(k.fetched, p.FetchPartition)
	})
	if k.failed != nil {
		// What came with the failure may lie beyond it.
		k.fetched = k.fetched[:0]
	}
	return len(k.fetched) > 0 || k.trouble != nil || k.failed != nil
}

// sameTopic ends the source if records are of another topic than the one that Describe reported
// first: the topic was re-created before the client looked it up.
func (k *Kafka) sameTopic(t kgo.FetchTopic) {
	k.mu.Lock()
	was, is := k.topicID, kadm.TopicID(t.TopicID)
	k.mu.Unlock()
	if none := (kadm.TopicID{}); was != none && is != none && was != is {
		k.failed = smelt.Mark(smelt.ErrSource, fmt.Errorf("topic %s was re-created: its id is %s by now, not %s", k.cfg.Topic, is, was))
	}
}

// isDone reports whether a poll ended because its context did.
func isDone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// take moves about max bytes of fetched records into k.records.
func (k *Kafka) take(max int) []smelt.Record {
	k.records, k.headers = k.records[:0], k.headers[:0]
	size := 0
	for ; k.taken < len(k.fetched); k.taken++ {
		p := &k.fetched[k.taken]
		for i, r := range p.Records {
			if r.Attrs.IsControl() {
				k.skip(r)
				continue
			}
			if size > 0 && size+len(r.Value) > max {
				p.Records = p.Records[i:]
				return k.records
			}
			size += len(r.Key) + len(r.Value) + recordOverhead
			k.records = append(k.records, k.convert(r))
		}
	}
	return k.records
}

// skip notes the mark of a transaction with the record before it: so the lake knows that
// nothing is in between, should retention take the mark before another record comes.
// The leader may be another one by then, and the log shares the mark with the lake up to
// the end of that one's epoch.
func (k *Kafka) skip(mark *kgo.Record) {
	if n := len(k.records); n > 0 && k.records[n-1].Partition == mark.Partition {
		last := &k.records[n-1]
		last.Skip, last.Epoch = mark.Offset-last.Offset, mark.LeaderEpoch
	}
}

// recordOverhead is what a record counts for beside its key and value, in
// bytes, so that many empty ones are bounded too.
const recordOverhead = 64

func (k *Kafka) convert(r *kgo.Record) smelt.Record {
	return smelt.Record{
		Partition: r.Partition,
		Offset:    r.Offset,
		Epoch:     r.LeaderEpoch,
		Timestamp: timestamp(r),
		Key:       r.Key,
		Headers:   k.convertHeaders(r.Headers),
		Value:     r.Value,
	}
}

// convertHeaders shares one slice among the records of a Poll.
func (k *Kafka) convertHeaders(headers []kgo.RecordHeader) []smelt.Header {
	if len(headers) == 0 {
		return nil
	}
	from := len(k.headers)
	for _, h := range headers {
		k.headers = append(k.headers, smelt.Header{Name: h.Key, Value: h.Value})
	}
	return k.headers[from:len(k.headers):len(k.headers)]
}

func timestamp(r *kgo.Record) int64 {
	if r.Attrs.TimestampType() < 0 {
		return smelt.NoTimestamp // the oldest message format has none
	}
	return r.Timestamp.UnixMilli()
}

// Close leaves the group, so that its other instances take over at once, and
// closes the connections.
func (k *Kafka) Close() error {
	k.client.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	err := k.client.LeaveGroupContext(ctx)
	k.client.Close()
	if err != nil {
		return smelt.Mark(smelt.ErrSource, fmt.Errorf("leave group %s: %w", k.cfg.Group, err))
	}
	return nil
}
