package inspect_test

import (
	"strings"
	"testing"
	"time"

	"smelt/internal/line"
)

// A window that gold holds back is reported by verify and by status, and all others are
// still compared.
func TestHeldWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	model := &w.pipeline.Gold[0]
	model.SQL = strings.Replace(model.SQL, "count(*)", "count(CASE WHEN sensor = 'x' THEN CAST(sensor AS INTEGER) ELSE 1 END)", 1)
	if !strings.Contains(model.SQL, "CAST(sensor") {
		t.Fatalf("the model is %s", model.SQL)
	}
	l, err := line.Open(t.Context(), w.pipeline, w.Parts)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.line = l
	w.send(0, "aa")
	w.from = w.from.Add(time.Hour)
	w.send(1, "ax")
	w.drain(t)
	v := w.verify(t)
	if len(v.Mismatches) != 1 || v.Mismatches[0].Check != "held" ||
		!strings.Contains(v.Mismatches[0].Message, "gold.readings_hourly holds back 1 window, because hourly.sql throws on the rows: 2026-11-29 13:00:00, Conversion Error") {
		t.Errorf("got %+v", v.Mismatches)
	}
	if len(v.Gold) != 1 || v.Gold[0].OK {
		t.Errorf("got %+v", v.Gold)
	}
	w.rewrite(t, "gold.readings_hourly", "FROM work.t WHERE false")
	if v := w.verify(t); len(v.Mismatches) != 2 {
		t.Errorf("with a row of another window missing: %+v", v.Mismatches)
	}
}
