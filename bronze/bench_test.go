package bronze_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

// readings returns n records with values of 182 bytes, as a sensor sends them.
func readings(n int) []smelt.Record {
	records := make([]smelt.Record, n)
	for i := range records {
		sensor := fmt.Sprintf("hel-%03d", i%400)
		at := time.UnixMilli(1789221600000 + int64(i)*7).UTC()
		value := fmt.Sprintf(`{"sensor_id":"%s","temperature":%.2f,"unit":"C","event_time":"%s","battery":%d,"firmware":"2.14.%d","sequence":%d`,
			sensor, 15+float64(i*7919%1000)/100, at.Format("2006-01-02T15:04:05.000Z"), i*31%100, i%9, i)
		value += fmt.Sprintf(`,"note":"%*s"}`, 182-len(value)-11, "")
		records[i] = smelt.Record{Offset: int64(i), Timestamp: at.UnixMilli(), Key: []byte(sensor), Value: []byte(value)}
	}
	return records
}

func BenchmarkAppendLine(b *testing.B) {
	records := readings(10_000)
	b.SetBytes(int64(len(records[0].Value)))
	var line []byte
	for i := 0; b.Loop(); i++ {
		line = bronze.AppendLine(line[:0], &records[i%len(records)], bronze.DefaultRecordMax)
	}
}

// BenchmarkWriter is all that bronze does with a record between a source and a
// store that are both in memory.
func BenchmarkWriter(b *testing.B) {
	for _, codec := range []bronze.Codec{bronze.Zstd, bronze.Gzip} {
		b.Run(string(codec), func(b *testing.B) {
			tp := newTopic()
			records := readings(200_000)
			tp.records[0] = records
			for b.Loop() {
				lake := store.NewMemory()
				w := newWriter(b, "a", lake, tp, func(c *bronze.Config) { c.Codec, c.Flush = codec, time.Millisecond })
				for n := int64(0); n < int64(len(records)); {
					progress, err := w.Step(context.Background())
					if err != nil {
						b.Fatal(err)
					}
					n += progress.Records
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
		})
	}
}
