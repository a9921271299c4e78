package upkeep_test

import (
	"fmt"
	"strings"
	"testing"

	"smelt"
	"smelt/internal/table"
	"smelt/upkeep"
)

// Manifests are rewritten when that pays.
func TestManifests(t *testing.T) {
	t.Parallel()
	r := run(t)
	task := upkeep.Manifests(r.config, readingsSilver, readingsSilver)
	if jobs := r.plan(task, 0); len(jobs) > 0 {
		t.Errorf("without a table: %s", whats(jobs))
	}
	r.stream(2)
	if jobs := r.plan(task, 0); len(jobs) > 0 {
		t.Errorf("of a young table: %s", whats(jobs))
	}
	like := r.files(readingsSilver)[0]
	last := r.like(like)
	r.commit(readingsSilver, table.Change{Add: []table.File{last}})
	for range 51 { // each adds a manifest, and merges none
		next := r.like(like)
		r.commit(readingsSilver, table.Change{Add: []table.File{r.like(like), next}, Remove: []table.File{last}})
		last = next
	}
	files := len(r.files(readingsSilver))
	jobs := r.plan(task, 0)
	if len(jobs) != 1 || !strings.HasSuffix(jobs[0].What, fmt.Sprintf(" manifests of %d files", files)) {
		t.Fatalf("to do: %q", whats(jobs))
	}
	done := r.do(jobs)[0]
	if done.Before.Files < 51 || done.After.Files != 1 || done.After.Bytes >= done.Before.Bytes || done.Lost != "" {
		t.Errorf("did %+v", done)
	}
	if again := r.do(jobs)[0]; again.Lost == "" {
		t.Errorf("a second time: did %+v", again)
	}
	if n := len(r.files(readingsSilver)); n != files {
		t.Errorf("%d files, were %d", n, files)
	}
	if now := r.head(readingsSilver); now.Operation != "replace" {
		t.Errorf("a snapshot that says %s", now.Operation)
	}
}

// like makes a file with the bytes of another one.
func (r *running) like(f table.File) table.File {
	r.t.Helper()
	paths, release, err := r.config.Area.Fetch(r.t.Context(), []table.File{f})
	if err != nil {
		r.t.Fatal(err)
	}
	defer release()
	staged, err := r.config.Area.Upload(r.t.Context(), r.load(readingsSilver), []smelt.DataFile{{Path: paths[0], Rows: f.Rows, Bytes: f.Bytes, Partition: f.Partition}})
	if err != nil {
		r.t.Fatal(err)
	}
	return staged[0].File
}

func (r *running) commit(name string, c table.Change) {
	r.t.Helper()
	if _, err := r.load(name).Commit(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
}
