package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt"
)

const (
	// MaxLine is the longest line that Produce sends, in bytes.
	MaxLine = 64 << 20

	// lineBuffer is how much is read from the input at a time.
	lineBuffer = 256 << 10

	// producedBytes bounds the records on their way to the brokers: room for the
	// longest line, and for a few batches a partition of common ones.
	producedBytes = 2 * MaxLine

	// batchOverhead is what a batch holds beside its record, in bytes, amply.
	batchOverhead = 1 << 10

	// defaultBatchBytes is the default batch size, a little less than the 1 MiB that Kafka accepts.
	defaultBatchBytes = 1_000_000

	// ackTimeout is how long nothing may be acknowledged while records are on their
	// way: far above what a broker takes that is there, or is replaced by another.
	ackTimeout = time.Minute

	// progressRecords is the interval of progress reports, in records.
	progressRecords = 1000
)

// Produce sends each line of r as a record, without its line end and without a key, to an existing topic.
// It skips empty lines. It returns when all records are acknowledged, and always returns their
// number. progress may be nil. It is called regularly and at the end, with the records and bytes of
// r so far, on another goroutine, one call at a time.
//
// If the cluster acknowledges nothing for a minute, Produce fails. Records in flight may still arrive.
func Produce(ctx context.Context, cluster Cluster, topic string, r io.Reader, progress func(records, bytes int64)) (int64, error) {
	return produce(ctx, cluster, topic, r, progress, ackTimeout)
}

func produce(ctx context.Context, cluster Cluster, topic string, r io.Reader, progress func(records, bytes int64), within time.Duration) (int64, error) {
	batch, err := batchBytes(ctx, cluster, topic)
	if err != nil {
		return 0, err
	}
	client, _, err := cluster.dial(ctx, topic, nil,
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchMaxBytes(batch),
		kgo.MaxBufferedBytes(producedBytes),
		kgo.MaxBufferedRecords(producedBytes/recordOverhead),
	)
	if err != nil {
		return 0, err
	}
	defer client.Close()

	p := &producer{client: client, topic: topic, batch: int(batch), progress: progress, within: within}
	ctx, p.stop = context.WithCancelCause(ctx)
	defer p.stop(nil)
	p.silence = time.AfterFunc(within, func() {
		if client.BufferedProduceRecords() > 0 {
			p.stop(cluster.explain(topic, fmt.Errorf("nothing was acknowledged for %s: is it up, and the network?", within)))
		}
	})
	defer p.silence.Stop()
	if err := p.lines(ctx, r); err != nil {
		p.stop(err)
	}
	if err := client.Flush(ctx); err != nil {
		p.stop(err)
		p.abort(ctx)
	}
	n := p.tell(true)
	if err := context.Cause(ctx); err != nil {
		return n, fmt.Errorf("produce to topic %s: %w (%d records were acknowledged)", topic, err, n)
	}
	return n, nil
}

// EnsureTopic creates a topic, with so many partitions, unless it is there.
func EnsureTopic(ctx context.Context, cluster Cluster, topic string, partitions int32) error {
	client, details, err := cluster.dial(ctx, topic, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	if !errors.Is(details.Err, kerr.UnknownTopicOrPartition) {
		return nil // its user sees other problems later
	}
	_, err = createTopic(ctx, cluster, client, topic, partitions)
	return err
}

// createTopic creates a topic, unless somebody else was quicker.
func createTopic(ctx context.Context, cluster Cluster, client *kgo.Client, topic string, partitions int32) (created bool, err error) {
	_, err = kadm.NewClient(client).CreateTopic(ctx, partitions, -1, nil, topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("create topic %s: %w", topic, cluster.explain(topic, err))
	}
	return true, nil
}

// batchBytes looks up the largest batch that the topic takes.
func batchBytes(ctx context.Context, cluster Cluster, topic string) (int32, error) {
	client, details, err := cluster.dial(ctx, topic, nil)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if err := details.Err; err != nil {
		err = cluster.explain(topic, err)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			err = fmt.Errorf("%w: create it first; smelt produce --partitions N does", err)
		}
		return 0, err
	}
	// A user who may write to a topic may lack the right to read its settings.
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic)
	if err != nil || len(configs) != 1 || configs[0].Err != nil {
		return defaultBatchBytes, nil
	}
	for _, c := range configs[0].Configs {
		if n, err := strconv.ParseInt(c.MaybeValue(), 10, 32); err == nil && c.Key == "max.message.bytes" {
			return int32(min(max(n, batchOverhead), MaxLine+batchOverhead)), nil
		}
	}
	return defaultBatchBytes, nil
}

type producer struct {
	client   *kgo.Client
	topic    string
	batch    int
	progress func(records, bytes int64)
	stop     context.CancelCauseFunc
	within   time.Duration // an acknowledgement has to come
	silence  *time.Timer   // ends it when none does

	mu             sync.Mutex
	records, bytes int64 // acknowledged
}

// lines reads r to its end and hands its lines to the client.
func (p *producer) lines(ctx context.Context, r io.Reader) error {
	in := bufio.NewReaderSize(r, lineBuffer)
	for n := int64(1); ctx.Err() == nil; n++ {
		line, err := readLine(in)
		if err != nil && err != io.EOF {
			return fmt.Errorf("line %d: %w", n, err)
		}
		p.send(ctx, n, line)
		if err == io.EOF {
			return nil
		}
	}
	return nil
}

// readLine returns a line with its end, in memory of its own.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(trim(line)) > MaxLine {
			return nil, fmt.Errorf("it is longer than %d MiB", MaxLine>>20)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// trim leaves a line's end out.
func trim(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}

// abort drops records that were not sent yet and waits briefly for the others, so that the count is right.
func (p *producer) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	_ = p.client.AbortBufferedRecords(ctx) // what it says is that time was up
}

func (p *producer) send(ctx context.Context, n int64, line []byte) {
	value := trim(line)
	if len(value) == 0 {
		return
	}
	if p.client.BufferedProduceRecords() == 0 {
		p.silence.Reset(p.within) // it was the input that came late
	}
	p.client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
		switch {
		case err == nil:
			p.acknowledge(int64(len(line)))
		case errors.Is(err, kerr.MessageTooLarge):
			p.stop(smelt.Mark(smelt.ErrSource, fmt.Errorf(
				"line %d of %d bytes is above the topic's max.message.bytes (a batch of %d): %w", n, len(value), p.batch, err)))
		default:
			p.stop(smelt.Mark(smelt.ErrSource, fmt.Errorf("line %d: %w", n, err)))
		}
	})
}

func (p *producer) acknowledge(size int64) {
	p.silence.Reset(p.within)
	p.mu.Lock()
	p.records++
	p.bytes += size
	p.mu.Unlock()
	p.tell(false)
}

// tell tells how far it is, and returns the records acknowledged.
func (p *producer) tell(end bool) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress != nil && (end || p.records%progressRecords == 0) {
		p.progress(p.records, p.bytes)
	}
	return p.records
}
