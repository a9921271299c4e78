package table_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/internal/table"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01 00:00 UTC
		l := newLake(t)
		tbl := create(t, l, "silver.a", readings())
		if _, err := tbl.Resolve("1h"); !errors.Is(err, smelt.ErrNotFound) || !strings.Contains(err.Error(), "silver.a has no snapshot yet") {
			t.Errorf("a table without snapshots: got %v", err)
		}
		ids := map[string]int64{}
		step := func(name string) {
			time.Sleep(time.Hour)
			tbl = commit(t, tbl, table.Change{})
			ids[name] = head(t, tbl)
		}
		step("s1")
		step("s2")
		step("s3")
		time.Sleep(time.Hour)
		tbl = rollBack(t, tbl, ids["s1"], "") // at 04:00
		step("s4")
		if err := l.Tag(t.Context(), "silver.a", "release", ids["s2"], 0); err != nil {
			t.Fatal(err)
		}
		tbl = load(t, l, "silver.a")
		time.Sleep(time.Hour) // 06:00
		for _, c := range []struct{ at, want string }{
			{fmt.Sprint(ids["s3"]), "s3"},
			{"release", "s2"},
			{"main", "s4"},
			{"2000-01-01 01:00:00", "s1"},
			{"2000-01-01 02:30", "s2"},
			{"2000-01-01T03:59:59.999Z", "s3"}, // rolled back since, but there then
			{"2000-01-01T04:00", "s1"},
			{"2000-01-01T04:59:59", "s1"},
			{"2000-01-01 05:00:00", "s4"},
			{"2000-01-01 04:59:59.999999", "s1"},
			{"2000-01-01T04:30:00+02:00", "s2"},
			{"2000-01-01 02:30:00+00", "s2"},
			{"2000-01-01 02:30:00.5+00", "s2"},
			{"2000-01-01 06:00:00", "s4"},
			{"1h30m", "s1"},
			{"59m", "s4"},
			{"0d", "s4"},
			{"2000-01-01", "no snapshot of 2000-01-01T00:00:00Z, or it has expired: every state of the table is there from 2000-01-01T01:00:00Z on"},
			{"1d", "no snapshot of 1999-12-31T06:00:00Z"},
			{"2000-01-01 06:00:01", "2000-01-01T06:00:01Z is yet to come"},
			{"releas", `did you mean "release"?`},
			{"12345", `no snapshot or tag "12345"`},
			{"-1h", `no snapshot or tag "-1h"`},
			{"70000d", `no snapshot or tag "70000d"`},
			{"2000-13-01", `no snapshot or tag "2000-13-01"`},
			{"", `no snapshot or tag ""`},
		} {
			got, err := tbl.Resolve(c.at)
			id, found := ids[c.want]
			switch {
			case found && (err != nil || got.ID != id):
				t.Errorf("%q: got snapshot of %s, %v, want %s", c.at, got.Time, err, c.want)
			case !found && (!errors.Is(err, smelt.ErrNotFound) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%q: got %v, want ErrNotFound with %q", c.at, err, c.want)
			}
		}
	})
}

// A time whose snapshot has expired is not answered with another one.
func TestResolveWhatHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLake(t)
		tbl := create(t, l, "silver.a", readings())
		ids := map[string]int64{}
		step := func(name string) {
			time.Sleep(time.Minute)
			tbl = commit(t, tbl, table.Change{})
			ids[name] = head(t, tbl)
		}
		step("s1")                            // 00:01
		step("s2")                            // 00:02
		step("lost")                          // 00:03
		tbl = rollBack(t, tbl, ids["s2"], "") //
		step("s3")                            // 00:04
		for range 60 {                        // 00:05 to 01:04
			step("lost too")
		}
		if err := l.Tag(t.Context(), "silver.a", "mine", ids["lost"], 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)                                  // 01:05
		tbl = rollBack(t, load(t, l, "silver.a"), ids["s3"], "") //
		step("s4")                                               // 01:06
		time.Sleep(time.Hour)                                    //
		_, tbl = expire(t, l, "silver.a", table.Retention{})
		for at, want := range map[string]string{
			"2000-01-01 00:00:30": "from 2000-01-01T01:05:00Z on; of before, tags keep mine (2000-01-01T00:03:00Z)",
			"2000-01-01 00:01:30": "s1",
			"2000-01-01 00:02:30": "or it has expired", // either, s2 or lost, for all that is known
			"2000-01-01 00:03:30": "or it has expired",
			"2000-01-01 00:04:30": "or it has expired",
			"2000-01-01 00:50:00": "or it has expired",
			"2000-01-01 01:05:30": "s3",
			"2000-01-01 01:06:30": "s4",
			"mine":                "lost",
		} {
			got, err := tbl.Resolve(at)
			id, found := ids[want]
			switch {
			case found && (err != nil || got.ID != id):
				t.Errorf("%s: got snapshot of %s, %v, want %s", at, got.Time, err, want)
			case !found && (!errors.Is(err, smelt.ErrNotFound) || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: got %v, want ErrNotFound with %q", at, err, want)
			}
		}
	})
}
