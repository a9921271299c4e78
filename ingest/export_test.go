package ingest

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ProduceWithin is Produce with a time of its own in which something has to be
// acknowledged.
var ProduceWithin = produce

// RefusedEarly is what a client calls when the group refuses an instance before
// OpenKafka has that client.
func RefusedEarly(client *kgo.Client) { new(Kafka).gone(context.Background(), client, nil) }
