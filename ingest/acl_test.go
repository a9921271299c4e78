package ingest_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"smelt/ingest"
)

// TestKafkaACLs reads, describes, commits, trims and produces as users that have
// the rights of docs/security.md and no other.
func TestKafkaACLs(t *testing.T) {
	t.Parallel()
	on := func(resource kmsg.ACLResourceType, name string, operation kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: resource, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, Allow: true}
	}
	topic := func(operation kmsg.ACLOperation) kfake.ACL {
		return on(kmsg.ACLResourceTypeTopic, topicName, operation)
	}
	b := newBroker(t, 1, kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.User("PLAIN", "run", "p", topic(kmsg.ACLOperationRead), on(kmsg.ACLResourceTypeGroup, "smelt", kmsg.ACLOperationRead)),
		kfake.User("PLAIN", "trim", "p", topic(kmsg.ACLOperationRead), topic(kmsg.ACLOperationDelete)),
		kfake.User("PLAIN", "status", "p", topic(kmsg.ACLOperationRead), on(kmsg.ACLResourceTypeGroup, "smelt", kmsg.ACLOperationDescribe)),
		kfake.User("PLAIN", "produce", "p", topic(kmsg.ACLOperationWrite), topic(kmsg.ACLOperationDescribeConfigs)),
		kfake.User("PLAIN", "nobody", "p"))
	as := func(user string) ingest.Cluster {
		return ingest.Cluster{Brokers: b.ListenAddrs(), SASL: ingest.SASL{Mechanism: "PLAIN", User: user, Password: "p"}}
	}
	if n, err := ingest.Produce(deadline(t), as("produce"), topicName, strings.NewReader("a\nb\n"), func(int64, int64) {}); n != 2 || err != nil {
		t.Fatalf("produce: %d records, error %v", n, err)
	}
	source, err := ingest.OpenKafka(deadline(t), ingest.KafkaConfig{Cluster: as("run"), Topic: topicName, Group: "smelt", Resume: at(-1)})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	records, err := source.Poll(deadline(t), 1<<20)
	if err != nil || len(records) == 0 {
		t.Errorf("run polls %d records, error %v", len(records), err)
	}
	if err := source.Commit(deadline(t), map[int32]int64{0: 2}); err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := source.Describe(deadline(t)); err != nil {
		t.Errorf("run: %v", err)
	}
	if err := source.Close(); err != nil {
		t.Errorf("run: %v", err)
	}
	for _, user := range []string{"run", "status"} {
		if _, err := ingest.Members(deadline(t), as(user), "smelt", topicName); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	described, err := ingest.DescribeTopic(deadline(t), as("status"), topicName, map[int32]int32{0: 0})
	if err != nil || described.Partitions[0].End != 2 {
		t.Errorf("status: got %+v and error %v", described, err)
	}
	trimmer := ingest.NewTrimmer(ingest.TrimConfig{
		Cluster: as("trim"), Topic: topicName, Log: slog.New(slog.DiscardHandler), Keep: 1,
		Have: func(context.Context, ingest.Describe) (map[int32]int64, error) { return map[int32]int64{0: 2}, nil },
	})
	if p, err := trimmer.Step(deadline(t)); p.Records != 1 || err != nil {
		t.Errorf("trim: got %+v and error %v, want 1 record deleted", p, err)
	}
	if err := as("nobody").Check(deadline(t), topicName); err == nil || !strings.Contains(err.Error(), topicName) {
		t.Errorf("nobody: got error %v, want one of the topic", err)
	}
}
