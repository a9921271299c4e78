package ingest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"smelt"
	"smelt/ingest"
	"smelt/ingest/sourcetest"
)

func TestLogContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, func(t testing.TB, partitions int) sourcetest.Topic {
		log := ingest.NewLog(partitions)
		return sourcetest.Topic{
			Append: func(_ testing.TB, records ...smelt.Record) { log.Append(records...) },
			Skip:   func(_ testing.TB, partition int32) { log.Skip(partition, 1) },
			Open:   func(_ testing.TB, resume smelt.Resume) smelt.Source { return log.Open(resume) },
			Share: func(_ testing.TB, first, second smelt.Source) {
				for p := range int32(partitions) {
					to := first
					if p%2 == 1 {
						to = second
					}
					log.Assign(p, to.(*ingest.LogSource))
				}
			},
			Committed: func(_ testing.TB, partition int32) int64 { return log.Committed(partition) },
		}
	})
}

// ended is a context with which Poll does not wait.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// at goes on at an offset, or with -1 where the log begins.
func at(next int64) smelt.Resume {
	return func(ctx context.Context, _ int32, held func(context.Context, int32) (smelt.Extent, error)) (int64, error) {
		log, err := held(ctx, smelt.NoEpoch)
		if next < 0 {
			return log.Start, err
		}
		return next, err
	}
}

func TestLogWithoutWaiting(t *testing.T) {
	t.Parallel()
	log := ingest.NewLog(1)
	a := log.Open(at(-1))
	log.Append(smelt.Record{Value: []byte("one")}, smelt.Record{Value: []byte("two")})

	records, err := a.Poll(ended(), 1<<20)
	if err != nil || len(records) != 2 || string(records[1].Value) != "two" {
		t.Fatalf("poll: got %v and error %v, want two records", records, err)
	}
	value := records[0].Value
	if records, err := a.Poll(ended(), 1<<20); err != nil || len(records) != 0 {
		t.Fatalf("poll: got %v and error %v, want nothing", records, err)
	}
	if string(value) == "one" {
		t.Error("a record's bytes outlive the next Poll")
	}

	b := log.Open(at(1))
	if records, _ := b.Poll(ended(), 1<<20); len(records) != 0 {
		t.Errorf("an instance with no partition got %v", records)
	}
	log.Assign(0, b)
	if records, err := b.Poll(ended(), 1<<20); err != nil || len(records) != 1 || records[0].Offset != 1 {
		t.Errorf("poll after the hand-over: got %v and error %v, want offset 1", records, err)
	}
	log.Append(smelt.Record{Value: []byte("three")})
	if records, _ := a.Poll(ended(), 1<<20); len(records) != 0 {
		t.Errorf("the instance that had the partition got %v", records)
	}
}

// TestLogMisfits has the log lose what comes next, at either end: the lake is asked
// again, and tells where to go on, within the same Poll.
func TestLogMisfits(t *testing.T) {
	t.Parallel()
	log := ingest.NewLog(1)
	log.Append(smelt.Record{Value: make([]byte, 100)}, smelt.Record{Value: make([]byte, 100)}, smelt.Record{})
	var next int64
	var asked []smelt.Extent
	source := log.Open(func(ctx context.Context, _ int32, held func(context.Context, int32) (smelt.Extent, error)) (int64, error) {
		extent, err := held(ctx, smelt.NoEpoch)
		asked = append(asked, extent)
		return next, err
	})
	poll := func(want int64) {
		t.Helper()
		if records, err := source.Poll(ended(), 100); err != nil || len(records) != 1 || records[0].Offset != want {
			t.Fatalf("poll: got %v and error %v, want offset %d", records, err, want)
		}
	}
	none := func() {
		t.Helper()
		if records, err := source.Poll(ended(), 100); err != nil || len(records) > 0 {
			t.Fatalf("poll: got %v and error %v, want nothing", records, err)
		}
	}
	poll(0)
	log.Truncate(0, 2)
	next = 2
	poll(2)
	log.GoBack(0, 2)
	none()
	none()
	log.Append(smelt.Record{})
	poll(2)
	if want := []smelt.Extent{{Start: 0, End: 3}, {Start: 2, End: 3}, {Start: 2, End: 2}}; !slices.Equal(asked, want) {
		t.Errorf("asked with %v, want %v", asked, want)
	}
	log.Recreate()
	if _, err := source.Poll(ended(), 100); !errors.Is(err, smelt.ErrSource) {
		t.Errorf("poll of a topic that was re-created: %v", err)
	}
}
