package ingest_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/ingest"
)

func TestProduce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 12<<20)
	for _, c := range []struct {
		name, input string
		want        []string
	}{
		{"nothing", "", nil},
		{"lines", "a\nb\nc\n", []string{"a", "b", "c"}},
		{"no end at the end", "a\nb", []string{"a", "b"}},
		{"empty lines", "\n\na\n\n\r\n", []string{"a"}},
		{"line ends of Windows", "a\r\nb\r\n", []string{"a", "b"}},
		{"bytes as they are", " a\t\n\xff\x00\n", []string{" a\t", "\xff\x00"}},
		{"a long line", "a\n" + long + "\nb\n", []string{"a", long, "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1)
			if err := b.DeleteTopic(topicName); err != nil {
				t.Fatal(err)
			}
			if err := b.CreateTopic(topicName, 1, map[string]string{"max.message.bytes": "33554432"}); err != nil {
				t.Fatal(err)
			}
			var records, bytes int64
			n, err := ingest.Produce(deadline(t), b.cluster, topicName, strings.NewReader(c.input), func(r, b int64) {
				records, bytes = r, b
			})
			if err != nil || n != int64(len(c.want)) || records != n || bytes > int64(len(c.input)) {
				t.Fatalf("produce: got %d, progress %d records and %d bytes, error %v; want %d",
					n, records, bytes, err, len(c.want))
			}
			var got []string
			for _, r := range drain(t, b, len(c.want)) {
				if r.Key != nil {
					t.Errorf("got key %q, want none", r.Key)
				}
				got = append(got, string(r.Value))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %.100q, want %.100q", got, c.want)
			}
		})
	}
}

func TestProduceSpreads(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 3)
	const lines = 50_000
	n, err := ingest.Produce(deadline(t), b.cluster, topicName, strings.NewReader(strings.Repeat(`{"sensor_id":"hel-001"}`+"\n", lines)), nil)
	if err != nil || n != lines {
		t.Fatalf("produce: got %d and error %v, want %d", n, err, lines)
	}
	for _, p := range b.PartitionInfos(topicName) {
		if p.HighWatermark == 0 {
			t.Errorf("partition %d got nothing", p.Partition)
		}
	}
}

func TestEnsureTopic(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1)
	for _, c := range []struct {
		topic      string
		partitions int32
		want       int
	}{{"new", 3, 3}, {"new", 5, 3}, {topicName, 7, 1}} {
		if err := ingest.EnsureTopic(deadline(t), b.cluster, c.topic, c.partitions); err != nil {
			t.Fatal(err)
		}
		if got := len(b.PartitionInfos(c.topic)); got != c.want {
			t.Errorf("topic %s has %d partitions, want %d", c.topic, got, c.want)
		}
	}
}

func TestProduceTrouble(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1)
	if err := b.CreateTopic("small", 1, map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, topic string
		input       io.Reader
		want        string
		kind        error
		n           int64
	}{
		{"missing topic", "missing", strings.NewReader("a\n"), "topic missing does not exist on", smelt.ErrSource, 0},
		{"above the topic's bound", "small", strings.NewReader("a\n" + strings.Repeat("x", 3000) + "\n"), "line 2 of 3000 bytes", smelt.ErrSource, -1},
		{"above our bound", topicName, io.MultiReader(strings.NewReader("a\nb\n"), endless(strings.Repeat("x", 1<<20))), "line 3: it is longer than 64 MiB", nil, -1},
		{"input fails", topicName, io.MultiReader(strings.NewReader("a\n"), broken{}), "line 2: the disk is on fire", nil, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, err := ingest.Produce(deadline(t), b.cluster, c.topic, c.input, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("produce: got error %v, want %q of kind %v", err, c.want, c.kind)
			}
			if c.n >= 0 && n != c.n || n > 2 {
				t.Errorf("produce: got %d acknowledged", n)
			}
		})
	}
	ctx, cancel := context.WithCancel(deadline(t))
	cancel()
	if _, err := ingest.Produce(ctx, b.cluster, topicName, strings.NewReader("a\n"), nil); err == nil {
		t.Error("produce with an ended context: got no error")
	}
}

// endless is a line that does not end: its text, over and over.
type endless string

func (e endless) Read(p []byte) (int, error) {
	return copy(p, e), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the disk is on fire") }
