package ingest

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"

	"smelt"
)

// DescribeTopic describes a topic as [Kafka.Describe] does, without joining a
// group: it disturbs no reader.
func DescribeTopic(ctx context.Context, cluster Cluster, topic string) (smelt.Description, error) {
	client, _, err := cluster.dial(ctx, topic, nil)
	if err != nil {
		return smelt.Description{}, err
	}
	defer client.Close()
	k := &Kafka{cfg: KafkaConfig{Cluster: cluster, Topic: topic}, client: client, admin: kadm.NewClient(client)}
	return k.Describe(ctx)
}
