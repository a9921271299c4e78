package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"smelt/upkeep"
)

// What one smelt run notes of maintenance, the next one reads.
func TestNoteDue(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "maintenance.json")
	if due, err := readDue(path); err != nil || due != nil {
		t.Errorf("before anything was noted: %v, %v", due, err)
	}
	want := []upkeep.Due{{Table: "silver.a", Kind: upkeep.KindExpire, Next: time.Now().UTC().Round(0)}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	noteDue(ctx, path, func() []upkeep.Due { return want }, slog.New(slog.DiscardHandler))
	if due, err := readDue(path); err != nil || !slices.Equal(due, want) {
		t.Errorf("got %v, %v, want %v", due, err, want)
	}
	if err := os.WriteFile(path, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readDue(path); err == nil {
		t.Error("a file that is damaged is read")
	}
}
