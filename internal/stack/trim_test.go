package stack_test

import (
	"context"
	"crypto/rand"
	"io/fs"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"smelt"
	"smelt/ingest"
)

// diskOf adds up the files under a folder.
func diskOf(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// TestTrimmedLog has the embedded broker's log trimmed while it is read: the disk is
// freed, the reader goes on, and so do the offsets, over a stop and a kill.
func TestTrimmedLog(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
	defer cancel()
	const (
		records = 60_000
		size    = 1 << 10 // of a record
		keep    = 1000
	)
	home := newHome(t)
	c := startChild(t, home)
	if _, err := kadm.NewClient(kafka(t, c.settings)).CreateTopic(ctx, 2, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, records*size)
	rand.Read(value)
	produce(ctx, t, c, value, size)

	const position = records - 10 // the reader is about to go on here
	source := openAt(ctx, t, c, position)
	before := diskOf(t, filepath.Join(home, "kafka"))
	trim(ctx, t, c, position, keep)
	wantLog(ctx, t, c, smelt.Extent{Start: records - keep, End: records})
	if after := diskOf(t, filepath.Join(home, "kafka")); after > before/2 {
		t.Errorf("the log has %d bytes on disk, of %d before", after, before)
	}
	polled, err := source.Poll(ctx, 1<<20)
	if err != nil || len(polled) == 0 || polled[0].Offset != position {
		t.Errorf("the reader got %d records and %v, want it to go on at %d", len(polled), err, position)
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	c.stop()

	c = startChild(t, home)
	wantLog(ctx, t, c, smelt.Extent{Start: records - keep, End: records})
	produce(ctx, t, c, value[:size], size)
	c.end(syscall.SIGKILL)

	// What was deleted may be there again after a kill, but for what the disk lacks.
	c = startChild(t, home)
	trim(ctx, t, c, records+1, keep)
	wantLog(ctx, t, c, smelt.Extent{Start: records + 1 - keep, End: records + 1})
	c.stop()
}

// produce writes values of a size to partition 0.
func produce(ctx context.Context, t *testing.T, c *child, values []byte, size int) {
	t.Helper()
	client := kafka(t, c.settings, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic))
	var records []*kgo.Record
	for ; len(values) > 0; values = values[size:] {
		records = append(records, &kgo.Record{Value: values[:size]})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func openAt(ctx context.Context, t *testing.T, c *child, position int64) *ingest.Kafka {
	t.Helper()
	source, err := ingest.OpenKafka(ctx, ingest.KafkaConfig{
		Cluster: ingest.Cluster{Brokers: []string{c.settings["SMELT_KAFKA_BROKERS"]}}, Topic: topic, Group: group,
		Resume: func(ctx context.Context, partition int32, held func(context.Context, int32) (smelt.Extent, error)) (int64, error) {
			if partition == 0 {
				return position, nil
			}
			log, err := held(ctx, smelt.NoEpoch)
			return log.Start, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// trim has a trimmer delete what a lake has that has partition 0 up to an offset.
func trim(ctx context.Context, t *testing.T, c *child, have, keep int64) {
	t.Helper()
	trimmer := ingest.NewTrimmer(ingest.TrimConfig{
		Cluster: ingest.Cluster{Brokers: []string{c.settings["SMELT_KAFKA_BROKERS"]}}, Topic: topic, Keep: keep,
		Log: slog.New(slog.DiscardHandler),
		Have: func(context.Context, ingest.Describe) (map[int32]int64, error) {
			return map[int32]int64{0: have}, nil
		},
	})
	if p, err := trimmer.Step(ctx); err != nil || p.Records == 0 {
		t.Fatalf("%d records were deleted, %v", p.Records, err)
	}
}

func wantLog(ctx context.Context, t *testing.T, c *child, want smelt.Extent) {
	t.Helper()
	d, err := ingest.DescribeTopic(ctx, ingest.Cluster{Brokers: []string{c.settings["SMELT_KAFKA_BROKERS"]}}, topic, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Partitions[0]; got != want {
		t.Errorf("the log of partition 0 is %+v, want %+v", got, want)
	}
	if got := d.Partitions[1]; got != (smelt.Extent{}) {
		t.Errorf("the log of partition 1 is %+v, want it empty", got)
	}
}
