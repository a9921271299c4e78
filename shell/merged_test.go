package shell_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/ledger"
	"smelt/shell"
)

// merger merges the lake's bronze as if days had passed.
func (l *lake) merger() *bronze.Merger {
	return bronze.NewMerger(bronze.MergerConfig{
		Pipeline: l.config.Pipelines[0].Name, Store: l.config.Store, Log: slog.New(slog.DiscardHandler), Dir: l.home,
	})
}

// position is where silver has read to.
func (l *lake) position() map[int32]int64 {
	l.t.Helper()
	t, _ := l.load("silver." + l.config.Pipelines[0].Name)
	at, _, _, err := ledger.Read[ledger.Silver](t)
	l.must(err)
	return at.Position
}

// merge merges all that can be, and cleans what has been.
func (l *lake) merge(m *bronze.Merger) {
	l.t.Helper()
	plan, err := m.Plan(l.t.Context(), l.position(), time.Now().Add(48*time.Hour))
	l.must(err)
	for _, run := range plan.Runs {
		_, err := m.Merge(l.t.Context(), run)
		l.must(err)
	}
	for _, leftovers := range plan.Leftovers {
		l.must(m.Clean(l.t.Context(), leftovers))
	}
}

// TestMerged queries bronze while its objects are merged, deleted and retired.
func TestMerged(t *testing.T) {
	t.Parallel()
	l := newLake(t, "merged")
	m := l.merger()
	write := func(n int) {
		for range n {
			l.send(0, espoo)
			l.drain()
		}
	}
	const all = "SELECT count(*), count(DISTINCT _partition_offset), max(_partition_offset) FROM bronze"
	check := func(when, want string, shells ...*shell.Shell) {
		t.Helper()
		for i, s := range append(shells, l.open()) {
			if got := l.query(s, all); got != want {
				t.Errorf("%s: shell %d has %s, want %s", when, i, got, want)
			}
		}
	}
	write(6)
	early := l.open()
	check("before", "6,6,5", early)
	l.merge(m)
	check("merged", "6,6,5", early)
	write(4)
	then := time.Now()
	late := l.open()
	check("more", "10,10,9", early, late)
	write(3)
	l.merge(m) // what was there before goes
	l.merge(m)
	l.merge(m)
	check("cleaned", "13,13,12", early, late)
	past, err := l.openAt(then.Format(time.RFC3339Nano))
	l.must(err)
	if got := l.query(past, all); got != "10,10,9" {
		t.Errorf("at a time in the middle of a merged object: %s", got)
	}
	var banner strings.Builder
	l.must(past.Greet(t.Context(), &banner))
	if !strings.Contains(strings.Join(strings.Fields(banner.String()), " "), "bronze.merged 10 records") {
		t.Errorf("no 10 records in\n%s", &banner)
	}

	for i, keep := range [][]int64{{3, 5}, nil} {
		write(2)
		runs, err := m.PlanRetire(t.Context(), l.position(), time.Now())
		l.must(err)
		if len(runs) != 1 {
			t.Fatalf("to retire: %+v", runs)
		}
		_, _, err = m.Retire(t.Context(), runs[0], keep)
		l.must(err)
		last := 13 + 2*i + 1
		want := fmt.Sprintf("%d,%d,%d", len(keep)+1, len(keep)+1, last)
		check("retired", want)
		l.merge(m)
		check("retired and cleaned", want)
		banner.Reset()
		l.must(l.open().Greet(t.Context(), &banner))
		if want := fmt.Sprintf("bronze.merged %d record", len(keep)+1); !strings.Contains(strings.Join(strings.Fields(banner.String()), " "), want) {
			t.Errorf("no %q in\n%s", want, &banner)
		}
	}
}

// TestDropped drops bronze under an open shell, and has it read again.
func TestDropped(t *testing.T) {
	t.Parallel()
	l := newLake(t, "dropped")
	l.send(0, espoo, espoo)
	l.drain()
	s := l.open()
	count := func(when, want string) {
		t.Helper()
		if got := l.query(s, "SELECT count(*) FROM bronze"); got != want {
			t.Errorf("%s: %s records, want %s", when, got, want)
		}
	}
	count("at first", "2")
	store := l.config.Store
	objects, err := bronze.Objects(t.Context(), store, "dropped")
	l.must(err)
	body, o, err := store.Get(t.Context(), objects[0].Key)
	l.must(err)
	data, err := io.ReadAll(body)
	l.must(err)
	l.must(body.Close())
	l.must(bronze.Drop(t.Context(), store, objects))
	count("dropped", "0")
	l.must(store.Put(t.Context(), o.Key, bytes.NewReader(data), smelt.PutOptions{Meta: o.Meta}))
	count("read again", "2")
}
