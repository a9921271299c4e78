package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"smelt"
)

// commitTimeout bounds a commit, which is information only and must not delay the line during a
// rebalance.
const commitTimeout = 2 * time.Second

// Commit tells the group up to where the lake has each partition, so that
// Kafka's own tools show the lag. A commit while partitions change hands may
// fail, and the next one makes good for it.
func (k *Kafka) Commit(ctx context.Context, next map[int32]int64) error {
	offsets := make(map[int32]kgo.EpochOffset, len(next))
	for p, offset := range next {
		offsets[p] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	var failed error
	k.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{k.cfg.Topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err == nil {
				failed = commitError(resp)
			}
		})
	if failed != nil {
		return smelt.Mark(smelt.ErrSource, fmt.Errorf("commit offsets to group %s: %w", k.cfg.Group, failed))
	}
	return nil
}

func commitError(resp *kmsg.OffsetCommitResponse) error {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
		}
	}
	return nil
}

// Describe asks the cluster for its id, the topic's id, and the extent of each
// partition: to its end as a reader of committed records sees it.
func (k *Kafka) Describe(ctx context.Context) (smelt.Description, error) {
	meta, err := k.admin.Metadata(ctx, k.cfg.Topic)
	if err != nil {
		return smelt.Description{}, k.cfg.Cluster.explain(k.cfg.Topic, err)
	}
	topic := meta.Topics[k.cfg.Topic]
	if topic.Err != nil {
		return smelt.Description{}, k.cfg.Cluster.explain(k.cfg.Topic, topic.Err)
	}
	extents, err := k.extents(ctx)
	if err != nil {
		return smelt.Description{}, err
	}
	d := smelt.Description{Cluster: meta.Cluster, Partitions: extents}
	if topic.ID != (kadm.TopicID{}) { // brokers before 2.8 give topics no id
		d.Topic = topic.ID.String()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.topicID == (kadm.TopicID{}) {
		k.topicID = topic.ID
	}
	return d, nil
}
