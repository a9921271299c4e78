package backfill_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"smelt/backfill"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	w := history(t)
	w.add(`x hel-001 "hot" 2026-11-02T12:00:00Z`)
	objects := w.stored("bronze/")
	heads, stored := w.heads(), w.stored("")
	for _, c := range []struct {
		scope   backfill.Scope
		want    backfill.Plan // of the scope's own figures
		objects []int
		line    string // up to the bytes
	}{
		{
			backfill.Scope{ReferenceChanges: true},
			backfill.Plan{Scope: "--reference-changes", Keys: 1, KeyName: "sensor_id", Records: 2, Files: 2, Windows: hourly(2)}, []int{0, 2},
			"1 sensor · 2 rows · 2 files · 2 windows · 2 bronze objects (",
		},
		{
			day,
			backfill.Plan{Scope: "--from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z", Records: 3, Files: 2, Windows: hourly(2)}, []int{0, 1},
			"3 rows · 2 files · 2 windows · 2 bronze objects (",
		},
		{
			backfill.Scope{Where: "v >= 5"},
			backfill.Plan{Scope: `--where "v >= 5"`, Records: 3, Files: 3, Windows: hourly(3)}, []int{2, 3, 4},
			"3 rows · 3 files · 3 windows · 3 bronze objects (",
		},
		{
			backfill.Scope{Where: "v >= 2", From: day.From, To: at("2026-11-01T11:00:00Z")}, // To is not in it
			backfill.Plan{Scope: `--where "v >= 2" --from 2026-11-01T00:00:00Z --to 2026-11-01T11:00:00Z`, Records: 1, Files: 1, Windows: hourly(1)}, []int{0},
			"1 row · 1 file · 1 window · 1 bronze object (",
		},
		{
			backfill.Scope{All: true},
			backfill.Plan{Scope: "--all", Records: 7, Files: 5, Windows: hourly(5)}, []int{0, 1, 2, 3, 4},
			"7 rows · 5 files · 5 windows · 5 bronze objects (",
		},
		{
			backfill.Scope{Quarantined: true},
			backfill.Plan{Scope: "--quarantined", Records: 1, Windows: hourly(0)}, []int{5},
			"1 record · 1 bronze object (",
		},
		{backfill.Scope{Quarantined: true, Reason: "missing"}, backfill.Plan{Scope: `--quarantined --reason "missing"`, Windows: hourly(0)}, nil, "nothing in scope"},
		{backfill.Scope{From: at("2027-01-01T00:00:00Z")}, backfill.Plan{Scope: "--from 2027-01-01T00:00:00Z", Windows: hourly(0)}, nil, "nothing in scope"},
		{backfill.Scope{Unmatched: true}, backfill.Plan{Scope: "unmatched", Windows: hourly(0)}, nil, "nothing in scope"},
	} {
		want := c.want
		want.Pipeline, want.Objects = "readings", len(c.objects)
		for _, key := range pick(objects, c.objects) {
			o, err := w.objects.Stat(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			want.Bytes += o.Size
		}
		got, err := w.open(w.process(), c.scope).Plan(t.Context())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.scope, got, err, want)
		}
		if line := got.String(); len(line) < len(c.line) || line[:len(c.line)] != c.line {
			t.Errorf("%s: the line is %q, want %q", c.scope, line, c.line)
		}
	}
	if !maps.Equal(w.heads(), heads) || !slices.Equal(w.stored(""), stored) {
		t.Error("to plan has changed something")
	}
}

func hourly(windows int64) []backfill.WindowCount {
	return []backfill.WindowCount{{Table: goldName, Windows: windows}}
}

// A job that has planned runs as planned, with what has come since.
func TestPlanThenRun(t *testing.T) {
	t.Parallel()
	w := history(t)
	job := w.open(w.process(), backfill.Scope{Where: "sensor_id = 'hel-001'"})
	if p, err := job.Plan(t.Context()); err != nil || p.Records != 3 {
		t.Fatalf("got %+v, %v", p, err)
	}
	w.add("h hel-001 8 2026-11-02T13:00:00Z")
	var last backfill.Progress
	r, err := job.Run(t.Context(), func(p backfill.Progress) {
		if p.Records > 0 {
			last = p
		}
	})
	if err != nil || r.Replayed != 4 || r.Differing != 2 || !r.Published || r.Objects != 4 {
		t.Errorf("got %+v, %v", r, err)
	}
	if last.Records != 4 || last.Total != 4 {
		t.Errorf("the last progress is %+v", last)
	}
	w.whole()
}

func TestPlanLine(t *testing.T) {
	t.Parallel()
	windows := []backfill.WindowCount{{Table: "gold.p_hourly", Windows: 4}, {Table: "gold.p_daily", Windows: 1}}
	for _, c := range []struct {
		plan backfill.Plan
		want string
	}{
		{backfill.Plan{Keys: 1, KeyName: "sensor_id", Records: 3412, Files: 2, Windows: windows, Objects: 12, Bytes: 3 << 20}, "1 sensor · 3,412 rows · 2 files · 5 windows · 12 bronze objects (3.0 MiB)"},
		{backfill.Plan{Keys: 1200, KeyName: "sku", Records: 1, Files: 1, Objects: 1, Bytes: 1}, "1,200 skus · 1 row · 1 file · 1 bronze object (1 B)"},
		{backfill.Plan{Records: 1_234_567, Objects: 1000, Bytes: 5 << 29}, "1,234,567 records · 1,000 bronze objects (2.5 GiB)"},
		{backfill.Plan{Records: 999, Files: 1000, Objects: 2, Bytes: 1536}, "999 rows · 1,000 files · 2 bronze objects (1.5 KiB)"},
		{backfill.Plan{Keys: 3, KeyName: "sensor_id", Windows: windows}, "nothing in scope"},
	} {
		if got := c.plan.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
