package smelt_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
	"unicode"

	"smelt"
	"smelt/backfill"
	"smelt/inspect"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/internal/pipetest"
	"smelt/internal/table"
	"smelt/pipeline"
	"smelt/upkeep"
)

// hostileTexts are values that break paths, statements, formats or displays where
// these are put together from text.
func hostileTexts() []string {
	return []string{
		"", " ", "a", "A", "a ", "..", ".", "a/b=c", "50%2F%", `'"\` + "`", "\x00", "a\x00'b", "\r\n\t\x01\u2028",
		"'; DROP TABLE work.silver; --", "a+b c,#?&*~;$1{}[]", "s3://other/x/", "NULL", "<nil>", "__HIVE_DEFAULT_PARTITION__", "1", "con.",
		"\u00e4", "a\u0308", "👩‍👩‍👧‍👦\u05e9\u05dc\u202e\uffff", "İ",
		strings.Repeat("../", 300), strings.Repeat("\U0010ffff", 225),
	}
}

// hostile is a pipeline whose names are words of SQL, and whose silver is parted by
// a text of the events.
func hostile(t *testing.T) *smelt.Pipeline {
	t.Helper()
	p, err := pipeline.Read(fstest.MapFS{
		"select/pipeline.yml": {Data: []byte(`source: {kafka: Select.from-where_1}
events:
  time: made
  columns: {tenant: varchar, n: bigint not null, made: timestamptz not null, "a.b c/d=e%": varchar, "ORDER": varchar, "漢 é😀;--": varchar}
references:
  group: {table: public.group, key: tenant, on: tenant}
silver:
  partition: [tenant, day(made)]
  unique: [tenant, n]
  expect: {"100% / ok: é": "n >= 0"}
gold:
  order: {window: 1h, column: hour}
retain:
  silver: 10d
  gold: 10d
`)},
		"select/silver.sql": {Data: []byte(`SELECT tenant, n, made, "a.b c/d=e%", "ORDER" AS "table", "漢 é😀;--" AS "it""s 'quoted' \", {'x "y" z': tenant, 'and.so/on': [tenant]} AS "struct",
			"group".name, _partition_id, _partition_offset FROM bronze."select" LEFT JOIN reference."group" USING (tenant)`)},
		"select/order.sql": {Data: []byte(`SELECT date_trunc('hour', made) AS hour, tenant, count(*) AS "count(*)", sum(n)::BIGINT AS "sum""of" FROM silver."select" GROUP BY ALL`)},
	}, "select")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// keptDays is for how long silver and gold are kept, and a day to spare.
const keptDays = 12

// hostileLake is a line in memory whose silver is parted by hostile values.
type hostileLake struct {
	t        *testing.T
	pipeline *smelt.Pipeline
	lake     *pipetest.Lake
	duck     *duck.DB
	line     *line.Line
	upkeep   upkeep.Config
	session  *duck.Session
	sent     int64            // events, and as many that are rejected
	rows     int64            // that silver should have
	want     map[string]int64 // the same by tenant; "-" for those without one
}

func newHostileLake(t *testing.T, dir string) *hostileLake {
	t.Helper()
	h := &hostileLake{t: t, pipeline: hostile(t), want: map[string]int64{}}
	var err error
	if h.duck, err = duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: dir, Threads: 1}); err != nil {
		t.Fatal(err)
	}
	if h.lake, err = pipetest.NewLake(h.duck, 1, discard()); err != nil {
		t.Fatal(err)
	}
	h.name("as it was")
	if h.line, err = line.Open(t.Context(), h.pipeline, h.lake.Parts); err != nil {
		t.Fatal(err)
	}
	if h.session, err = h.duck.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.upkeep = upkeep.Config{Pipeline: h.pipeline, Area: h.lake.Parts.Area, Duck: h.duck, Locker: h.lake.Parts.Locker, Log: discard(),
		Policy: upkeep.Policy{Snapshots: 1, Grace: time.Minute, BronzeGrace: time.Minute}}
	return h
}

func (h *hostileLake) close() {
	h.t.Helper()
	if err := errors.Join(h.session.Close(), h.line.Close(), h.lake.Close(), h.duck.Close()); err != nil {
		h.t.Error(err)
	}
}

