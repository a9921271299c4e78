package upkeep_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/table"
	"smelt/upkeep"
)

const aged = 73 * time.Hour // from now every file is old enough for an orphan

// Files that no snapshot has go.
func TestOrphans(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.config.Policy.OrphanAge = time.Hour // less than a commit may take
	r.stream(3)
	const folder = "quarantine/readings/data/"
	if err := r.config.Area.Store.Put(t.Context(), folder+"lost.parquet", strings.NewReader("PAR1"), smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	(&engine{r, readingsSilver}).deleteRows()
	before := r.objects()
	for name, want := range map[string]string{readingsSilver: "", readingsHourly: "", readingsQuarantine: "1 file that no snapshot refers to"} {
		task := upkeep.Orphans(r.config, name, readingsSilver)
		if jobs := r.plan(task, 71*time.Hour); len(jobs) > 0 {
			t.Errorf("%s: all is young: %s", name, whats(jobs))
		}
		jobs := r.plan(task, aged)
		if got := whats(jobs); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		r.do(jobs)
		if again := r.plan(task, aged); len(again) > 0 {
			t.Errorf("%s: still to do: %s", name, whats(again))
		}
	}
	now := r.objects()
	gone := slices.DeleteFunc(before, func(key string) bool { return slices.Contains(now, key) })
	gone = slices.DeleteFunc(gone, func(key string) bool { return strings.Contains(key, "/metadata/") }) // of old, by the fences
	if !slices.Equal(gone, []string{folder + "lost.parquet"}) {
		t.Errorf("gone: %q", gone)
	}
	r.rows(readingsQuarantine)
	r.rows(readingsHourly)
}

// What is found and then comes into use stays.
func TestOrphansLoses(t *testing.T) {
	t.Parallel()
	r := run(t)
	r.stream(3)
	files := r.files(readingsSilver)
	task := upkeep.Orphans(r.config, readingsSilver, readingsSilver)
	before := r.load(readingsSilver)
	if err := r.config.Area.Store.Put(t.Context(), "silver/readings/data/lost.parquet", strings.NewReader("PAR1"), smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	jobs := r.plan(task, aged)
	lost, err := before.NewFile(smelt.DataFile{Path: "silver/readings/data/lost.parquet", Rows: 1, Bytes: 4, Partition: files[0].Partition})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Commit(t.Context(), table.Change{Add: []table.File{lost}}); err != nil {
		t.Fatal(err)
	}
	if done := r.do(jobs); len(done) != 1 || done[0].Before.Files != 0 {
		t.Errorf("did %+v", done)
	}
	if _, err := r.config.Area.Store.Stat(t.Context(), "silver/readings/data/lost.parquet"); err != nil {
		t.Error(err)
	}
}
