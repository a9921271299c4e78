package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAwaitReady reads what smelt notes in its state folder, of a process that has ended
// already: it is looked at once.
func TestAwaitReady(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	close(ended)
	f := &fleet{dir: t.TempDir()}
	run := filepath.Join(f.home("run2"), "run")
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"":                               false,
		"123\n":                          false,
		"123\nready\n\n":                 true, // it answers nowhere
		"123\nready\n127.0.0.1:40001\n":  true,
		"1234\nready\n127.0.0.1:40001\n": false,
	} {
		if err := os.WriteFile(filepath.Join(run, "run.pid"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := f.awaitReady(t.Context(), "run2", &process{pid: 123, ended: ended}); got != want {
			t.Errorf("of %q: got %t", text, got)
		}
	}
}
