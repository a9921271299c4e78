package stack

import (
	"os"
	"path/filepath"
	"testing"
)

// A log that is large is put aside while it is written, and one that is not stays.
func TestPutAside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "postgres.log")
	writer, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	step := func(line, log, old string) {
		t.Helper()
		if _, err := writer.WriteString(line); err != nil {
			t.Fatal(err)
		}
		if err := putAside(path, 4); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{path: log, path + ".1": old} {
			if got, err := os.ReadFile(file); string(got) != want || want != "" && err != nil {
				t.Errorf("after %q: %s has %q, %v, want %q", line, filepath.Base(file), got, err, want)
			}
		}
	}
	step("abcd", "abcd", "")
	step("e", "", "abcde")
	step("fg", "fg", "abcde")
	step("hij", "", "fghij")
}
