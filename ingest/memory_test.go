package ingest_test

import (
	"context"
	"errors"
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

func at(next int64) smelt.Resume {
	return func(context.Context, int32) (int64, error) { return next, nil }
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

func TestLogOutOfRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		next int64
		ok   bool
	}{
		{"nothing yet", -1, true},
		{"at the start", 5, true},
		{"at the end", 10, true},
		{"deleted", 4, false},
		{"beyond the end", 11, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			log := ingest.NewLog(1)
			for range 10 {
				log.Append(smelt.Record{Value: []byte("x")})
			}
			log.Truncate(0, 5)
			_, err := log.Open(at(c.next)).Poll(ended(), 1<<20)
			if got := err == nil; got != c.ok || err != nil && !errors.Is(err, smelt.ErrSource) {
				t.Errorf("poll: got error %v, want success %v", err, c.ok)
			}
		})
	}
}

func TestLogDeletedWhileRead(t *testing.T) {
	t.Parallel()
	log := ingest.NewLog(1)
	log.Append(smelt.Record{Value: make([]byte, 100)}, smelt.Record{Value: make([]byte, 100)}, smelt.Record{})
	source := log.Open(at(0))
	if records, err := source.Poll(ended(), 100); err != nil || len(records) != 1 {
		t.Fatalf("poll: got %d records and error %v", len(records), err)
	}
	log.Truncate(0, 2)
	if _, err := source.Poll(ended(), 100); !errors.Is(err, smelt.ErrSource) {
		t.Errorf("poll: got error %v, want %v", err, smelt.ErrSource)
	}
}
