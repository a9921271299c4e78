package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt"
	"smelt/ingest"
)

func TestKafkaOpenTrouble(t *testing.T) {
	t.Parallel()
	plain := newBroker(t, 1)
	closed := newBroker(t, 1, kfake.EnableSASL(), kfake.Superuser("PLAIN", "smelt", "right"),
		kfake.Superuser("SCRAM-SHA-256", "smelt256", "right"), kfake.Superuser("SCRAM-SHA-512", "smelt512", "right"))
	login := func(mechanism, user, password string) ingest.Cluster {
		return ingest.Cluster{Brokers: closed.ListenAddrs(), SASL: ingest.SASL{Mechanism: mechanism, User: user, Password: password}}
	}
	nobody := unusedAddress(t)
	for _, c := range []struct {
		name    string
		cluster ingest.Cluster
		topic   string
		want    string // empty: it opens
	}{
		{"fine", plain.cluster, topicName, ""},
		{"PLAIN", login("PLAIN", "smelt", "right"), topicName, ""},
		{"SCRAM-SHA-256", login("SCRAM-SHA-256", "smelt256", "right"), topicName, ""},
		{"SCRAM-SHA-512", login("SCRAM-SHA-512", "smelt512", "right"), topicName, ""},
		{"wrong password", login("PLAIN", "smelt", "wrong"), topicName, "wrong user or password"},
		{"wrong SCRAM password", login("SCRAM-SHA-512", "smelt512", "wrong"), topicName, "wrong user or password"},
		{"no such mechanism", login("GSSAPI", "smelt", "right"), topicName, "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"},
		{"missing topic", plain.cluster, "sensor.readings", "topic sensor.readings does not exist on " +
			plain.ListenAddrs()[0] + ": create it, or set source.kafka in pipeline.yml"},
		{"broker down", ingest.Cluster{Brokers: []string{nobody}}, topicName, nobody},
		{"no broker given", ingest.Cluster{}, topicName, "SMELT_KAFKA_BROKERS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source, err := ingest.OpenKafka(deadline(t), ingest.KafkaConfig{
				Cluster: c.cluster, Topic: c.topic, Group: "smelt", Resume: at(-1),
			})
			if err == nil {
				source.Close()
			}
			switch {
			case c.want == "" && err != nil:
				t.Errorf("open: %v", err)
			case c.want != "" && err == nil:
				t.Errorf("open: got no error, want %q", c.want)
			case c.want != "" && (!errors.Is(err, smelt.ErrSource) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("open: got error %q, want %q of kind %v", err, c.want, smelt.ErrSource)
			}
			if err != nil && strings.Contains(err.Error(), "right") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

// unusedAddress is one where nothing listens.
func unusedAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestKafkaRefusedEarly(t *testing.T) {
	t.Parallel()
	ingest.RefusedEarly(newBroker(t, 1).withClient(t).client) // it panicked
}

func TestKafkaBegins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		next, first int64
	}{
		{"nothing yet", -1, 5},
		{"at the start", 5, 5},
		{"at the end", 10, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1).withClient(t)
			b.append(t, make([]smelt.Record, 10)...)
			if err := b.DeleteRecords(topicName, 0, 5); err != nil {
				t.Fatalf("delete records: %v", err)
			}
			source := b.open(t, at(c.next))
			defer source.Close()
			if c.first == 10 {
				if records, err := source.Poll(soon(t), 1<<20); err != nil || len(records) > 0 {
					t.Fatalf("poll: got %d records and error %v, want none", len(records), err)
				}
				b.append(t, smelt.Record{})
			}
			records, err := source.Poll(deadline(t), 1<<20)
			if err != nil || len(records) == 0 || records[0].Offset != c.first {
				t.Errorf("poll: got %v and error %v, want offset %d first", records, err, c.first)
			}
		})
	}
}

// soon is a context that is just long enough to get the partitions.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(deadline(t))
	cancel()
	return ctx
}

