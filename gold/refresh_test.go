package gold_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/store"
	"smelt/internal/table"
)

// TestRefreshOnlyWhatIsTouched follows a table through events on time and late
// ones.
func TestRefreshOnlyWhatIsTouched(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add(
		"Espoo 1 2026-11-28T10:05:00Z", "- 2 2026-11-28T10:15:00Z", "- 3 2026-11-28T10:25:00Z", // a group of its own
		"Espoo 4 2026-11-28T11:59:59.999999Z", "Espoo 5 2026-11-28T12:00:00Z",
		"Espoo 6 2026-11-29T09:30:00Z", "Espoo 7 2026-11-29T10:30:00Z")
	if got := l.refresh(); got != 5 {
		t.Errorf("the first refresh computed %d windows, want 5", got)
	}
	first := l.state("hourly")
	if first.ledger.All == "" || first.ledger.Windows != 5 || len(first.files) != 2 || len(first.rows) != 5 {
		t.Errorf("first: %+v", first)
	}
	if got := l.refresh(); got != 0 || l.state("hourly").commit != first.commit {
		t.Errorf("without a change %d windows were computed, and a commit was made", got)
	}

	// On time: the window is not final yet. The other windows of its day's file
	// are carried over, the other day is left alone.
	l.add("Espoo 8 2026-11-29T10:45:00Z")
	if got := l.refresh(); got != 1 {
		t.Errorf("an event on time: %d windows, want 1", got)
	}
	second := l.state("hourly")
	same(t, "rows on time", changed(first.rows, second.rows), "2026-11-29 10:00:00+00")
	same(t, "files on time", changed(first.files, second.files), day("2026-11-29"))
	if second.ledger.All != "" || second.ledger.Windows != 1 {
		t.Errorf("on time: %+v", second.ledger)
	}

	// Late, by a day: 10:35 is the watermark. Of the two windows one was there.
	l.add("Oulu 9 2026-11-28T10:00:00Z", "Oulu 10 2026-11-28T20:00:00Z")
	if got := l.refresh(); got != 2 {
		t.Errorf("late events: %d windows, want 2", got)
	}
	third := l.state("hourly")
	same(t, "rows late", changed(second.rows, third.rows), "2026-11-28 10:00:00+00", "2026-11-28 20:00:00+00")
	same(t, "files late", changed(second.files, third.files), day("2026-11-28"))
	for window, want := range map[string]string{"2026-11-28 10": "1", "2026-11-28 20": "0", "2026-11-28 11": "0", "2026-11-29 10": "0"} {
		for row := range strings.Lines(third.rows[window+":00:00+00"]) {
			if got := strings.Split(row, ",")[3]; got != want {
				t.Errorf("%s: revision %s, want %s (%s)", window, got, want, row)
			}
		}
	}

	// Once more, twice: each restatement counts, for all rows of the window.
	for _, v := range []string{"11", "12"} {
		l.add("Vaasa " + v + " 2026-11-28T10:00:00Z")
		l.refresh()
	}
	for row := range strings.Lines(l.state("hourly").rows["2026-11-28 10:00:00+00"]) {
		if got := strings.Split(row, ",")[3]; got != "3" {
			t.Errorf("revision %s, want 3 (%s)", got, row)
		}
	}
}

// TestFinalAtTheWatermark adds to windows that end before, at and after the
// watermark.
func TestFinalAtTheWatermark(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("a 1 2026-11-29T10:00:00Z", "a 1 2026-11-29T11:00:00Z", "a 1 2026-11-29T12:09:59.999999Z") // watermark 11:59:59.999999
	l.refresh()
	l.add("a 1 2026-11-29T11:00:00Z", "a 1 2026-11-29T12:10:00Z") // watermark 12:00
	l.refresh()
	l.add("a 1 2026-11-29T11:00:00Z")
	l.refresh()
	l.add("a 1 2026-11-29T12:00:00Z")
	l.refresh()
	s := l.state("hourly")
	for window, want := range map[string]string{"10": "a,1,1,0,", "11": "a,3,3,1,", "12": "a,3,3,0,"} {
		if got := s.rows["2026-11-29 "+window+":00:00+00"]; !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s…", window, got, want)
		}
	}
}

