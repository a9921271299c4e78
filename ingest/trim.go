package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"smelt"
)

const (
	// KeepRecords is how many of a partition's newest records a Trimmer keeps, so that a new pipeline on the
	// topic has something to read, and tools still show recent records.
	KeepRecords = 100_000

	// trimEvery is how often a log is trimmed: some million records come meanwhile at
	// the most, far fewer than a broker has trouble with.
	trimEvery = 10 * time.Minute
)

// TrimConfig says what a Trimmer trims.
type TrimConfig struct {
	Cluster Cluster
	Topic   string
	Log     *slog.Logger
	Keep    int64 // records of a partition that stay; KeepRecords when 0

	// Have returns, by partition, the offset up to which (exclusive) the lake has the log's records for every
	// reader. A partition that some reader has not read yet is left out.
	Have func(context.Context, Describe) (map[int32]int64, error)
}

// Describe describes a topic, and says for each partition in epochs up to where its log
// is the one in which a record of that epoch was.
type Describe func(ctx context.Context, epochs map[int32]int32) (smelt.Description, error)

// Trimmer deletes from a topic what the lake has, but for the newest records: for a
// broker that has no retention of its own. It never empties a partition, whose
// offsets the embedded broker would begin at 0 again. It is a [smelt.Stage].
type Trimmer struct {
	TrimConfig
	next time.Time
}

// NewTrimmer makes a trimmer, which connects at each step.
func NewTrimmer(cfg TrimConfig) *Trimmer {
	if cfg.Keep <= 0 {
		cfg.Keep = KeepRecords
	}
	return &Trimmer{TrimConfig: cfg}
}

// Name tells the trimmer from the stages that write tables.
func (t *Trimmer) Name() string { return "trim." + t.Topic }

// Step deletes records, when the last time is long enough ago. Records counts them.
func (t *Trimmer) Step(ctx context.Context) (smelt.Progress, error) {
	now := time.Now()
	if now.Before(t.next) {
		return smelt.Progress{}, nil
	}
	t.next = now.Add(trimEvery)
	records, err := t.trim(ctx)
	if err != nil {
		return smelt.Progress{}, fmt.Errorf("trim topic %s: %w", t.Topic, err)
	}
	return smelt.Progress{Records: records}, nil
}

func (t *Trimmer) trim(ctx context.Context) (records int64, err error) {
	client, _, err := t.Cluster.dial(ctx, t.Topic, nil)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	k := &Kafka{cfg: KafkaConfig{Cluster: t.Cluster, Topic: t.Topic}, client: client, admin: kadm.NewClient(client)}
	topic, err := k.Describe(ctx)
	if err != nil {
		return 0, err
	}
	have, err := t.Have(ctx, k.describe)
	if err != nil {
		return 0, err
	}
	to, records := trimTo(topic.Partitions, have, t.Keep)
	if len(to) == 0 {
		return 0, nil
	}
	var offsets kadm.Offsets
	for p, offset := range to {
		offsets.AddOffset(t.Topic, p, offset, -1)
	}
	deleted, err := k.admin.DeleteRecords(ctx, offsets)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return 0, t.Cluster.explain(t.Topic, err)
	}
	t.Log.Info("kafka's log was trimmed", "topic", t.Topic, "records", records, "partitions", slices.Sorted(maps.Keys(to)))
	return records, nil
}

// trimTo gives, by partition, the offset that its log is to begin with, where that
// is further than now, and how many offsets are before.
func trimTo(log map[int32]smelt.Extent, have map[int32]int64, keep int64) (to map[int32]int64, records int64) {
	to = map[int32]int64{}
	for p, extent := range log {
		next, ok := have[p]
		if next = min(next, extent.End-keep); ok && next > extent.Start {
			to[p] = next
			records += next - extent.Start
		}
	}
	return to, records
}