// TestKafkaSlowResume has each partition's place take longer to find than a Poll
// may last.
func TestKafkaSlowResume(t *testing.T) {
	t.Parallel()
	const partitions = 3
	b := newBroker(t, partitions).withClient(t)
	for p := range int32(partitions) {
		b.append(t, smelt.Record{Partition: p})
	}
	var end context.CancelFunc // of the Poll under way
	resumed := 0
	source := b.open(t, func(ctx context.Context, _ int32, _ func(context.Context, int32) (smelt.Extent, error)) (int64, error) {
		resumed++
		end()
		return 0, ctx.Err()
	})
	defer source.Close()
	for got := 0; got < partitions; {
		var ctx context.Context
		ctx, end = context.WithCancel(deadline(t))
		records, err := source.Poll(ctx, 1<<20)
		end()
		if err != nil || resumed > partitions {
			t.Fatalf("poll: %v, after %d searches for %d partitions", err, resumed, partitions)
		}
		got += len(records)
	}
}

// TestKafkaDeletedWhileRead lets retention overtake a slow reader: the lake is asked
// where to go on.
func TestKafkaDeletedWhileRead(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	// More than is fetched ahead, as single batches.
	for range 12 {
		b.append(t, smelt.Record{Value: make([]byte, 4<<20)})
	}
	source := b.open(t, at(-1))
	defer source.Close()
	if records, err := source.Poll(deadline(t), 1); err != nil || len(records) != 1 {
		t.Fatalf("poll: got %d records and error %v, want 1", len(records), err)
	}
	if err := b.DeleteRecords(topicName, 0, 12); err != nil {
		t.Fatalf("delete records: %v", err)
	}
	b.append(t, smelt.Record{Value: []byte("after the gap")})
	for next := int64(1); ; next++ {
		records, err := source.Poll(deadline(t), 1)
		if err != nil || len(records) != 1 {
			t.Fatalf("poll: got %d records and error %v, want 1", len(records), err)
		}
		if got := records[0].Offset; got == 12 && next < 12 { // the lake has said so
			return
		} else if got != next {
			t.Fatalf("poll: got offset %d, want %d, or 12 once the lake was asked again", got, next)
		}
	}
}

// TestKafkaAborted checks that an aborted transaction leaves only a hole.
func TestKafkaAborted(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	b.append(t, smelt.Record{Value: []byte("before")})
	b.abort(t, 0)
	b.append(t, smelt.Record{Value: []byte("after")})
	source := b.open(t, at(0))
	defer source.Close()
	var got []smelt.Record
	for len(got) < 2 {
		records, err := source.Poll(deadline(t), 1<<20)
		if err != nil || len(records) == 0 {
			t.Fatalf("poll: got %d records and error %v", len(records), err)
		}
		for _, r := range records {
			r.Value = bytes.Clone(r.Value)
			got = append(got, r)
		}
	}
	if string(got[0].Value) != "before" || string(got[1].Value) != "after" || got[1].Offset != 3 {
		t.Errorf("got %q at %d, then %q at %d; want before at 0, after at 3",
			got[0].Value, got[0].Offset, got[1].Value, got[1].Offset)
	}
}

// TestKafkaMarks: a record says how many offsets after it are transaction markers or aborted records.
func TestKafkaMarks(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	b.append(t, smelt.Record{}, smelt.Record{})
	for range 2 {
		b.abort(t, 0) // a record, and a mark
	}
	b.append(t, smelt.Record{})
	source := b.open(t, at(0))
	defer source.Close()
	var skips []int64
	for len(skips) < 3 {
		records, err := source.Poll(deadline(t), 1<<20)
		if err != nil || len(records) == 0 {
			t.Fatalf("poll: got %d records and error %v", len(records), err)
		}
		for _, r := range records {
			skips = append(skips, r.Skip)
		}
	}
	if want := []int64{0, 4, 0}; !slices.Equal(skips, want) {
		t.Errorf("skips: got %v, want %v", skips, want)
	}
}