// TestRowsGone takes files out of silver.
func TestRowsGone(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("a 1 2026-11-28T10:00:00Z", "a 2 2026-11-28T11:00:00Z")
	l.add("a 3 2026-11-28T11:30:00Z", "a 4 2026-11-28T12:30:00Z")
	l.add("a 5 2026-11-29T10:00:00Z")
	l.refresh()
	first := l.state("hourly")
	gone := func(keep func(f table.File) bool) {
		t.Helper()
		l.commit(func(_ *table.Table, files []table.File) (c table.Change) {
			for _, f := range files {
				if !keep(f) {
					c.Remove = append(c.Remove, f)
				}
			}
			return c
		})
	}
	at := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	gone(func(f table.File) bool {
		lo, _, _ := f.Range("ts")
		return !lo.Equal(at("2026-11-28T10:00:00Z"))
	})
	if got := l.refresh(); got != 2 {
		t.Errorf("%d windows, want 2", got)
	}
	second := l.state("hourly")
	same(t, "rows", changed(first.rows, second.rows), "2026-11-28 10:00:00+00", "2026-11-28 11:00:00+00")
	if got := second.rows["2026-11-28 10:00:00+00"]; got != "" {
		t.Errorf("the window without rows has %s", got)
	}

	// A day's last rows: its file goes, and no other takes its place.
	gone(func(f table.File) bool {
		lo, _, _ := f.Range("ts")
		return !lo.Before(at("2026-11-29T00:00:00Z"))
	})
	l.refresh()
	third := l.state("hourly")
	same(t, "files", changed(second.files, third.files), day("2026-11-28"))
	if len(third.files) != 1 {
		t.Errorf("%d files are left, want 1", len(third.files))
	}

	gone(func(table.File) bool { return false })
	l.refresh()
	if s := l.state("hourly"); len(s.files) != 0 || len(s.rows) != 0 {
		t.Errorf("silver is empty, but gold has %v", s.rows)
	}
	l.add("a 6 2026-11-28T10:00:00Z")
	l.refresh()
}

// TestNothingChanged has silver commits that change no row of gold.
func TestNothingChanged(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("a 1 2026-11-28T10:00:00Z", "a 2 2026-11-28T11:00:00Z")
	l.refresh()
	before := l.state("hourly")

	swap := func(replace bool) func(tbl *table.Table, files []table.File) table.Change {
		return func(tbl *table.Table, files []table.File) table.Change {
			return table.Change{Add: []table.File{l.copy(tbl, files[0], true)}, Remove: files, Replace: replace}
		}
	}
	l.commit(swap(true))
	if got := l.refresh(); got != 0 || l.state("hourly").commit != before.commit {
		t.Errorf("after compaction %d windows were computed, and a commit was made", got)
	}
	l.take(smelt.Record{Value: []byte("no JSON"), Timestamp: smelt.NoTimestamp}, smelt.Record{Timestamp: smelt.NoTimestamp})
	if got := l.refresh(); got != 0 || l.state("hourly").commit != before.commit {
		t.Errorf("after a silver step without rows %d windows were computed, and a commit was made", got)
	}

	// The rows were rewritten unchanged. Only reading them shows that.
	l.commit(swap(false))
	if got := l.refresh(); got != 2 {
		t.Errorf("%d windows, want 2", got)
	}
	after := l.state("hourly")
	same(t, "rows", changed(before.rows, after.rows))
	same(t, "files", changed(before.files, after.files))
	if after.ledger.SilverSnapshot == before.ledger.SilverSnapshot {
		t.Error("the record was not brought up")
	}
}