// name gives every tenant a row in the reference.
func (h *hostileLake) name(as string) {
	varchar := smelt.Type{Name: "varchar"}
	var rows [][]any
	for _, tenant := range hostileTexts() {
		rows = append(rows, []any{tenant, as})
	}
	h.lake.References.Set("group", []smelt.Column{{Name: "tenant", Type: varchar}, {Name: "name", Type: varchar}}, rows)
}

// send has an event of every tenant, and of none, come in, and one that does not
// meet the expectation.
func (h *hostileLake) send() {
	h.t.Helper()
	at := time.Now()
	tenants := []*string{nil}
	for _, text := range hostileTexts() {
		tenants = append(tenants, &text)
	}
	for _, tenant := range tenants {
		h.append(tenant, h.sent, at)
		h.want[display(tenant)]++
		h.append(tenant, -1, at)
		h.sent++
		h.rows++
	}
	if err := pipetest.Drain(h.t.Context(), h.line); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hostileLake) append(tenant *string, n int64, at time.Time) {
	value, err := json.Marshal(map[string]any{"tenant": tenant, "n": n, "made": at.Format(time.RFC3339), "a.b c/d=e%": tenant, "ORDER": tenant, "漢 é😀;--": tenant})
	if err != nil {
		h.t.Fatal(err)
	}
	key := []byte(display(tenant))
	h.lake.Topic.Append(smelt.Record{Timestamp: at.UnixMilli(), Key: key, Value: value, Headers: []smelt.Header{{Name: string(key), Value: key}}})
}

// display tells a text from none.
func display(text *string) string {
	if text == nil {
		return "-"
	}
	return "=" + *text
}