// TestKafkaOpenTransaction checks that Describe ends where reading does: before
// a transaction that is not decided yet. The log that a lake continues goes further.
func TestKafkaOpenTransaction(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	b.append(t, smelt.Record{})
	writer := b.withClient(t, kgo.TransactionalID("open")).client
	if err := writer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := writer.ProduceSync(deadline(t), &kgo.Record{Value: []byte("undecided")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	source := b.open(t, at(0))
	defer source.Close()
	d, err := source.Describe(deadline(t))
	if want := (smelt.Extent{Start: 0, End: 1}); err != nil || d.Partitions[0] != want {
		t.Errorf("describe: got %v and error %v, want %v", d.Partitions[0], err, want)
	}
	for _, epoch := range []int32{0, smelt.NoEpoch} {
		d, err := ingest.DescribeTopic(deadline(t), b.cluster, topicName, map[int32]int32{0: epoch, 7: 0})
		if err != nil || !maps.Equal(d.Shared, map[int32]int64{0: 2}) {
			t.Errorf("describe for epoch %d: got %v and error %v, want the log's end", epoch, d.Shared, err)
		}
	}
	if err := writer.EndTransaction(deadline(t), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

// TestKafkaRecreated deletes and re-creates the topic under a reader.
func TestKafkaRecreated(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the client takes ten seconds to believe that a topic is another one")
	}
	b := newBroker(t, 1).withClient(t)
	b.append(t, smelt.Record{Value: []byte("old")})
	source := b.open(t, at(0))
	defer source.Close()
	if records, err := source.Poll(deadline(t), 1<<20); err != nil || len(records) != 1 {
		t.Fatalf("poll: got %d records and error %v, want 1", len(records), err)
	}
	before, err := source.Describe(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteTopic(topicName); err != nil {
		t.Fatal(err)
	}
	if err := b.CreateTopic(topicName, 1, nil); err != nil {
		t.Fatal(err)
	}
	b.withClient(t).append(t, make([]smelt.Record, 5)...)
	if records, err := source.Poll(deadline(t), 1<<20); !errors.Is(err, smelt.ErrSource) || len(records) > 0 {
		t.Errorf("poll: got %d records and error %v, want only an error", len(records), err)
	}
	after, err := source.Describe(deadline(t))
	if err != nil || after.Topic == before.Topic {
		t.Errorf("describe: got topic id %q and error %v, want another id than %q", after.Topic, err, before.Topic)
	}
}

// TestKafkaLargeRecord lets a record through that is above every fetch size.
func TestKafkaLargeRecord(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	large := bytes.Repeat([]byte("0123456789abcdef"), 12<<20/16)
	b.append(t, smelt.Record{Value: []byte("small")})
	b.append(t, smelt.Record{Value: large})
	b.append(t, smelt.Record{Value: []byte("small again")})
	source := b.open(t, at(-1))
	defer source.Close()
	var sizes []int
	for len(sizes) < 3 {
		records, err := source.Poll(deadline(t), 1<<20)
		if err != nil || len(records) == 0 {
			t.Fatalf("poll: got %d records and error %v", len(records), err)
		}
		for _, r := range records {
			sizes = append(sizes, len(r.Value))
		}
	}
	if sizes[1] != len(large) {
		t.Errorf("got records of %v bytes, want the second of %d", sizes, len(large))
	}
}

// TestKafkaPartitionAdded has the topic grow under a reader, which reads the new
// partition from its beginning.
func TestKafkaPartitionAdded(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	b.append(t, smelt.Record{Value: []byte("old")})
	source := b.open(t, at(-1))
	defer source.Close()
	if records, err := source.Poll(deadline(t), 1<<20); err != nil || len(records) != 1 {
		t.Fatalf("poll: got %d records and error %v, want 1", len(records), err)
	}
	grown, err := kadm.NewClient(b.client).UpdatePartitions(deadline(t), 2, topicName)
	if err = errors.Join(err, grown.Error()); err != nil {
		t.Fatalf("add a partition: %v", err)
	}
	b.withClient(t).append(t, smelt.Record{Partition: 1, Value: []byte("new")})
	records, err := source.Poll(deadline(t), 1<<20)
	if err != nil || len(records) != 1 || records[0].Partition != 1 || records[0].Offset != 0 {
		t.Fatalf("poll: got %v and error %v, want the record at offset 0 of partition 1", records, err)
	}
}

// TestKafkaBrokerDies: after the broker's death Poll ends with its context, and Close in time.
func TestKafkaBrokerDies(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1).withClient(t)
	b.append(t, smelt.Record{Value: []byte("x")})
	source := b.open(t, at(-1))
	if records, err := source.Poll(deadline(t), 1<<20); err != nil || len(records) != 1 {
		t.Fatalf("poll: got %d records and error %v, want 1", len(records), err)
	}
	b.Cluster.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if records, _ := source.Poll(ctx, 1<<20); len(records) > 0 {
			t.Errorf("poll: got %d records from a broker that is gone", len(records))
		}
	}()
	cancel()
	<-done
	if err := source.Commit(deadline(t), map[int32]int64{0: 1}); !errors.Is(err, smelt.ErrSource) {
		t.Errorf("commit: got error %v, want %v", err, smelt.ErrSource)
	}
	source.Close() // says what it could not do
}
