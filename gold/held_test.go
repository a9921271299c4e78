package gold_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"smelt"
)

// throws is a model that throws on a city that is not a number.
const throws = `SELECT date_trunc('hour', ts) AS hour, count(*) AS n, sum(CAST(city AS INTEGER)) AS total FROM silver.p GROUP BY date_trunc('hour', ts)`

// held are the starts of the windows that gold holds back.
func (l *lake) held(name string) (out []string) {
	l.t.Helper()
	for _, h := range l.state(name).ledger.Held {
		out = append(out, h.Start.Format("15:04")+" "+strings.SplitN(h.Error, ":", 2)[0])
	}
	return out
}

// steps steps the first gold table once.
func (l *lake) steps() error {
	l.t.Helper()
	_, err := l.Line.Gold[0].Step(l.t.Context())
	return err
}

// A window on whose rows the model throws is held back as it was. The others go on. It
// is computed again when its rows change, or the model does.
func TestHeldWindows(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", throws})
	step := func() map[string]string {
		t.Helper()
		if err := l.steps(); err != nil {
			t.Fatal(err)
		}
		return l.state("hourly").rows
	}
	l.add("1 7 2026-11-25T10:00:00Z", "2 7 2026-11-26T11:00:00Z")
	before := step()
	if len(before) != 2 || len(l.held("hourly")) != 0 {
		t.Fatalf("got %v, held %v", before, l.held("hourly"))
	}
	l.add("x 7 2026-11-25T10:30:00Z", "3 7 2026-11-27T12:00:00Z", "4 7 2026-11-26T11:30:00Z")
	rows := step()
	if held := l.held("hourly"); !slices.Equal(held, []string{"10:00 Conversion Error"}) || len(rows) != 3 {
		t.Fatalf("held %v, rows %v", held, rows)
	}
	for w, was := range before {
		if changed := rows[w] != was; changed == strings.Contains(w, "10:00") {
			t.Errorf("window %s is %s, was %s", w, rows[w], was)
		}
	}

	// Other windows go on, and the held one stays held.
	l.add("5 7 2026-11-28T13:00:00Z")
	step()
	if held := l.held("hourly"); !slices.Equal(held, []string{"10:00 Conversion Error"}) {
		t.Errorf("held %v", held)
	}
	// A new window that throws has no rows.
	l.add("y 7 2026-11-29T14:00:00Z")
	if rows := step(); len(rows) != 4 || len(l.held("hourly")) != 2 {
		t.Errorf("rows %v, held %v", slices.Collect(maps.Keys(rows)), l.held("hourly"))
	}
	// Everything is computed when the model changes.
	l.restart(model{"hourly", "1h", strings.Replace(throws, "CAST(", "TRY_CAST(", 1)})
	if rows := step(); len(rows) != 5 || len(l.held("hourly")) != 0 {
		t.Errorf("rows %v, held %v", rows, l.held("hourly"))
	}
	l.check(l.Line.Gold[0])
	// And when it throws again, what gold has of these windows stays.
	l.restart(model{"hourly", "1h", throws})
	if rows := step(); len(rows) != 5 || len(l.held("hourly")) != 2 {
		t.Errorf("rows %v, held %v", rows, l.held("hourly"))
	}
}

// A model that throws on each of many windows is broken, and nothing is committed.
func TestBrokenModel(t *testing.T) {
	t.Parallel()
	l := open(t, model{"hourly", "1h", throws})
	var readings []string
	for i := range 120 {
		readings = append(readings, fmt.Sprintf("x 7 2026-11-%02dT%02d:00:00Z", 10+i/24, i%24))
	}
	l.add(readings...)
	if err := l.steps(); !errors.Is(err, smelt.ErrPipeline) || !strings.Contains(err.Error(), "it fails on each of 100 windows, such as 2026-11-10 00:00:00") {
		t.Errorf("got %v", err)
	}
}
