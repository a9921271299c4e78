package inspect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/inspect"
	"smelt/internal/store"
)

func (w *world) tracer() inspect.Tracer {
	return inspect.Tracer{Area: w.Parts.Area, Duck: w.duck}
}

func (w *world) trace(t *testing.T, partition int32, offset int64) *inspect.Trace {
	t.Helper()
	trace, err := w.tracer().Trace(t.Context(), w.pipeline, partition, offset)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// steps steps stages of the line, each once.
func steps(t *testing.T, stages ...smelt.Stage) {
	t.Helper()
	for _, s := range stages {
		if _, err := s.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What differs at each run: ids, names of files, the clock.
var varying = []struct {
	found *regexp.Regexp
	shown string
}{
	{regexp.MustCompile(`snapshot \d+`), "snapshot N"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC by \S+`), "NOW by WRITER"},
	{regexp.MustCompile(`\bof \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC`), "of NOW"},
	{regexp.MustCompile(`written \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC`), "written NOW"},
	{regexp.MustCompile(`((?:_ingested_at|quarantined_at) +)\S+ \S+`), "${1}NOW"},
	{regexp.MustCompile(`( +)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,6}\+00\n`), "${1}NOW\n"},
	{regexp.MustCompile(`\d+ bytes of zstd`), "N bytes of zstd"},
}

func stable(text string) string {
	for _, v := range varying {
		text = v.found.ReplaceAllString(text, v.shown)
	}
	return text
}

func TestTraceText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(0, "aaz!-")
	w.drain(t)
	w.send(0, "a")
	steps(t, w.line.Bronze)
	const object = `
bronze  bronze/readings/0/00000000000000000000.ndjson.zst
  object     N bytes of zstd, positions 0 to 5: 5 records, offsets 0 to 4
  written    NOW by WRITER
`
	for _, c := range []struct {
		offset int64
		want   string
	}{
		{1, "readings 0:1  is in silver and gold\n" + object + `  timestamp  2026-11-29 12:01:00.000 UTC
  key        none
  value      {"sensor":"a","value":1.1,"seen":"2026-11-29T12:01:00Z"}

silver  silver.readings
  file                silver/readings/data/UUID.parquet
  added by            snapshot N of NOW (append)
  sensor              a
  seen                2026-11-29 12:01:00+00
  value               1.1
  city                Espoo
  _partition_id       0
  _partition_offset   1
  _ingested_at        NOW
  _reference_version  1
  _unmatched          NULL
  _rebuilt_at         NULL

gold  gold.readings_hourly: the window from 2026-11-29 12:00:00 to 2026-11-29 13:00:00 UTC
  table     at snapshot N of NOW (append)
  computed  from silver's snapshot N of NOW (append), which had the row
  state     open: the watermark has not passed it, its rows written NOW
  hour                    city   readings  total               _revision  _computed_at
  2026-11-29 12:00:00+00  Espoo  2         1.2000000000000002  0          NOW
  2026-11-29 12:00:00+00  NULL   1         2.1                 0          NOW
`},
		{3, "readings 0:3  is in quarantine: not json\n" + object + `  timestamp  2026-11-29 12:03:00.000 UTC
  key        none
  value      {

quarantine  quarantine.readings
  file               quarantine/readings/data/UUID.parquet
  added by           snapshot N of NOW (append)
  judged by          silver's snapshot N of NOW (append)
  _partition_id      0
  _partition_offset  3
  _timestamp         2026-11-29 12:03:00+00
  _key               NULL
  raw                {
  stage              silver
  reason             not json
  field              NULL
  detail             NULL
  quarantined_at     NOW
`},
		{4, "readings 0:4  is a tombstone, a record without a value: neither silver nor quarantine has a row of it\n" + object +
			"  timestamp  2026-11-29 12:04:00.000 UTC\n  key        none\n  value      none: a tombstone\n"},
		{5, "readings 0:5  is in bronze, and silver has not read it yet: silver is at 0:5\n" + strings.NewReplacer(
			"00.ndjson", "05.ndjson", "0 to 5: 5 records, offsets 0 to 4", "5 to 6: 1 record, offsets 5 to 5").Replace(object) +
			`  timestamp  2026-11-29 12:00:00.000 UTC
  key        none
  value      {"sensor":"a","value":0.1,"seen":"2026-11-29T12:00:00Z"}
`},
	} {
		if got := stable(w.trace(t, 0, c.offset).Text(false)); got != c.want {
			t.Errorf("0:%d\ngot:\n%s\nwant:\n%s", c.offset, got, c.want)
		}
	}
}

// Gold counts a row once it was computed from a silver snapshot that has it as
// it is now, whichever file has it.
func TestTraceGold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(0, "az")
	steps(t, w.line.Bronze, w.line.Silver)
	gold := func(what, want string) inspect.TracedWindow {
		t.Helper()
		trace := w.trace(t, 0, 0)
		if trace.Outcome != inspect.OutcomeSilver || len(trace.Gold) != 1 || !strings.HasSuffix(strings.SplitN(trace.Text(false), "\n", 2)[0], want) {
			t.Fatalf("%s: %s", what, trace.Text(false))
		}
		return trace.Gold[0]
	}
	if g := gold("before gold", "is in silver, and gold has not caught up yet"); g.Snapshot != nil || g.CaughtUp != nil || len(g.Rows) != 0 {
		t.Errorf("before gold: %+v", g)
	}
	steps(t, w.line.Gold[0])
	if g := gold("after gold", "is in silver and gold"); !*g.CaughtUp || g.Final || g.Revision != 0 || g.Count != 2 || !g.Start.Equal(noon) || !g.End.Equal(noon.Add(time.Hour)) {
		t.Errorf("after gold: %+v", g)
	}
	w.rewrite(t, "silver.readings", "FROM work.t")
	if g := gold("another file, the same rows", "is in silver and gold"); !*g.CaughtUp {
		t.Errorf("another file, the same rows: %+v", g)
	}
	w.rewrite(t, "silver.readings", "SELECT * REPLACE (coalesce(city, 'Helsinki') AS city) FROM work.t")
	if g := gold("another row changed", "is in silver and gold"); !*g.CaughtUp {
		t.Errorf("another row changed: %+v", g)
	}
	w.rewrite(t, "silver.readings", "SELECT * REPLACE ('Vantaa' AS city) FROM work.t")
	if g := gold("the row changed", "is in silver, and gold has not caught up yet"); *g.CaughtUp || g.Rows[0][1].Text != "Espoo" {
		t.Errorf("the row changed: %+v", g)
	}
	w.from = noon.Add(24 * time.Hour)
	w.send(0, "a")
	w.drain(t)
	if g := gold("a day later", "is in silver and gold"); !*g.CaughtUp || !g.Final || g.Count != 1 || g.Rows[0][1].Text != "Vantaa" {
		t.Errorf("a day later: %+v", g)
	}
}

// The row most like silver's comes first, and not all rows of a large window.
func TestTraceLargeWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	varchar := smelt.Type{Name: "varchar"}
	var places [][]any
	for _, sensor := range "bcdefghijklmnopqrstuvwxyA" {
		places = append(places, []any{string(sensor), "City of " + string(sensor)})
	}
	w.References.Set("places", []smelt.Column{{Name: "sensor", Type: varchar}, {Name: "city", Type: varchar}}, places)
	w.send(0, "bcdefghijklmnopqrstuvwxyA")
	w.drain(t)
	g := w.trace(t, 0, 23).Gold[0]
	if g.Rows[0][1].Text != "City of y" || g.Count != 25 || len(g.Rows) != 20 {
		t.Errorf("got %d of %d rows, the first %+v", len(g.Rows), g.Count, g.Rows[0])
	}
	if text := w.trace(t, 0, 23).Text(false); !strings.HasSuffix(text, "\n  and 5 rows more\n") {
		t.Errorf("got %s", text)
	}
}

func TestTraceNoRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	none := func(partition int32, offset int64, want string) {
		t.Helper()
		_, err := w.tracer().Trace(t.Context(), w.pipeline, partition, offset)
		if !errors.Is(err, inspect.ErrNoRecord) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d:%d: %v, want %q", partition, offset, err, want)
		}
	}
	none(0, 0, "bronze has nothing of readings yet")
	w.Topic.Skip(0, 3) // retention has taken the beginning
	w.Topic.Truncate(0, 3)
	w.send(0, "aa")
	w.Topic.Skip(0, 2)
	w.send(0, "a")
	w.drain(t)
	w.Topic.Skip(0, 2)
	w.send(0, "a")
	w.drain(t)
	none(1, 0, "nothing of partition 1, but of 0")
	none(0, 2, "begins with offset 3")
	none(0, 6, "next to it: 0:4, 0:7")
	none(0, 9, "next to it: 0:10")
	none(0, 11, "ends with offset 10")
	for _, offset := range []int64{3, 4, 7, 10} {
		if got := w.trace(t, 0, offset); got.Outcome != inspect.OutcomeSilver || got.Silver.Row[5].Text != fmt.Sprint(offset) {
			t.Errorf("0:%d: %+v", offset, got)
		}
	}
}

// Only the files are read that may have the row, and a row that is nowhere is
// a mismatch.
func TestTraceFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(0, "a")
	w.drain(t)
	first := filesOf(t, w.load(t, "silver.readings"))[0].Key
	w.send(0, "a!")
	w.send(1, "a")
	w.drain(t)
	w.delete(t, first)
	w.Parts.Area.Cache = w.emptyCache(t)
	for _, lineage := range [][2]int64{{0, 1}, {0, 2}, {1, 0}} {
		w.trace(t, int32(lineage[0]), lineage[1])
	}
	if _, err := w.tracer().Trace(t.Context(), w.pipeline, 0, 0); !errors.Is(err, smelt.ErrVerify) || !strings.Contains(err.Error(), first) {
		t.Errorf("with its file gone: %v", err)
	}
	w = healthy(t)
	w.rewrite(t, "silver.readings", "FROM work.t WHERE _partition_offset <> 1")
	if _, err := w.tracer().Trace(t.Context(), w.pipeline, 0, 1); !errors.Is(err, smelt.ErrVerify) || !strings.Contains(err.Error(), "neither in silver nor in quarantine") {
		t.Errorf("with its row gone: %v", err)
	}
	broken := w.tracer()
	broken.Area.Store = store.NewFaulty(w.Parts.Area.Store, func(op store.Op) store.Fault {
		if op.Name == "get" {
			return store.FailBefore
		}
		return store.None
	})
	if _, err := broken.Trace(t.Context(), w.pipeline, 0, 1); !errors.Is(err, smelt.ErrStore) {
		t.Errorf("with the store away: %v", err)
	}
}

// A record is shown whatever it contains, and cannot control the terminal.
func TestTraceOddRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, v := range []string{"a\x1b[31m\nb", "\xff", strings.Repeat("x", 5000), `{"value":1e400}`} {
		w.Topic.Append(smelt.Record{
			Timestamp: smelt.NoTimestamp, Key: []byte("k\x07"), Value: []byte(v),
			Headers: []smelt.Header{{Name: "h", Value: []byte{0xfe}}, {Name: "trace", Value: []byte("17")}},
		})
	}
	w.drain(t)
	for offset, want := range [][]string{
		{"key        k\uFFFD\n", "header     h: base64 /g==\n", "header     trace: 17\n", "timestamp  none\n", "value      a\uFFFD[31m\n             b\n"},
		{"value      base64 /w==\n", "detail             base64\n"},
		{strings.Repeat("x", 100) + "\n             … (5000 bytes in all; --json has them)\n"},
		{`value      {"value":1e400}` + "\n"},
	} {
		trace := w.trace(t, 0, int64(offset))
		text := trace.Text(false)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in\n%s", part, text)
			}
		}
		if _, err := json.Marshal(trace); err != nil || strings.ContainsAny(text, "\x1b\x07") {
			t.Errorf("%v, %q", err, text)
		}
	}
}

// Scripts rely on these keys.
func TestTraceJSON(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	for offset, want := range map[int64]string{
		1: "gold object offset outcome partition pipeline position quarantine record retained silver" +
			" silver:file,row,snapshot,table gold:caught_up,computed_at,end,final,frozen,revision,row_count,rows,silver_snapshot,snapshot,start,table",
		3: "gold object offset outcome partition pipeline position quarantine record retained silver" +
			" quarantine:file,row,silver_snapshot,snapshot,table",
	} {
		text, err := json.Marshal(w.trace(t, 0, offset))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Record     struct{ Offset int64 }
			Silver     map[string]json.RawMessage
			Quarantine map[string]json.RawMessage
			Gold       []map[string]json.RawMessage
		}
		var all map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal(text, &all)); err != nil {
			t.Fatal(err)
		}
		keys := strings.Join(slices.Sorted(maps.Keys(all)), " ")
		for name, m := range map[string]map[string]json.RawMessage{"silver": got.Silver, "quarantine": got.Quarantine} {
			if m != nil {
				keys += " " + name + ":" + strings.Join(slices.Sorted(maps.Keys(m)), ",")
			}
		}
		for _, g := range got.Gold {
			keys += " gold:" + strings.Join(slices.Sorted(maps.Keys(g)), ",")
		}
		if keys != want || got.Record.Offset != offset {
			t.Errorf("got  %s\nwant %s\nin %s", keys, want, text)
		}
	}
}
