package upkeep_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
	"smelt/internal/ledger"
	"smelt/internal/staging"
	"smelt/internal/table"
	"smelt/upkeep"
)

const rested = 2 * time.Hour // from now every partition has come to rest

// Merging changes no row in any layer, and causes no work for any stage.
func TestCompact(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(40) // 200 readings of two days
	before := map[string][]string{}
	for name, lock := range map[string]string{readingsSilver: readingsSilver, readingsQuarantine: readingsSilver, readingsHourly: readingsHourly} {
		before[name] = r.rows(name)
		was, head := r.files(name), r.head(name)
		jobs := r.plan(upkeep.Compaction(r.config, name, lock), rested)
		done := r.do(jobs)
		now := r.files(name)
		if len(now) >= len(was) || len(now) > 2 {
			t.Errorf("%s: %d files are left of %d after %s", name, len(now), len(was), whats(jobs))
		}
		for _, d := range done {
			if d.Lost != "" || d.Before.Files < 2 || d.After.Files != 1 || d.After.Bytes == 0 {
				t.Errorf("%s: did %+v", name, d)
			}
		}
		for _, s := range r.load(name).Ancestors() {
			if s.ID == head.ID {
				break
			}
			if s.Operation != "replace" || ledger.Has(s) {
				t.Errorf("%s: a snapshot that says %s, ledger %v", name, s.Operation, ledger.Has(s))
			}
		}
		if again := r.plan(upkeep.Compaction(r.config, name, lock), rested); len(again) > 0 {
			t.Errorf("%s: still to do: %s", name, whats(again))
		}
		if got := r.rows(name); !slices.Equal(got, before[name]) {
			t.Errorf("%s: rows differ:\n%s\nwas\n%s", name, strings.Join(got, "\n"), strings.Join(before[name], "\n"))
		}
	}
	gold := r.head(readingsHourly)
	r.drain()
	if now := r.head(readingsHourly); now.ID != gold.ID {
		t.Errorf("gold has a new snapshot, %v", now)
	}
	r.stream(3) // and the line goes on
	if got, want := len(r.rows(readingsSilver)), r.sent; got != want {
		t.Errorf("silver has %d rows, want %d", got, want)
	}
	if l, _, _, err := ledger.Read[ledger.Gold](r.load(readingsHourly)); err != nil || l.All != "" && l.Windows > 3 {
		t.Errorf("gold was recomputed as a whole: %+v, %v", l, err)
	}
}

// Rows are in the order of time in a merged file, and it describes itself.
func TestCompactSorts(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(6)
	r.do(r.plan(upkeep.Compaction(r.config, readingsSilver, readingsSilver), rested))
	files := r.files(readingsSilver)
	if len(files) != 1 || files[0].Rows != 30 {
		t.Fatalf("files %+v", files)
	}
	f := files[0]
	lo, hi, ok := f.Range("ts")
	if day := f.Partition["ts_day"]; day != int64(20758) || !ok || hi.Sub(lo) != 290*time.Minute {
		t.Errorf("day %v, from %v to %v", day, lo, hi)
	}
	if n, ok := f.Nulls("v"); n != 0 || !ok {
		t.Errorf("%d NULLs, %v", n, ok)
	}
	paths, release, err := r.config.Area.Fetch(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var sorted bool
	err = r.session.Row(t.Context(), "SELECT list(ts ORDER BY file_row_number) = list(ts ORDER BY ts) FROM read_parquet('"+paths[0]+"', file_row_number = true)", &sorted)
	if err != nil || !sorted {
		t.Errorf("sorted %v, %v", sorted, err)
	}
}

// An open partition is merged in tiers: a merged file waits until eight times its
// rows have come.
func TestCompactTiers(t *testing.T) {
	t.Parallel()
	r := run(t)
	task := upkeep.Compaction(r.config, readingsQuarantine, readingsSilver)
	r.stream(9)
	r.do(r.plan(task, 0))
	if n := len(r.files(readingsQuarantine)); n != 1 {
		t.Fatalf("%d files of nine equal ones", n)
	}
	if jobs := r.plan(task, 0); len(jobs) > 0 {
		t.Errorf("to do: %s", whats(jobs))
	}
	r.stream(7)
	if jobs := r.plan(task, 0); len(jobs) > 0 {
		t.Errorf("seven files more: %s", whats(jobs))
	}
	r.stream(1)
	if jobs := r.plan(task, 0); whats(jobs) != "8 small files" {
		t.Errorf("eight files more: %s", whats(jobs))
	}
	// It is known from the merge itself when rows last came.
	r.do(r.plan(task, 0))
	if jobs := r.plan(task, 0); len(jobs) > 0 {
		t.Errorf("two merged files of a partition in which rows have just come: %s", whats(jobs))
	}
	if jobs := r.plan(task, rested); whats(jobs) != "2 small files" {
		t.Errorf("once it rests: %s", whats(jobs))
	}
}

// A merge loses every race, and leaves nothing behind.
func TestCompactLoses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		meanwhile func(r *running)
		want      string
	}{
		{"the same merge by another process", func(r *running) {
			r.do(r.plan(upkeep.Compaction(r.config, readingsSilver, readingsSilver), rested))
		}, "others have replaced the files"},
		{"a backfill", func(r *running) { r.hold("backfill.readings") }, "a backfill has begun"},
		{"row-level deletes", func(r *running) { (&engine{r, readingsSilver}).deleteRows() }, "others have replaced the files"},
		{"an append", func(r *running) { r.stream(1) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := run(t)
			r.stream(5)
			jobs := r.plan(upkeep.Compaction(r.config, readingsSilver, readingsSilver), rested)
			c.meanwhile(r)
			objects := r.objects()
			done := r.do(jobs)
			if len(done) != 1 || done[0].Lost != c.want {
				t.Fatalf("did %+v, want it to be lost by %q", done, c.want)
			}
			if got := r.objects(); c.want != "" && !slices.Equal(got, objects) {
				t.Errorf("objects %v, were %v", got, objects)
			}
		})
	}
}

