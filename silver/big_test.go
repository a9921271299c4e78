package silver_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/internal/line"
	"smelt/pipeline"
)

// big is a pipeline of events that may be near the record bound.
func big(t *testing.T) *smelt.Pipeline {
	t.Helper()
	fsys := fstest.MapFS{
		"big/pipeline.yml": {Data: []byte(`source: {kafka: t}
events:
  time: ts
  columns: {ts: timestamptz not null, text: varchar, numbers: json}
`)},
		"big/silver.sql": {Data: []byte(`SELECT length(text) AS text, json_array_length(numbers) AS numbers, ts, _partition_id, _partition_offset FROM bronze.big`)},
	}
	p, err := pipeline.Read(fsys, "big")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fill is how long bronze waits for an object to be full.
const fill = time.Second

// TestBigRecords takes records near the bound, and one above it, through full
// objects, with small ones among them.
func TestBigRecords(t *testing.T) {
	t.Parallel()
	const bound = 8 << 20
	event := func(member string) []byte {
		return fmt.Appendf(nil, `{"ts":"2026-11-29T12:00:00Z",%s}`, member)
	}
	good := event(`"text":"good"`)
	long := event(`"text":"` + strings.Repeat("x", bound-100) + `"`)
	numbers := event(`"numbers":[1` + strings.Repeat(",1.25", 1_000_000) + `]`)
	digits := event(`"numbers":[1` + strings.Repeat(",1", 4_000_000) + `]`) // 16 bytes each when parsed
	control := bytes.Repeat([]byte{1}, bound-100)                           // which bronze writes as \u0001
	oversize := event(`"text":"` + strings.Repeat("x", bound) + `"`)
	values := [][]byte{good, long, control, good, numbers, oversize, good, digits, long, good}
	records := make([]smelt.Record, len(values))
	for i, v := range values {
		records[i] = smelt.Record{Timestamp: smelt.NoTimestamp, Value: v}
	}
	for _, bytes := range []int{0, 10 << 20} {
		l := open(t, big(t), batches(bytes), func(parts *line.Parts) { parts.Flush = fill })
		l.drain(t, records...)
		same(t, fmt.Sprintf("silver, batches of %d bytes", bytes), l.rows(t, "silver.big", "_partition_offset,text,numbers"), []string{
			"0,4,", "1,8388508,", "3,4,", "4,,1000001", "6,4,", "7,,4000001", "8,8388508,", "9,4,",
		})
		var rejects []string
		for _, r := range l.rows(t, "quarantine.big", "_partition_offset,reason,raw") {
			f := strings.SplitN(r, ",", 3)
			rejects = append(rejects, fmt.Sprintf("%s %s %d", f[0], f[1], len(f[2])))
		}
		same(t, fmt.Sprintf("quarantine, batches of %d bytes", bytes), rejects, []string{"2 not json 8388508", "5 too large 0"})
	}
}

// TestPartsAgree takes an object through in many small batches, and in one: what
// comes out is the same, duplicates too.
func TestPartsAgree(t *testing.T) {
	t.Parallel()
	fat := `"numbers":[1` + strings.Repeat(",1", 500_000) + `]`
	const records = 50 // fewer than an object takes
	event := func(i int) smelt.Record {
		r := smelt.Record{Timestamp: 1795953600000 + int64(i), Key: []byte("k")}
		switch i % 8 {
		case 5:
			r.Value = []byte(`{"ts":5,` + fat + `}`)
		case 6:
			r.Value = []byte("no JSON")
		case 7: // a tombstone
		default:
			r.Value = fmt.Appendf(nil, `{"ts":"2026-11-29T12:00:00Z","text":"%d",%s}`, i%20, fat)
		}
		return r
	}
	p := big(t)
	p.Silver.Unique = []string{"length"}
	p.Silver.SQL = strings.Replace(p.Silver.SQL, "length(text) AS text", "text AS length", 1)
	take := func(bytes int) (rows []string) {
		l := open(t, p, batches(bytes))
		for i := range records {
			l.Topic.Append(event(i))
		}
		l.drain(t)
		return append(l.rows(t, "silver.big", "_partition_offset,length,ts"),
			l.rows(t, "quarantine.big", "_partition_offset,_timestamp,_key,stage,reason,field,detail")...)
	}
	inParts := take(4 << 20)
	same(t, "in parts", inParts, take(0))
	if len(inParts) < 30 {
		t.Errorf("%d rows: the test has lost its point", len(inParts))
	}
}
