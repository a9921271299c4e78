package table

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/internal/store"
)

func TestClock(t *testing.T) {
	t.Parallel()
	l := Open(store.NewMemory(), NewMemoryCatalog(), "s3://lake")
	tbl, err := l.Create(t.Context(), "silver.a", Definition{Columns: []smelt.Column{{Name: "a", Type: smelt.Type{Name: "date"}}}})
	if err != nil {
		t.Fatal(err)
	}
	last := time.UnixMilli(tbl.ice.Metadata().LastUpdatedMillis()).UTC()
	for _, now := range []time.Time{last, last.Add(time.Hour), last.Add(-time.Minute)} {
		if err := tbl.checkClock(now); err != nil {
			t.Errorf("at %s after %s: %v", now, last, err)
		}
	}
	now := last.Add(-2 * time.Minute)
	err = tbl.checkClock(now)
	if err == nil || !strings.Contains(err.Error(), now.Format(time.RFC3339)) || !strings.Contains(err.Error(), last.Format(time.RFC3339)) {
		t.Errorf("at %s after %s: got %v, want an error that names both", now, last, err)
	}
}

// at runs a function while the clock says so many seconds past midnight.
func at(t *testing.T, seconds int, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Duration(seconds) * time.Second)
		f(t)
	})
}

// A clock that goes back a little is waited for, so that snapshots' times do not, and
// the log says so, once for all that wait at one time.
func TestClockBack(t *testing.T) {
	t.Parallel()
	l := Open(store.NewMemory(), NewMemoryCatalog(), "s3://lake")
	var log strings.Builder
	l.Log = slog.New(slog.NewTextHandler(&log, nil))
	at(t, 30, func(t *testing.T) {
		tbl, err := l.Create(t.Context(), "silver.a", Definition{Columns: []smelt.Column{{Name: "a", Type: smelt.Type{Name: "date"}}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tbl.Commit(t.Context(), Change{}); err != nil {
			t.Fatal(err)
		}
	})
	at(t, 0, func(t *testing.T) {
		began := time.Now()
		tbl, err := l.Load(t.Context(), "silver.a")
		if err != nil {
			t.Fatal(err)
		}
		before, _ := tbl.Current()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tbl.Commit(ctx, Change{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that nothing is committed in the past", err)
		}
		if err := l.Tag(t.Context(), "silver.a", "x", before.ID, 0); err != nil {
			t.Fatal(err)
		}
		if tbl, err = l.Load(t.Context(), "silver.a"); err != nil {
			t.Fatal(err)
		}
		if tbl, err = tbl.Commit(t.Context(), Change{}); err != nil {
			t.Fatal(err)
		}
		if after, _ := tbl.Current(); after.Time.Before(before.Time) {
			t.Errorf("a snapshot of %s follows one of %s", after.Time, before.Time)
		}
		if waited := time.Since(began); waited != 30*time.Second {
			t.Errorf("waited for %s, want 30s", waited)
		}
		said := log.String()
		for _, want := range []string{"level=WARN", "table=silver.a behind=30s", "changed=" + before.Time.UTC().Format(time.RFC3339)} {
			if strings.Count(said, want) != 1 {
				t.Errorf("the log does not say %q once: %s", want, said)
			}
		}
	})
}

// A search for orphans while the clock is years ahead takes a file for old that is on
// its way. Once the clock is right again the file is not committed: the table says that
// it was changed later.
func TestClockAheadAndBack(t *testing.T) {
	t.Parallel()
	objects := store.NewMemory()
	l := Open(objects, NewMemoryCatalog(), "s3://lake")
	var young File
	at(t, 0, func(t *testing.T) {
		tbl, err := l.Create(t.Context(), "silver.a", Definition{Columns: []smelt.Column{{Name: "a", Type: smelt.Type{Name: "date"}}}})
		if err != nil {
			t.Fatal(err)
		}
		key := l.Key(tbl.Location()) + "/data/x.parquet"
		if err := objects.Put(t.Context(), key, strings.NewReader("PAR1"), smelt.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if young, err = tbl.NewFile(smelt.DataFile{Path: key, Rows: 1, Bytes: 4}); err != nil {
			t.Fatal(err)
		}
	})
	// Outside of the bubble it is decades later.
	found, err := l.Orphans(t.Context(), "silver.a", time.Now().Add(-2*FileAge))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	tbl, err := l.Load(t.Context(), "silver.a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.Commit(t.Context(), Change{Add: []File{young}}); !errors.Is(err, ErrOld) {
		t.Errorf("while the clock is ahead: got %v, want that the file is too old", err)
	}
	fenced, err := l.Fence(t.Context(), "silver.a")
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := fenced.RemoveOrphans(t.Context(), found); err != nil || len(gone) != 1 {
		t.Fatalf("removed %v, %v", gone, err)
	}
	at(t, 60, func(t *testing.T) {
		tbl, err := l.Load(t.Context(), "silver.a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tbl.Commit(t.Context(), Change{Add: []File{young}}); err == nil || !strings.Contains(err.Error(), "set the clock right") {
			t.Errorf("after it: got %v, want that the clock is behind the table", err)
		}
		if tbl, err = l.Load(t.Context(), "silver.a"); err != nil {
			t.Fatal(err)
		}
		if _, ok := tbl.Current(); ok {
			t.Error("the table has a file that is gone")
		}
	})
}
