package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"smelt"
	"smelt/bronze"
	"smelt/internal/pipetest"
	"smelt/internal/store"
)

// A missing file is reported, without waiting.
func TestVerifyMissingFile(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	key := filesOf(t, w.load(t, "silver.readings"))[0].Key
	w.delete(t, key)
	v := w.verifier()
	v.Area.Cache = w.emptyCache(t)
	_, err := v.Verify(t.Context(), w.pipeline)
	if !errors.Is(err, smelt.ErrVerify) || !strings.Contains(err.Error(), key) {
		t.Errorf("got %v", err)
	}
}

// emptyCache is a cache that has no copy of anything.
func (w *world) emptyCache(t *testing.T) *store.Cache {
	t.Helper()
	const bytes = 1 << 30
	c, err := store.NewCache(w.Parts.Area.Store, t.TempDir(), bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A lake that is compared in parts, a day each, is judged as one that is not.
func TestVerifyInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, day := range []int{0, 1, 5, -400, -24000} { // the last one lies before 1970
		w.from = noon.AddDate(0, 0, day)
		w.send(0, "aaz")
	}
	w.drain(t)
	v := w.verifyBy(t, w.verifier().InSmallParts())
	if got, want := receipt(v.Receipt), "bronze 15 = silver 15 + quarantine 0 ✓  gold 15 ✓"; got != want || v.Err() != nil {
		t.Errorf("got  %s %+v\nwant %s", got, v.Mismatches, want)
	}
	w.rewrite(t, "gold.readings_hourly", "FROM work.t WHERE hour <> (SELECT max(hour) FROM work.t) OR city IS NULL")
	v = w.verifyBy(t, w.verifier().InSmallParts())
	if len(v.Mismatches) != 1 || v.Mismatches[0].Count != 1 || !slices.Equal(v.Mismatches[0].Examples, []string{"2026-12-04 12:00:00+00"}) {
		t.Errorf("got %+v", v.Mismatches)
	}
}

// A recount while the line works reports nothing.
func TestVerifyWhileRunning(t *testing.T) {
	t.Parallel()
	const rounds = 5
	w := healthy(t)
	stop := make(chan error, 1)
	go func() {
		for range rounds {
			w.send(0, "a!-z")
			w.send(1, "az")
			if err := pipetest.Drain(t.Context(), w.line); err != nil {
				stop <- err
				return
			}
		}
		stop <- nil
	}()
	for {
		if v := w.verify(t); v.Err() != nil {
			t.Fatalf("%s: %+v", v.Receipt, v.Mismatches)
		}
		select {
		case err := <-stop:
			if err != nil {
				t.Fatal(err)
			}
			v := w.verify(t)
			if got, want := receipt(v.Receipt), fmt.Sprintf("bronze %d = silver %d + quarantine %d + tombstones %d ✓  gold %d ✓",
				11+6*rounds, 7+4*rounds, 2+rounds, 2+rounds, 7+4*rounds); got != want || v.Err() != nil {
				t.Errorf("got  %s %+v\nwant %s", got, v.Mismatches, want)
			}
			return
		default:
		}
	}
}

// A record's line can be counted whatever it contains. (The first of two members with one name counts, so that record is a
// reading.)
func TestVerifyOddRecords(t *testing.T) {
	t.Parallel()
	const large = 256 << 10 // bytes
	w := newWorld(t)
	values := []string{
		`{"sensor":"\ud800","value":1,"seen":"2026-11-29T12:00:00Z"}`,
		`{"sensor":"a","sensor":"b","value":1,"seen":"2026-11-29T12:00:00Z"}`,
		"\xff\x00", "null", "[1,\n2]", `{"value":1e400}`, "", `"tombstone":true`, `{"offset":99,"partition":7,"tombstone":true}`,
		strings.Repeat("[", 100) + strings.Repeat("]", 100),
		`{"sensor":"` + strings.Repeat("x", large) + `"}`,
		strings.Repeat("\x01", large), // six bytes each in the line
		strings.Repeat("y", bronze.DefaultRecordMax+1),
	}
	for _, v := range values {
		w.Topic.Append(smelt.Record{Timestamp: noon.UnixMilli(), Key: []byte(`{"offset":3}`), Value: []byte(v), Headers: []smelt.Header{{Name: "offset", Value: []byte("5")}}})
	}
	w.send(0, "a")
	w.drain(t)
	v := w.verify(t)
	if got, want := receipt(v.Receipt), fmt.Sprintf("bronze %d = silver 2 + quarantine %d ✓  gold 2 ✓", len(values)+1, len(values)-1); got != want || v.Err() != nil {
		t.Errorf("got  %s %+v\nwant %s", got, v.Mismatches, want)
	}
}
