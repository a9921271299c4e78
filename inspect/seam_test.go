package inspect_test

import (
	"errors"
	"strings"
	"testing"

	"smelt/bronze"
	"smelt/inspect"
	"smelt/internal/ledger"
)

// sew accepts what has happened to the topic, as an operator does, and says of how
// many partitions.
func (w *world) sew(t *testing.T, why string) int {
	t.Helper()
	ctx, store := t.Context(), w.Parts.Area.Store
	looked := w.Topic.Open(nil)
	source, err := looked.Describe(ctx)
	if err = errors.Join(err, looked.Close()); err != nil { // it gives back what it was given
		t.Fatal(err)
	}
	reader, ends := bronze.NewReader(store, "readings"), map[int32]bronze.Meta{}
	for _, id := range []int32{0, 1} {
		if ends[id], err = reader.Last(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	stops := bronze.Stops("readings", ends, source)
	for _, stop := range stops {
		if _, err := bronze.Sew(ctx, store, stop, stop.From(), why, bronze.Zstd); err != nil {
			t.Fatal(err)
		}
	}
	return len(stops)
}

// TestVerifySeams follows a topic that loses records, and is re-created, through
// every layer.
func TestVerifySeams(t *testing.T) {
	t.Parallel()
	w := long(t)
	w.has(t, "before", "bronze 14 = silver 10 + quarantine 2 + tombstones 2 ✓  gold 10 ✓")
	w.send(0, "aaa")
	w.Topic.Truncate(0, 12)
	if n := w.sew(t, "a test"); n != 1 {
		t.Fatalf("%d partitions were stopped by a gap", n)
	}
	w.drain(t)
	w.has(t, "after a gap", "bronze 15 = silver 11 + quarantine 2 + tombstones 2 ✓  gold 11 ✓")

	w.Topic.Recreate()
	if _, err := w.line.Bronze.Step(t.Context()); err == nil {
		t.Error("that the topic was re-created was not noticed")
	}
	if n := w.sew(t, ""); n != 2 {
		t.Fatalf("%d partitions were stopped by a topic that was re-created", n)
	}
	w.drain(t) // silver reads seams alone
	w.has(t, "after seams alone", "bronze 15 = silver 11 + quarantine 2 + tombstones 2 ✓  gold 11 ✓")
	ends, err := bronze.NewReader(w.Parts.Area.Store, "readings").Ends(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	silver, _, _, err := ledger.Read[ledger.Silver](w.load(t, "silver.readings"))
	for id, end := range ends {
		if err != nil || silver.Position[id] != end.End {
			t.Errorf("silver is at %d of partition %d, error %v: want %d, behind the seam", silver.Position[id], id, err, end.End)
		}
	}
	w.send(0, "a!-")
	w.send(1, "a")
	w.drain(t)
	const want = "bronze 19 = silver 13 + quarantine 3 + tombstones 3 ✓  gold 13 ✓"
	w.has(t, "after it was re-created", want)

	for offset, says := range map[int64]string{
		10: "the records from 0:10 to 0:11 were deleted from the topic before they were read",
		13: "at 0:13 another log took the topic's place, which was accepted at ",
		99: "partition 0 of bronze ends with offset 16",
	} {
		if _, err := w.tracer().Trace(t.Context(), w.pipeline, 0, offset); !errors.Is(err, inspect.ErrNoRecord) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "()") {
			t.Errorf("trace of offset %d: %v", offset, err)
		}
	}
	if text := w.trace(t, 0, 14).Text(false); !strings.Contains(text, "readings 0:14  is in silver and gold\n") {
		t.Errorf("got\n%s", text)
	}

	m := w.merger(t)
	w.merge(t, m)
	w.has(t, "merged", want)
	w.send(0, "a") // so that the seams are not at the end
	w.drain(t)
	w.retire(t, m, 3)
	w.has(t, "retired", "bronze 20 = silver 14 + quarantine 3 + tombstones 3 ✓  gold 14 ✓")
}
