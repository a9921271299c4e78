package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/internal/pipetest"
	"smelt/upkeep"
)

// A table that cannot be maintained does not hold back others. An unavailable store or database is reported once.
func TestMaintainGoesOn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"a table", errors.New("torn"), "a b c"},
		{"the store", smelt.Mark(smelt.ErrStore, errors.New("no answer")), "a"},
		{"the database", smelt.Mark(smelt.ErrDatabase, errors.New("no answer")), "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var planned []string
			var tasks []upkeep.Task
			for _, name := range []string{"a", "b", "c"} {
				tasks = append(tasks, upkeep.Task{Table: name, Kind: upkeep.KindCompact, Plan: func(context.Context, time.Time) ([]upkeep.Job, error) {
					planned = append(planned, name)
					return nil, tt.err
				}})
			}
			err := maintainCmd{Plan: true}.all(t.Context(), tasks, nil, &streams{Out: io.Discard, Err: io.Discard})
			if got := strings.Join(planned, " "); got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("planned %s, %v: want %s and the error", got, err, tt.want)
			}
		})
	}
}

func TestChoreText(t *testing.T) {
	t.Parallel()
	seconds := 1.25
	for _, tt := range []struct {
		chore chore
		want  string
	}{
		{chore{What: "2 small files", Before: upkeep.Size{Files: 2, Bytes: 3072}, After: upkeep.Size{Files: 1, Bytes: 2048}, Seconds: &seconds},
			"2 small files  2 files, 3.0 KiB → 1 file, 2.0 KiB  1.2 s"},
		{chore{What: "52 snapshots", Before: upkeep.Size{Files: 106}, Seconds: &seconds}, "52 snapshots  106 files → none  1.2 s"},
		{chore{What: "52 snapshots"}, "52 snapshots"},
		{chore{What: "52 snapshots", Lost: "the table is being written", Seconds: &seconds}, "52 snapshots: left for later, the table is being written"},
	} {
		tt.chore.Table, tt.chore.Kind = "silver.sensors", "expire"
		if got, want := tt.chore.text(), "silver.sensors         expire     "+tt.want; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locks := pipetest.NewLocks()
		unlock, err := locks.Lock(t.Context(), "maintain.silver.p")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := await(t.Context(), locks, "maintain.silver.p", time.Minute); !errors.Is(err, smelt.ErrLocked) || time.Since(begin) != time.Minute {
			t.Errorf("another has it: %v after %s, want that it is locked after a minute", err, time.Since(begin))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := await(gone, locks, "maintain.silver.p", time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
		unlock()
		if unlock, err = await(t.Context(), locks, "maintain.silver.p", time.Minute); err != nil {
			t.Fatalf("nobody has it: %v", err)
		}
		unlock()
	})
}
