package ingest_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"smelt"
)

// BenchmarkKafkaPoll reads readings of about 100 bytes. The broker runs in the same
// process, so cpu-ns/record counts its work too.
func BenchmarkKafkaPoll(b *testing.B) {
	const batch = 10_000
	broker := newBroker(b, 4).withClient(b)
	records := make([]smelt.Record, batch)
	total := max(b.N, 200_000) / batch * batch
	for done := 0; done < total; done += batch {
		for i := range records {
			records[i] = smelt.Record{
				Partition: int32(i % 4), Timestamp: 1_789_221_600_000 + int64(done+i), Key: []byte("hel-001"),
				Value: fmt.Appendf(nil, `{"sensor_id":"hel-001","temperature":%d.5,"unit":"C","event_time":"2026-11-29T12:00:00.123Z"}`, i%30),
			}
		}
		broker.append(b, records...)
	}
	source := broker.open(b, at(-1))
	defer source.Close()
	b.ResetTimer()
	b.ReportAllocs()
	start, cpu, n := time.Now(), cpuTime(), 0
	for n < total {
		records, err := source.Poll(deadline(b), 4<<20)
		if err != nil || len(records) == 0 {
			b.Fatalf("poll: got %d records and error %v", len(records), err)
		}
		n += len(records)
	}
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(n), "cpu-ns/record")
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "records/s")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
