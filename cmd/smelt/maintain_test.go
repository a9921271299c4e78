package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/maintain"
)

// A table that cannot be maintained keeps no other from being; a store or a
// database that is away is told once.
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
			var tasks []maintain.Task
			for _, name := range []string{"a", "b", "c"} {
				tasks = append(tasks, maintain.Task{Table: name, Kind: maintain.KindCompact, Plan: func(context.Context, time.Time) ([]maintain.Job, error) {
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