// copy puts a silver file under a new key, with its bounds or without.
func (l *lake) copy(tbl *table.Table, f table.File, bounds bool) table.File {
	l.t.Helper()
	r, _, err := l.Parts.Area.Store.Get(l.t.Context(), f.Key)
	if err != nil {
		l.t.Fatal(err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		l.t.Fatal(err)
	}
	file := smelt.DataFile{Path: strings.TrimSuffix(f.Key, ".parquet") + "x.parquet", Rows: f.Rows, Bytes: f.Bytes, Partition: f.Partition}
	if lo, hi, ok := f.Range("ts"); ok && bounds {
		const layout = "2006-01-02 15:04:05.999999-07"
		file.Columns = map[string]smelt.Bounds{"ts": {Min: lo.Format(layout), Max: hi.Format(layout), Known: true}}
	}
	if err := l.Parts.Area.Store.Put(l.t.Context(), file.Path, bytes.NewReader(body), smelt.PutOptions{}); err != nil {
		l.t.Fatal(err)
	}
	out, err := tbl.NewFile(file)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// TestFileWithoutBounds has silver files that do not say which times they have.
func TestFileWithoutBounds(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("a 1 2026-11-28T10:00:00Z", "a 2 2026-11-28T11:00:00Z")
	silence := func(tbl *table.Table, files []table.File) (c table.Change) {
		c.Remove = files
		for _, f := range files {
			c.Add = append(c.Add, l.copy(tbl, f, false))
		}
		return c
	}
	l.commit(silence)
	if _, _, ok := l.files(l.load("silver.p"))[0].Range("ts"); ok {
		t.Fatal("the file has bounds: the test has lost its point")
	}
	if got := l.refresh(); got != 2 { // all
		t.Errorf("all: %d windows, want 2", got)
	}
	l.add("a 3 2026-11-28T11:30:00Z", "a 4 2026-11-29T11:30:00Z")
	if got := l.refresh(); got != 2 {
		t.Errorf("%d windows, want 2", got)
	}
	l.commit(silence)
	if got := l.refresh(); got != 3 {
		t.Errorf("%d windows, want 3", got)
	}
}

// TestManySnapshotsWithoutRows keeps the record from falling behind: silver
// keeps all snapshots from it on.
func TestManySnapshotsWithoutRows(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("a 1 2026-11-28T10:00:00Z")
	l.refresh()
	before := l.state("hourly")
	nothing := func(*table.Table, []table.File) (c table.Change) { return c }
	for range 150 {
		l.commit(nothing)
	}
	if got := l.refresh(); got != 0 {
		t.Errorf("%d windows were computed", got)
	}
	after := l.state("hourly")
	current, _ := l.load("silver.p").Current()
	if after.ledger.SilverSnapshot != current.ID || after.ledger.Windows != 0 || after.ledger.All != "" {
		t.Errorf("the record was not brought up to %d: %+v", current.ID, after.ledger)
	}
	same(t, "rows", changed(before.rows, after.rows))
	same(t, "files", changed(before.files, after.files))
	l.commit(nothing)
	if l.refresh(); l.state("hourly").commit != after.commit {
		t.Error("one snapshot without rows made a commit")
	}
}

func TestRecordedSnapshotExpired(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("a 1 2026-11-28T10:00:00Z", "a 1 2026-11-29T10:00:00Z")
	l.refresh()
	before := l.state("hourly")
	for range 60 {
		l.commit(func(*table.Table, []table.File) (c table.Change) { return c })
	}
	l.add("a 2 2026-11-29T10:30:00Z")
	expired, err := l.Parts.Area.Lake.Expire(t.Context(), "silver.p", table.Retention{Last: 1, Grace: time.Nanosecond})
	if err != nil || expired.Snapshots == 0 {
		t.Fatalf("%+v, %v", expired, err)
	}
	if got := l.refresh(); got != 2 {
		t.Errorf("%d windows, want all 2", got)
	}
	after := l.state("hourly")
	if want := "the changes in silver since the last refresh are unknown"; after.ledger.All != want || after.ledger.Windows != 2 {
		t.Errorf("got %+v, want all, since %s", after.ledger, want)
	}
	same(t, "rows", changed(before.rows, after.rows), "2026-11-29 10:00:00+00") // the other came out as it was
	same(t, "files", changed(before.files, after.files), day("2026-11-29"))
}

// TestModelChanged changes a model's SQL under a table that is there.
func TestModelChanged(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("a 1 2026-11-28T10:00:00Z", "b 2 2026-11-28T11:00:00Z", "a 3 2026-11-29T10:00:00Z")
	l.refresh()
	before := l.state("hourly")

	l.restart(model{"hourly", "1h", hourly + " -- the same rows"})
	if got := l.refresh(); got != 3 {
		t.Errorf("%d windows, want all 3", got)
	}
	after := l.state("hourly")
	if want := "its model has changed"; after.ledger.All != want {
		t.Errorf("got %q, want %q", after.ledger.All, want)
	}
	same(t, "rows of the same model", changed(before.rows, after.rows))

	wider := strings.Replace(hourly, "sum(v) AS total", "sum(v) AS total, max(v) AS top", 1)
	l.restart(model{"hourly", "1h", wider})
	l.refresh()
	if got := columns(l.load("gold.p_hourly")); got != "hour city n total _revision _computed_at top" {
		t.Errorf("columns %s; want top added", got)
	}
	l.add("b 9 2026-11-28T10:30:00Z")
	l.refresh()

	l.restart(model{"hourly", "1h", hourly}) // top is not computed any more
	l.refresh()
	l.add("c 9 2026-11-28T10:30:00Z")
	l.refresh()

	l.restart(model{"hourly", "1h", strings.Replace(hourly, "sum(v) AS total", "sum(v)::DOUBLE AS total", 1)})
	_, err := l.Line.Gold[0].Step(t.Context())
	const want = "columns that gold.p_hourly cannot take:\n  column total: DECIMAL(38,0) in the table, DOUBLE now\n"
	if !errors.Is(err, smelt.ErrPipeline) || !strings.Contains(err.Error(), want) {
		t.Errorf("a changed type: %v, want %s", err, want)
	}
}

func columns(tbl *table.Table) string {
	var names []string
	for _, c := range tbl.Columns() {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// TestWindows takes times at the edges through windows of every width.
func TestWindows(t *testing.T) {
	t.Parallel()
	l := open(t, model{"minutes", "1m", minutes}, model{"hourly", "1h", hourly}, model{"daily", "1d", daily}, model{"weekly", "7d", weeks})
	times := []string{
		"1900-01-01T00:00:00Z", "1969-12-24T23:59:59Z", "1969-12-25T00:00:00Z", "1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z",
		"1970-01-07T23:59:59Z", "1970-01-08T00:00:00Z", "2024-02-29T12:00:00Z", "2026-11-28T23:59:59.999999Z", "2026-11-29T00:00:00Z",
	}
	for i := 0; i < len(times); i += 2 {
		l.add("a 1 "+times[i], "a 2 "+times[i+1])
		l.refresh()
	}
	l.add("b 3 "+times[3], "b 4 "+times[5], "b 5 "+times[8])
	if got := l.refresh(); got != 4*3 {
		t.Errorf("%d windows, want 3 of each model", got)
	}
	for name, want := range map[string]int{"minutes": 10, "hourly": 10, "daily": 10, "weekly": 7} {
		if got := len(l.state(name).rows); got != want {
			t.Errorf("%s has %d windows, want %d", name, got, want)
		}
	}
	l.restart(model{"minutes", "1m", minutes + " -- again"}, model{"hourly", "1h", hourly}, model{"daily", "1d", daily + " -- again"}, model{"weekly", "7d", weeks + " -- again"})
	if got := l.refresh(); got != 10+10+7 {
		t.Errorf("anew: %d windows, want all 27 of three models", got)
	}
}

// TestManyWindows refreshes more windows at once than one query names.
func TestManyWindows(t *testing.T) {
	t.Parallel()
	l := open(t, model{"minutes", "1m", minutes})
	l.add("a 1 2026-11-01T00:00:00Z")
	l.refresh()
	const windows = 12_000
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	records := make([]smelt.Record, windows)
	for i := range records {
		records[i] = reading("b 2 " + at.Add(time.Duration(i)*time.Minute).Format(time.RFC3339))
	}
	l.take(records...)
	if got := l.refresh(); got != windows {
		t.Errorf("%d windows, want %d", got, windows)
	}
	s := l.state("minutes")
	if len(s.rows) != windows || len(s.files) != 9 || s.ledger.All != "" {
		t.Errorf("%d windows in %d files, %q", len(s.rows), len(s.files), s.ledger.All)
	}
}

func TestRowOutsideItsWindow(t *testing.T) {
	t.Parallel()
	tests := []struct{ sql, want string }{
		{"SELECT ts AS hour, v FROM silver.p", "p/x.sql gives a row whose hour is 2026-11-28 10:30:00+00, which is not the start of the window of 1h0m0s that its events lie in"},
		{"SELECT date_trunc('hour', ts) + INTERVAL 1 HOUR AS hour, v FROM silver.p", "p/x.sql gives a row whose hour is 2026-11-28 11:00:00+00, which"},
		{"SELECT NULL::TIMESTAMPTZ AS hour, v FROM silver.p", "p/x.sql gives a row whose hour is NULL, which"},
	}
	for _, tt := range tests {
		l := open(t, model{"x", "1h", tt.sql + " WHERE v > 1"})
		l.add("a 1 2026-11-28T09:30:00Z")
		l.refresh()
		before := l.state("x")
		l.add("a 2 2026-11-28T10:30:00Z")
		if _, err := l.Line.Gold[0].Step(t.Context()); !errors.Is(err, smelt.ErrPipeline) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
		if l.state("x").commit != before.commit {
			t.Errorf("%s: committed all the same", tt.sql)
		}
	}
}

// TestRowsAlike has a model give rows that are the same but for how many there are.
func TestRowsAlike(t *testing.T) {
	t.Parallel()
	l := open(t, model{"each", "1h", "SELECT date_trunc('hour', ts) AS hour, city FROM silver.p"})
	for i := range 3 {
		l.add(fmt.Sprintf("Espoo %d 2026-11-29T10:05:00Z", i))
		if got := l.refresh(); got != 1 {
			t.Errorf("%d windows, want 1", got)
		}
	}
}

// TestRefreshFails has a refresh fail after it has found what to compute: the next one
// computes it.
func TestRefreshFails(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", hourly})
	l.add("Espoo 1 2026-11-29T10:05:00Z")
	l.refresh()
	fail := false
	l.Parts.Area.Store = store.NewFaulty(l.Parts.Area.Store, func(op store.Op) store.Fault {
		if fail && op.Name == "put" && strings.HasPrefix(op.Key, "gold/") {
			return store.FailBefore
		}
		return store.None
	})
	l.restart(model{"hourly", "1h", hourly})
	l.add("Espoo 2 2026-11-29T10:15:00Z")
	fail = true
	if _, err := l.Line.Gold[0].Step(t.Context()); !errors.Is(err, smelt.ErrStore) {
		t.Fatalf("got %v", err)
	}
	fail = false
	if got := l.refresh(); got != 1 {
		t.Errorf("%d windows, want 1", got)
	}
}
