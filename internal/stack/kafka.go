package stack

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	// maxMessageBytes lets a batch with a record over smelt's own bound of
	// 8 MiB through, so that the line meets it and not only its producer.
	maxMessageBytes = "33554432"

	// segmentBytes is how much of a partition's log goes from the disk at once when
	// records are deleted: files of the log do as a whole.
	segmentBytes = "16777216"

	// describeTopicPartitions is the request that clients built on librdkafka
	// misread from this broker. They do without it when it is not offered.
	describeTopicPartitions = 75

	// kafkaReadyTimeout bounds one login at a broker in this very process.
	kafkaReadyTimeout = 10 * time.Second
)

// broker is a broker for Kafka's protocol with its log on disk. It does not create topics automatically.
type broker struct {
	cluster *kfake.Cluster
}

// startKafka opens the log in dir and serves it. The id is that of a new
// cluster; one that exists keeps its own.
func startKafka(ctx context.Context, dir string, port int, id string, log *slog.Logger) (*broker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(describeTopicPartitions, -1)
	cluster, err := kfake.NewCluster(
		kfake.Ports(port),
		kfake.DataDir(dir),
		kfake.ClusterID(id),
		kfake.MaxVersions(versions),
		kfake.WithLogger(kafkaLog{log}),
		// The broker deletes no record: a partition that its retention had emptied
		// would begin at offset 0 again after a restart. Readers that have got them
		// have them deleted, but for the newest.
		kfake.BrokerConfigs(map[string]string{
			"log.retention.ms": "-1", "log.segment.bytes": segmentBytes, "message.max.bytes": maxMessageBytes,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", dir, err)
	}
	b := &broker{cluster}
	if err := pingKafka(ctx, address(port)); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func pingKafka(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaReadyTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("ask the broker at %s: %w", addr, err)
	}
	return nil
}

func (b *broker) stop() { b.cluster.Close() }

// kafkaLog passes on what the broker finds wrong, such as a log that it had to
// cut; each request is of no interest.
type kafkaLog struct{ log *slog.Logger }

func (l kafkaLog) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.log.Error("kafka broker", "message", fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.log.Debug("kafka broker", "message", fmt.Sprintf(format, args...))
	}
}
