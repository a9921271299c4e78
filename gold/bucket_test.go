package gold_test

import (
	"strings"
	"testing"
)

// TestBucketsAreWindows compares the two ways to write the start of a window, from
// before 1970 to far ahead, at the edges of windows too.
func TestBucketsAreWindows(t *testing.T) {
	t.Parallel()
	l := open(t, model{"daily", "1d", daily})
	diff, err := l.session.Strings(t.Context(), `
		WITH times AS (
			SELECT make_timestamptz(i * 86400000000 * 97 + us) AS ts
			FROM range(-500, 1000) AS d(i), unnest([-1, 0, 1, 59999999, 60000000, 3599999999, 3600000000, 43200000000]) AS e(us))
		SELECT ts::VARCHAR FROM times
		WHERE time_bucket(INTERVAL 1 MINUTE, ts) <> date_trunc('minute', ts)
			OR time_bucket(INTERVAL 1 HOUR, ts) <> date_trunc('hour', ts)
			OR time_bucket(INTERVAL 1 DAY, ts) <> date_trunc('day', ts)
		ORDER BY ts LIMIT 5`)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "times with two windows", diff)
}

// TestBucketsOfModels refreshes models that take their windows with time_bucket.
func TestBucketsOfModels(t *testing.T) {
	t.Parallel()
	const each = " AS hour, city, count(*) AS n FROM silver.p GROUP BY ALL"
	l := open(t,
		model{"minutes", "1m", "SELECT time_bucket(INTERVAL 1 MINUTE, ts)" + each},
		model{"hours", "1h", "SELECT time_bucket(INTERVAL 1 HOUR, ts)" + each},
		model{"days", "1d", "SELECT time_bucket(INTERVAL 1 DAY, ts)" + each},
		model{"weeks", "7d", "SELECT time_bucket(INTERVAL 7 DAY, ts, TIMESTAMPTZ '1970-01-01 00:00:00+00')" + each})
	l.add("Espoo 1 1969-12-31T23:59:59.999999Z", "Espoo 2 2026-11-28T00:00:00Z", "- 3 2026-11-28T10:59:59Z")
	l.refresh()
	l.add("Espoo 4 2026-11-28T11:00:00Z", "Oulu 5 1969-12-31T00:00:00Z")
	if got := l.refresh(); got != 8 {
		t.Errorf("%d windows were recomputed, want two of each model", got)
	}

	l.restart(model{"mondays", "7d", "SELECT time_bucket(INTERVAL 7 DAY, ts)" + each})
	_, err := l.Line.Gold[0].Step(t.Context())
	if err == nil || !strings.Contains(err.Error(), "which is not the start of the window") {
		t.Errorf("weeks from Monday: got %v", err)
	}
}
