package ingest

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"

	"smelt"
)

// DescribeTopic describes a topic as [Kafka.Describe] does, without joining a
// group: it disturbs no reader. For each partition in epochs it says up to where its
// log is the one in which a record of that epoch was.
func DescribeTopic(ctx context.Context, cluster Cluster, topic string, epochs map[int32]int32) (smelt.Description, error) {
	client, _, err := cluster.dial(ctx, topic, nil)
	if err != nil {
		return smelt.Description{}, err
	}
	defer client.Close()
	k := &Kafka{cfg: KafkaConfig{Cluster: cluster, Topic: topic}, client: client, admin: kadm.NewClient(client)}
	return k.describe(ctx, epochs)
}

// describe is a Describe.
func (k *Kafka) describe(ctx context.Context, epochs map[int32]int32) (smelt.Description, error) {
	d, err := k.Describe(ctx)
	if err == nil && len(epochs) > 0 {
		d.Shared, err = k.shared(ctx, epochs)
	}
	return d, err
}