// Another engine ignores locks: a merge is committed in the first moment without its commits, and given up if there is none.
func TestCompactBesideAnotherEngine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		commits int // that come first
		want    string
	}{{3, ""}, {100, "others commit all the time"}} {
		r := run(t)
		r.stream(5)
		jobs := r.plan(upkeep.Compaction(r.config, readingsSilver, readingsSilver), rested)
		e, left := &engine{r, readingsSilver}, c.commits
		r.swap.before = func() {
			if left--; left >= 0 {
				e.commit(func(_ *ice.Table, tx *ice.Transaction) error { return tx.AddFiles(t.Context(), nil, nil, true) })
			}
		}
		done := r.do(jobs)
		if len(done) != 1 || done[0].Lost != c.want {
			t.Errorf("%d commits: did %+v", c.commits, done)
		}
		data := 0
		for _, key := range r.objects() {
			if strings.HasPrefix(key, "silver/readings/data/") {
				data++
			}
		}
		if want := len(r.files(readingsSilver)); c.want != "" && data != want {
			t.Errorf("%d files of data, want %d: what was written in vain is left", data, want)
		}
	}
}

// A merge whose outcome is unknown may be in the table: nothing is deleted.
func TestCompactWithoutReply(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(5)
	before := r.rows(readingsSilver)
	task := upkeep.Compaction(r.config, readingsSilver, readingsSilver)
	jobs := r.plan(task, rested)
	r.swap.after = errors.New("connection reset")
	if done, err := jobs[0].Run(t.Context()); !errors.Is(err, r.swap.after) {
		t.Fatalf("did %+v, %v", done, err)
	}
	r.swap.after = nil
	if n := len(r.files(readingsSilver)); n != 1 {
		t.Errorf("%d files", n)
	}
	if got := r.rows(readingsSilver); !slices.Equal(got, before) {
		t.Errorf("rows differ: %q, were %q", got, before)
	}
	if again := r.plan(task, rested); len(again) > 0 {
		t.Errorf("to do: %s", whats(again))
	}
}

// Files that another engine has taken in without field ids are left alone, and that
// is said once; other files are merged.
func TestCompactRefuses(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(3)
	like := r.files(readingsSilver)[0]
	for range 2 { // of a day of their own
		path := filepath.Join(t.TempDir(), "a.parquet")
		if err := r.session.Exec(t.Context(), "COPY (SELECT 's' AS sensor, 1 AS v) TO '"+path+"' (FORMAT parquet)"); err != nil {
			t.Fatal(err)
		}
		staged, err := r.config.Area.Upload(t.Context(), r.load(readingsSilver), []smelt.DataFile{{Path: path, Rows: 1, Bytes: like.Bytes, Partition: map[string]any{"ts_day": int64(7)}}})
		if err != nil {
			t.Fatal(err)
		}
		r.commit(readingsSilver, table.Change{Add: staging.Files(staged)})
	}
	var log strings.Builder
	r.config.Log = slog.New(slog.NewTextHandler(&log, nil))
	task := upkeep.Compaction(r.config, readingsSilver, readingsSilver)
	for _, d := range r.do(r.plan(task, rested)) {
		if d.Lost != "" && !strings.Contains(d.Lost, "no field id") {
			t.Errorf("did %+v", d)
		}
	}
	if again := r.plan(task, rested); len(again) > 0 { // or, were they many, nothing else would be done
		t.Errorf("still to do: %s", whats(again))
	}
	if n := len(r.files(readingsSilver)); n != 3 {
		t.Errorf("%d files are left", n)
	}
	if n := strings.Count(log.String(), "no field id"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, log.String())
	}
}