// check holds every layer against what was sent.
func (h *hostileLake) check(what, name string) {
	t := h.t
	t.Helper()
	silver := h.relation("silver.select")
	got := h.counts(`SELECT CASE WHEN tenant IS NULL THEN '-' ELSE '=' || tenant END, count(*) FROM ` + silver + ` GROUP BY ALL`)
	for tenant, n := range h.want {
		if got[tenant] != n {
			t.Errorf("%s: %.40q has %d rows of silver, want %d", what, tenant, got[tenant], n)
		}
	}
	if len(got) != len(h.want) {
		t.Errorf("%s: silver has %d tenants, want %d", what, len(got), len(h.want))
	}
	if odd := h.count(`SELECT count(*) FROM ` + silver + ` WHERE [tenant, tenant, tenant, tenant] != ["a.b c/d=e%", "table", "it""s 'quoted' \", "struct"."x ""y"" z"]
			OR [tenant] IS DISTINCT FROM "struct"."and.so/on" OR name IS DISTINCT FROM CASE WHEN tenant IS NOT NULL THEN ` + duck.Literal(name) + ` END`); odd != 0 {
		t.Errorf("%s: %d rows of silver are not as they were sent, or are not named %q", what, odd, name)
	}
	of := h.counts(`SELECT CASE WHEN tenant IS NULL THEN '-' ELSE '=' || tenant END, sum("count(*)")::BIGINT FROM ` + h.relation("gold.select_order") + ` GROUP BY ALL`)
	for tenant, n := range h.want {
		if of[tenant] != n {
			t.Errorf("%s: %.40q has %d rows of gold, want %d", what, tenant, of[tenant], n)
		}
	}
	if n := h.count(`SELECT count(*) FROM ` + h.relation("quarantine.select") + ` WHERE reason = '100% / ok: é' OR reason = 'expect'`); n != h.sent {
		t.Errorf("%s: quarantine has %d records, want %d", what, n, h.sent)
	}
	verdict, err := inspect.Verifier{Area: h.lake.Parts.Area, Duck: h.duck, RecordMax: 8 << 20}.Verify(t.Context(), h.pipeline)
	if err := cmp.Or(err, verdict.Err()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	h.checkKeys()
}

// checkKeys checks that all keys are in place, and are valid for every store, file system and engine.
func (h *hostileLake) checkKeys() {
	t := h.t
	t.Helper()
	objects, err := h.lake.Parts.Area.Store.List(t.Context(), "", "", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		layer, _, _ := strings.Cut(o.Key, "/")
		plain := !strings.ContainsFunc(o.Key, func(r rune) bool {
			return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
		})
		if !slices.Contains([]string{"bronze", "silver", "quarantine", "gold", ".smelt"}, layer) || !plain || path.Clean("/"+o.Key) != "/"+o.Key || len(o.Key) > 250 {
			t.Errorf("object %q", o.Key)
		}
	}
}

func (h *hostileLake) load(name string) (*table.Table, []table.File) {
	h.t.Helper()
	t, err := h.lake.Parts.Area.Lake.Load(h.t.Context(), name)
	if err != nil {
		h.t.Fatal(err)
	}
	current, _ := t.Current()
	files, err := t.Files(h.t.Context(), current.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return t, files
}

// checkFiles looks whether each of silver's files has so many rows.
func (h *hostileLake) checkFiles(rows int64) {
	h.t.Helper()
	_, files := h.load("silver.select")
	for _, f := range files {
		if f.Rows != rows {
			h.t.Errorf("a file of %.80q has %d rows, want %d", f.Partition, f.Rows, rows)
		}
		lo, hi, known := f.Bounds("tenant")
		tenant, _ := f.Partition["tenant"].(string)
		if known && (lo.(string) > tenant || hi.(string) < tenant) {
			h.t.Errorf("the file of %.80q has the bounds %.80q and %.80q", tenant, lo, hi)
		}
	}
}

// relation is the current state of a table.
func (h *hostileLake) relation(name string) string {
	h.t.Helper()
	t, files := h.load(name)
	paths, release, err := h.lake.Parts.Area.Fetch(h.t.Context(), files)
	if err != nil {
		h.t.Fatal(err)
	}
	defer release() // the cache has room for all
	return duck.ReadParquet(t.Columns(), paths)
}

func (h *hostileLake) count(query string) (n int64) {
	h.t.Helper()
	if err := h.session.Row(h.t.Context(), query, &n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *hostileLake) counts(query string) map[string]int64 {
	h.t.Helper()
	rows, err := h.session.Query(h.t.Context(), query)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var text string
		var n int64
		if err := rows.Scan(&text, &n); err != nil {
			h.t.Fatal(err)
		}
		out[text] = n
	}
	if err := rows.Err(); err != nil {
		h.t.Fatal(err)
	}
	return out
}

// maintain does all that there is to do, and counts the jobs by their kind.
func (h *hostileLake) maintain() map[string]int {
	h.t.Helper()
	done := map[string]int{}
	for _, task := range upkeep.Tasks(h.upkeep) {
		for more := true; more; {
			before := done[task.Kind]
			if err := task.Do(h.t.Context(), func(j upkeep.Job, d upkeep.Done, _ time.Duration, err error) {
				if err == nil && d.Lost == "" {
					done[j.Kind]++
				}
			}); err != nil {
				h.t.Fatal(err)
			}
			more = done[task.Kind] > before && task.Kind != upkeep.KindRetain
		}
	}
	return done
}

func (h *hostileLake) backfill(scope backfill.Scope) backfill.Result {
	h.t.Helper()
	job, err := backfill.Open(context.WithoutCancel(h.t.Context()), h.line.Silver.Config, scope)
	if err != nil {
		h.t.Fatal(err)
	}
	defer job.Close()
	r, err := job.Run(h.t.Context(), nil)
	if err != nil {
		h.t.Fatalf("backfill %s: %v", scope, err)
	}
	if err := pipetest.Drain(h.t.Context(), h.line); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// Values of every kind pass all layers unchanged, into partitions of their own, also after compaction, correction and retention. No
// object's key contains them.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newHostileLake(t, dir)
		h.send()
		time.Sleep(time.Minute)
		h.send()
		h.check("as it came", "as it was")
		h.checkFiles(1)

		time.Sleep(3 * time.Hour) // after which partitions are at rest
		if done := h.maintain(); done[upkeep.KindCompact] == 0 {
			t.Errorf("nothing was merged: %v", done)
		}
		h.check("merged", "as it was")
		h.checkFiles(2)

		h.name("it's \"new\"\n")
		if r := h.backfill(backfill.Scope{ReferenceChanges: true}); r.Differing != h.rows-2 {
			t.Errorf("%d rows differ by the reference, want %d", r.Differing, h.rows-2)
		}
		h.check("corrected", "it's \"new\"\n")

		time.Sleep(keptDays * 24 * time.Hour)
		h.want, h.rows = map[string]int64{}, 0
		h.send()
		if done := h.maintain(); done[upkeep.KindRetain] == 0 {
			t.Errorf("nothing was retired: %v", done)
		}
		h.check("retired", "it's \"new\"\n")
		h.checkFiles(1)
		h.close()
	})
}
