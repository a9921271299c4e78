package duck_test

import (
	"runtime"
	"testing"
)

// TestParallel gives statements all cores while a caller requests that.
func TestParallel(t *testing.T) {
	t.Parallel()
	db, s := open(t, 3)
	threads := func() string {
		got, err := s.Strings(t.Context(), "SELECT current_setting('threads')::VARCHAR = 3")
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	first, err := db.Parallel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := db.Parallel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first()
	during := threads()
	second()
	if after := threads(); after != "true" || during == "true" && runtime.NumCPU() != 3 {
		t.Errorf("three threads: %s during, %s after; want them after alone", during, after)
	}
}