// While a backfill runs nothing is planned for what it writes; gold is.
func TestCompactDuringBackfill(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(12)
	release := r.hold("backfill.readings")
	for name, want := range map[string]int{readingsSilver: 0, readingsQuarantine: 0, readingsHourly: 1} {
		if jobs := r.plan(upkeep.Compaction(r.config, name, name), rested); min(len(jobs), 1) != want {
			t.Errorf("%s: %q", name, whats(jobs))
		}
	}
	release()
	if jobs := r.plan(upkeep.Compaction(r.config, readingsSilver, readingsSilver), rested); len(jobs) != 1 {
		t.Errorf("after it: %q", whats(jobs))
	}
}

// There may be nothing to do.
func TestCompactNothing(t *testing.T) {
	t.Parallel()
	r := run(t)
	task := upkeep.Compaction(r.config, readingsSilver, readingsSilver)
	if jobs := r.plan(task, rested); len(jobs) > 0 {
		t.Errorf("without a table: %s", whats(jobs))
	}
	if err := r.line.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if jobs := r.plan(task, rested); len(jobs) > 0 {
		t.Errorf("without a snapshot: %s", whats(jobs))
	}
}

// Another engine may have changed the table. Merging still finds columns by field id, and keeps the partitioning.
func TestCompactEvolved(t *testing.T) {
	t.Parallel()
	r := run(t)
	e := &engine{r, readingsSilver}
	r.stream(3)
	e.commit(func(_ *ice.Table, tx *ice.Transaction) error { // v is another column from here on
		return tx.UpdateSchema(true, true).RenameColumn([]string{"v"}, "old_v").
			AddColumn([]string{"v"}, iceberg.PrimitiveTypes.Int32, "", false, nil).Commit()
	})
	e.commit(func(_ *ice.Table, tx *ice.Transaction) error {
		return tx.UpdateSpec(true).AddField("sensor", iceberg.IdentityTransform{}, "sensor").Commit()
	})
	r.stream(1)
	before := r.rows(readingsSilver)
	jobs := r.plan(upkeep.Compaction(r.config, readingsSilver, readingsSilver), rested)
	r.do(jobs)
	if whats(jobs) != "ts_day=2026-11-01: 3 small files" {
		t.Errorf("did %s", whats(jobs))
	}
	if got := r.rows(readingsSilver); !slices.Equal(got, before) {
		t.Errorf("rows differ:\n%s\nwas\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
	}
	specs := map[int]int{}
	for _, f := range r.files(readingsSilver) {
		specs[f.Spec]++
	}
	if !reflect.DeepEqual(specs, map[int]int{0: 1, 1: 3}) {
		t.Errorf("files by partitioning: %v", specs)
	}
}

// A table with row-level deletes is left alone: to merge its files would bring the
// rows back. That is said once.
func TestCompactRowDeletes(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(3)
	(&engine{r, readingsSilver}).deleteRows()
	var log strings.Builder
	r.config.Log = slog.New(slog.NewTextHandler(&log, nil))
	task := upkeep.Compaction(r.config, readingsSilver, readingsSilver)
	for range 3 {
		if jobs := r.plan(task, rested); len(jobs) > 0 {
			t.Errorf("to do: %s", whats(jobs))
		}
	}
	if n := strings.Count(log.String(), "row-level deletes"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, log.String())
	}
}

// Files whose columns cannot be identified by ids are refused.
func TestCheckFields(t *testing.T) {
	t.Parallel()
	r := run(t)
	integer := smelt.Type{Name: "integer"}
	point := smelt.Type{Name: "struct", Fields: []smelt.Column{{Name: "x", Type: integer}, {Name: "y", Type: integer}}}
	tbl, err := r.config.Area.Lake.Create(t.Context(), "silver.points", table.Definition{Columns: []smelt.Column{
		{Name: "id", Type: integer}, {Name: "place", Type: point}, {Name: "more", Type: smelt.Type{Name: "list", Elem: &point}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, ids, want string }{
		{"as smelt writes it", tbl.FieldIDs(), ""},
		{"without ids", "{}", "no field id"},
		{"with some ids", "{id: 1}", "no field id"},
		{"with fields of structs that had other names", strings.NewReplacer(`"x"`, `"y"`, `"y"`, `"x"`).Replace(tbl.FieldIDs()), "when a file was written"},
	} {
		path := filepath.Join(t.TempDir(), "a.parquet")
		query := "COPY (SELECT 1 AS id, {x: 1, y: 2} AS place, [{x: 1, y: 2}] AS more) TO '" + path + "' (FORMAT parquet, FIELD_IDS " + c.ids + ")"
		if err := r.session.Exec(t.Context(), strings.Replace(query, ", FIELD_IDS {}", "", 1)); err != nil {
			t.Fatal(err)
		}
		err := upkeep.CheckFields(t.Context(), r.session, tbl, []string{path})
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) && c.want != "" {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
