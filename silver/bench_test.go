package silver_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/pipeline"
)

// BenchmarkSilver takes telemetry, one event in twenty of it twice, from bronze to
// silver. It reports what an event costs in CPU of all threads and in allocations.
func BenchmarkSilver(b *testing.B) {
	const events, eachStep = 500_000, 50_000
	p := fleet(b)
	for b.Loop() {
		b.StopTimer()
		l := open(b, p)
		r := rand.New(rand.NewPCG(1, 2))
		var batch []smelt.Record
		for i := range events {
			batch = append(batch, telemetry(r, i))
			if len(batch) == eachStep {
				l.Topic.Append(batch...)
				if _, err := l.Bronze.Step(b.Context()); err != nil {
					b.Fatal(err)
				}
				batch = batch[:0]
			}
		}
		before := cpu(b)
		b.StartTimer()
		var records int64
		for more := true; more; {
			done, err := l.Silver.Step(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			records, more = records+done.Records, done.More
		}
		b.StopTimer()
		b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(records), "cpu-ns/event")
		if records == 0 {
			b.Fatal("nothing was read")
		}
		b.StartTimer()
	}
	b.ReportAllocs()
}

func fleet(b *testing.B) *smelt.Pipeline {
	b.Helper()
	p, err := pipeline.Read(fstest.MapFS{
		"fleet/pipeline.yml": {Data: []byte(`source: {kafka: t}
events:
  time: recordedAt
  columns:
    tenantId:   varchar not null
    deviceId:   varchar not null
    eventId:    varchar not null
    recordedAt: timestamptz not null
    metric:     varchar not null
    value:      double not null
    severity:   varchar
silver:
  partition: [tenant_id, metric, day(recordedAt)]
  unique: [tenant_id, event_id]
`)},
		"fleet/silver.sql": {Data: []byte(`SELECT "tenantId" AS tenant_id, "deviceId" AS device_id, "eventId" AS event_id, "recordedAt", metric, value, severity,
			_partition_id, _partition_offset FROM bronze.fleet`)},
	}, "fleet")
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// telemetry is an event of a fleet.
func telemetry(r *rand.Rand, i int) smelt.Record {
	if i%20 == 19 {
		i-- // again
	}
	at := time.Date(2026, 9, 12, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * 10 * time.Millisecond)
	value := fmt.Sprintf(`{"tenantId":"fleet-%c","deviceId":"vehicle-%d","eventId":"01J8M2Y0Q9S8V7%012d","recordedAt":"%s","metric":"%s","value":%.1f,"severity":"normal"}`,
		'a'+i%4, i%100, i, at.Format("2006-01-02T15:04:05.000Z"), []string{"battery_pct", "speed_kmh", "motor_temp_c"}[i%3], 100*r.Float64())
	return smelt.Record{Timestamp: at.UnixMilli(), Key: fmt.Appendf(nil, "vehicle-%d", i%100), Value: []byte(value)}
}

// cpu is what the process has used so far, in all threads.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
