package silver_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/table"
	"smelt/pipeline"
)

// once is a pipeline in which an event of a key comes once in five minutes.
func once(t *testing.T) *smelt.Pipeline {
	t.Helper()
	fsys := fstest.MapFS{
		"once/pipeline.yml": {Data: []byte(`source: {kafka: t}
events:
  time: ts
  watermark: 5m
  columns: {k: varchar, n: integer, ts: timestamptz not null}
silver: {partition: day(ts), unique: [k, n]}
`)},
		"once/silver.sql": {Data: []byte("SELECT k, n, ts, _partition_id, _partition_offset FROM bronze.once")},
	}
	p, err := pipeline.Read(fsys, "once")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// keyed is an event of a key, some seconds after noon, which the broker had at
// a second after 13:00.
func keyed(key string, after, had int) smelt.Record {
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	at := noon.Add(time.Duration(after) * time.Second).Format(time.RFC3339)
	return value(fmt.Sprintf(`{"k":%s,"n":1,"ts":%q}`, key, at), noon.Add(time.Hour+time.Duration(had)*time.Second).UnixMilli())
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	l := open(t, once(t))
	l.drain(t,
		keyed(`"a"`, 0, 10),   // not the first that the broker had
		keyed(`"a"`, 1, 9),    // 0: this one is
		keyed(`"a"`, 301, 11), // as far as the tolerance goes
		keyed(`"a"`, 302, 12), // further
		keyed(`"b"`, 0, 13),
		keyed(`null`, 0, 14), keyed(`null`, 0, 15)) // a NULL is like nothing
	l.drain(t,
		keyed(`"a"`, -299, 20), // twin in a file of the step before
		keyed(`"a"`, -300, 21), // another event
		keyed(`"b"`, 86400, 22))
	l.drain(t,
		keyed(`"a"`, 602, 30), keyed(`"a"`, 603, 31), // of 0:3, and not
		keyed(`"b"`, 86100, 32), // across midnight, and partitions
		keyed(`null`, 0, 33))
	same(t, "silver", l.rows(t, "silver.once", "_partition_offset,k,ts"), []string{
		"1,a,2026-11-29 12:00:01+00",
		"3,a,2026-11-29 12:05:02+00",
		"4,b,2026-11-29 12:00:00+00",
		"5,,2026-11-29 12:00:00+00",
		"6,,2026-11-29 12:00:00+00",
		"8,a,2026-11-29 11:55:00+00",
		"9,b,2026-11-30 12:00:00+00",
		"11,a,2026-11-29 12:10:03+00",
		"13,,2026-11-29 12:00:00+00",
	})
	same(t, "quarantine", l.rows(t, "quarantine.once", "_partition_offset,reason,detail,raw"), []string{
		`0,duplicate,0:1,{"k":"a","n":1,"ts":"2026-11-29T12:00:00Z"}`,
		`2,duplicate,0:1,{"k":"a","n":1,"ts":"2026-11-29T12:05:01Z"}`,
		`7,duplicate,0:1,{"k":"a","n":1,"ts":"2026-11-29T11:55:01Z"}`,
		`10,duplicate,0:3,{"k":"a","n":1,"ts":"2026-11-29T12:10:02Z"}`,
		`12,duplicate,0:9,{"k":"b","n":1,"ts":"2026-11-30T11:55:00Z"}`,
	})
}

// TestDuplicateWithoutTimestamp: a record repeats one of a later partition that silver has, and neither has a
// broker timestamp.
func TestDuplicateWithoutTimestamp(t *testing.T) {
	t.Parallel()
	l := open(t, once(t))
	for _, partition := range []int32{1, 0} {
		r := keyed(`"a"`, 0, 0)
		r.Partition, r.Timestamp = partition, smelt.NoTimestamp
		l.drain(t, r)
	}
	same(t, "silver", l.rows(t, "silver.once", "_partition_id,k"), []string{"1,a"})
	same(t, "quarantine", l.rows(t, "quarantine.once", "_partition_id,reason,detail"), []string{"0,duplicate,1:0"})
}

// TestDuplicateInForeignFile: another engine has rewritten silver's file without bounds, so its times are
// unknown.
func TestDuplicateInForeignFile(t *testing.T) {
	t.Parallel()
	l := open(t, once(t))
	l.drain(t, keyed(`"a"`, 0, 0))
	tbl, err := l.Parts.Area.Lake.Load(t.Context(), "silver.once")
	if err != nil {
		t.Fatal(err)
	}
	current, _ := tbl.Current()
	files, err := tbl.Files(t.Context(), current.ID)
	if err != nil {
		t.Fatal(err)
	}
	f := files[0]
	body, _, err := l.Parts.Area.Store.Get(t.Context(), f.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	bytes, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	silent := smelt.DataFile{Path: strings.TrimSuffix(f.Key, ".parquet") + "x.parquet", Rows: f.Rows, Bytes: f.Bytes, Partition: f.Partition}
	if err := l.Parts.Area.Store.Put(t.Context(), silent.Path, strings.NewReader(string(bytes)), smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	copied, err := tbl.NewFile(silent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.Commit(t.Context(), table.Change{Remove: files, Add: []table.File{copied}, Replace: true}); err != nil {
		t.Fatal(err)
	}
	l.drain(t, keyed(`"a"`, 1, 1))
	same(t, "silver", l.rows(t, "silver.once", "_partition_offset,k"), []string{"0,a"})
	same(t, "quarantine", l.rows(t, "quarantine.once", "_partition_offset,reason,detail"), []string{"1,duplicate,0:0"})
}

var seedFlag = flag.Uint64("seed", 0, "seed of the random events; 0: by the clock")

// TestDuplicatesDoNotDependOnSteps takes the same records through in one step
// and in many.
func TestDuplicatesDoNotDependOnSteps(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	r := rand.New(rand.NewPCG(seed, 2))
	records := make([]smelt.Record, 90)
	for i := range records {
		records[i] = keyed([]string{`"a"`, `"b"`, `null`}[r.IntN(3)], r.IntN(4000), i)
	}
	whole, parts := open(t, once(t)), open(t, once(t))
	small := open(t, once(t), batches(300))
	whole.drain(t, records...)
	small.drain(t, records...)
	for rest := records; len(rest) > 0; {
		n := min(5+r.IntN(25), len(rest))
		parts.drain(t, rest[:n]...)
		rest = rest[n:]
	}
	for table, columns := range map[string]string{
		"silver.once": "_partition_offset,k,ts", "quarantine.once": "_partition_offset,reason,detail",
	} {
		want := parts.rows(t, table, columns)
		if len(want) < 10 {
			t.Errorf("seed %d: %d rows of %s: the test has lost its point", seed, len(want), table)
		}
		same(t, fmt.Sprintf("seed %d: %s in one step", seed, table), whole.rows(t, table, columns), want)
		same(t, fmt.Sprintf("seed %d: %s in small batches", seed, table), small.rows(t, table, columns), want)
	}
}

// TestManyEventsOfAKey has a backlog of one key that comes again and again, each
// time as another event, and each of them twice.
func TestManyEventsOfAKey(t *testing.T) {
	t.Parallel()
	const events = 5000
	var records []smelt.Record
	for i := range events {
		records = append(records, keyed(`"a"`, i*301, i*301), keyed(`"a"`, i*301+150, i*301+1))
	}
	l := open(t, once(t))
	l.drain(t, records...)
	if rows, duplicates := len(l.rows(t, "silver.once", "ts")), len(l.rows(t, "quarantine.once", "reason")); rows != events || duplicates != events {
		t.Errorf("%d rows and %d duplicates, want %d of each", rows, duplicates, events)
	}
}

// TestEpochs makes sure that epochs are exact to the microsecond.
func TestEpochs(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"e/pipeline.yml": {Data: []byte(`source: {kafka: t}
events:
  time: ts
  columns:
    ts: timestamptz not null
    s:  {type: timestamptz, unit: s}
    ms: {type: timestamptz, unit: ms}
    us: {type: timestamptz, unit: us}
    ns: {type: timestamptz, unit: ns}
`)},
		"e/silver.sql": {Data: []byte("SELECT * EXCLUDE (_timestamp, _key, _headers) FROM bronze.e")},
	}
	p, err := pipeline.Read(fsys, "e")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ values, want string }{
		{`"s":1795953600.123457,"ms":1795953600123.457,"us":1795953600123457,"ns":1795953600123457000`, "2026-11-29 12:00:00.123457+00"},
		{`"s":-0.0000001,"ms":-0.0001,"us":-0.1,"ns":-1`, "1969-12-31 23:59:59.999999+00"},
		{`"s":253402300799,"ms":253402300799000,"us":253402300799000000,"ns":253402300799000000000`, "9999-12-31 23:59:59+00"},
		{`"s":-62135596800,"ms":-62135596800000,"us":-62135596800000000,"ns":-62135596800000000000`, "0001-01-01 00:00:00+00"},
		{`"s":253402300800`, "out of range"},
		{`"ms":-62135596800001`, "out of range"},
		{`"ns":1e40`, "out of range"},
		{`"us":"1"`, "wrong type"},
		{`"us":true`, "wrong type"},
	}
	l := open(t, p)
	var records []smelt.Record
	for _, tt := range tests {
		records = append(records, value(`{"ts":"2026-01-01T00:00:00Z",`+tt.values+`}`, smelt.NoTimestamp))
	}
	l.drain(t, records...)
	got := map[string]string{}
	for _, r := range append(l.rows(t, "silver.e", "_partition_offset,s,ms,us,ns"), l.rows(t, "quarantine.e", "_partition_offset,reason")...) {
		offset, rest, _ := strings.Cut(r, ",")
		got[offset] = rest
	}
	for i, tt := range tests {
		for cell := range strings.SplitSeq(got[fmt.Sprint(i)], ",") {
			if cell != tt.want {
				t.Errorf("%s: %s, want %s", tt.values, cell, tt.want)
			}
		}
	}
}

// TestUnmatchedDuplicates counts rows without a reference row, and no duplicates of
// them.
func TestUnmatchedDuplicates(t *testing.T) {
	t.Parallel()
	p := sensors(t)
	p.Silver.Unique = []string{"sensor_id", "event_time"}
	l := open(t, p)
	nowhere := strings.Replace(good, "nyc-001", "nowhere", 1)
	l.drain(t, value(nowhere, 1795953601000), value(nowhere, 1795953602000), value(good, 1795953601000))
	silver, err := l.Parts.Area.Lake.Load(t.Context(), "silver.sensors")
	if err != nil {
		t.Fatal(err)
	}
	have, _, _, err := ledger.Read[ledger.Silver](silver)
	if err != nil {
		t.Fatal(err)
	}
	if have.Unmatched != 1 || have.Rows() != 2 || have.Quarantined["duplicate"] != 1 {
		t.Errorf("%d unmatched of %d rows, quarantined %v; want 1 of 2, and one duplicate", have.Unmatched, have.Rows(), have.Quarantined)
	}
}
