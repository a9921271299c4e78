package bronze_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

// telemetry returns n records with values of about 182 bytes, as vehicles send them:
// each has an id that nothing repeats.
func telemetry(n int) []smelt.Record {
	random := rand.New(rand.NewPCG(1, 2))
	records := make([]smelt.Record, n)
	for i := range records {
		at := time.UnixMilli(1789221600000 + int64(i)*10).UTC()
		value := fmt.Sprintf(`{"tenantId":"fleet-%c","deviceId":"vehicle-%d","eventId":"01M2B0%04X%016X","recordedAt":"%s","metric":"%s","value":%.1f,"severity":"normal"}`,
			'a'+random.IntN(4), 1+random.IntN(25), i&0xffff, random.Uint64(), at.Format("2006-01-02T15:04:05.000Z"),
			[]string{"battery_pct", "speed_kmh", "motor_temp_c"}[random.IntN(3)], 60+35*random.Float64())
		records[i] = smelt.Record{Offset: int64(i), Timestamp: at.UnixMilli(), Value: []byte(value)}
	}
	return records
}

func BenchmarkAppendLine(b *testing.B) {
	records := telemetry(10_000)
	b.SetBytes(int64(len(records[0].Value)))
	b.ReportAllocs()
	var line []byte
	for i := 0; b.Loop(); i++ {
		line = bronze.AppendLine(line[:0], &records[i%len(records)], bronze.DefaultRecordMax)
	}
}

// feed is a source of one partition. It gives all its records, and then calls done.
type feed struct {
	smelt.Source
	resume  smelt.Resume
	records []smelt.Record
	done    func()
}

// Poll gives 20,000 records, some 4 MB of them.
func (f *feed) Poll(ctx context.Context, _ int) ([]smelt.Record, error) {
	if f.resume != nil {
		held := func(context.Context, int32) (smelt.Extent, error) {
			return smelt.Extent{End: int64(len(f.records))}, nil
		}
		if _, err := f.resume(ctx, 0, held); err != nil {
			return nil, err
		}
		f.resume = nil
	}
	if len(f.records) == 0 {
		f.done()
		return nil, nil
	}
	n := min(20_000, len(f.records))
	polled := f.records[:n]
	f.records = f.records[n:]
	return polled, nil
}

func (f *feed) Describe(context.Context) (smelt.Description, error) { return smelt.Description{}, nil }
func (f *feed) Commit(context.Context, map[int32]int64) error       { return nil }
func (f *feed) Close() error                                        { return nil }

// BenchmarkWriter is all that bronze does with a record between a source and a
// store that are both in memory.
func BenchmarkWriter(b *testing.B) {
	for _, codec := range []bronze.Codec{bronze.Zstd, bronze.Gzip} {
		b.Run(string(codec), func(b *testing.B) {
			records := telemetry(500_000)
			b.ReportAllocs()
			var stored int64
			cpu := cpuTime()
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				open := func(_ context.Context, resume smelt.Resume) (smelt.Source, error) {
					return &feed{resume: resume, records: records, done: cancel}, nil
				}
				w := newWriter(b, "a", store.NewMemory(), nil, func(c *bronze.Config) { c.Codec, c.Open = codec, open })
				for n := int64(0); n < int64(len(records)); {
					progress, err := w.Step(ctx)
					if err != nil {
						b.Fatal(err)
					}
					n += progress.Records
					stored += progress.Bytes
				}
				cancel()
			}
			b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N*len(records)), "cpu-ns/record")
			b.ReportMetric(float64(stored)/float64(b.N*len(records)), "bytes/record")
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
