package postgres_test

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"smelt"
	"smelt/internal/postgres"
)

// follow opens a database whose locations are prepared.
func follow(t *testing.T, d *database, refs []smelt.Reference) *postgres.DB {
	t.Helper()
	db := open(t, d.dsn())
	if err := db.Prepare(t.Context(), refs); err != nil {
		t.Fatal(err)
	}
	return db
}

func version(t *testing.T, db *postgres.DB, refs []smelt.Reference) int64 {
	t.Helper()
	v, err := db.Version(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func load(t *testing.T, db *postgres.DB, refs []smelt.Reference) smelt.ReferenceSet {
	t.Helper()
	set, err := db.Load(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestNoReferences(t *testing.T) {
	t.Parallel()
	db := open(t, setup(t).dsn())
	if err := db.Prepare(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if v := version(t, db, nil); v != 0 {
		t.Errorf("version: got %d, want 0", v)
	}
	if set := load(t, db, nil); set.Version != 0 || len(set.Tables) != 0 {
		t.Errorf("load: got %v", set)
	}
}

func TestEachChangeRaisesTheVersion(t *testing.T) {
	t.Parallel()
	changes := []string{
		`INSERT INTO locations VALUES ('sto-001', 'Stockholm')`,
		`UPDATE locations SET city = 'Helsinki' WHERE sensor_id = 'hel-001'`,
		`DELETE FROM locations WHERE sensor_id = 'nyc-001'`,
		`TRUNCATE locations`,
		`BEGIN; INSERT INTO locations VALUES ('a', 'a'); INSERT INTO locations VALUES ('b', 'b'); COMMIT`,
		`ALTER TABLE locations ADD COLUMN country text DEFAULT 'Finland'`,
		`ALTER TABLE locations ALTER COLUMN city TYPE text USING upper(city)`,
		`ALTER TABLE locations DISABLE TRIGGER USER`, // from here on by content
		`UPDATE locations SET city = 'X'`,
		`ALTER TABLE locations ENABLE TRIGGER USER`,
		`DROP TABLE locations; CREATE TABLE locations (sensor_id text, city text); INSERT INTO locations VALUES ('c', 'c')`,
		`INSERT INTO locations VALUES ('d', 'd')`,
	}
	for _, followed := range []bool{true, false} {
		t.Run(fmt.Sprintf("followed=%t", followed), func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			mustExec(t, d.admin, createLocations)
			db := follow(t, d, locations())
			if !followed {
				mustExec(t, d.admin, `DROP TRIGGER smelt_reference ON locations`)
			}
			last := version(t, db, locations())
			for _, change := range changes {
				if !followed && strings.Contains(change, "TRIGGER") {
					continue
				}
				mustExec(t, d.admin, change)
				v := version(t, db, locations())
				if v <= last {
					t.Errorf("%s: version %d after %d", change, v, last)
				}
				if again := version(t, db, locations()); again != v {
					t.Errorf("%s: version %d, then %d with no change", change, v, again)
				}
				if set := load(t, db, locations()); set.Version != v {
					t.Errorf("%s: loaded version %d, want %d", change, set.Version, v)
				}
				last = v
			}
		})
	}
}

func TestATransactionRaisesTheVersionOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	db := follow(t, d, locations())
	before := version(t, db, locations())
	mustExec(t, d.admin, `BEGIN`)
	for i := range 100 {
		mustExec(t, d.admin, `INSERT INTO locations VALUES ($1, 'x')`, fmt.Sprint(i))
	}
	mustExec(t, d.admin, `COMMIT`)
	if got := version(t, db, locations()); got != before+1 {
		t.Errorf("got version %d after %d, want one more", got, before)
	}
}

func TestVersionsAreInCommitOrder(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations+`; CREATE TABLE units (unit text PRIMARY KEY)`)
	refs := append(locations(), smelt.Reference{Name: "units", Table: "public.units", Key: "unit"})
	db := follow(t, d, refs)
	before := version(t, db, refs)

	first, second := connect(t, d.dsn()), connect(t, d.dsn())
	mustExec(t, first, `BEGIN; INSERT INTO locations VALUES ('sto-001', 'Stockholm')`)
	done := make(chan error, 1)
	go func() {
		_, err := second.Exec(t.Context(), `INSERT INTO units VALUES ('C')`)
		done <- err
	}()
	awaitWaiter(t, d) // the second waits until the first has ended
	if v := version(t, db, refs); v != before {
		t.Errorf("version %d before any commit, want %d", v, before)
	}
	mustExec(t, first, `COMMIT`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	one, two := version(t, db, refs[:1]), version(t, db, refs[1:])
	if one != before+1 || two != before+2 {
		t.Errorf("got versions %d and %d after %d", one, two, before)
	}
	set := load(t, db, refs)
	if set.Version != two || len(set.Tables) != 2 || len(set.Tables[0].Rows) != 3 || len(set.Tables[1].Rows) != 1 {
		t.Errorf("load: got %v", set)
	}
}

// awaitWaiter returns once a session of the database waits for a lock.
func awaitWaiter(t *testing.T, d *database) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for waiting := false; !waiting; {
		if time.Now().After(deadline) {
			t.Fatal("no session waits for a lock")
		}
		err := d.admin.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A TRUNCATE empties a table for older snapshots too.
func TestLoadDuringTruncate(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	db := follow(t, d, locations())
	before := version(t, db, locations())

	other := connect(t, d.dsn())
	mustExec(t, other, `BEGIN; TRUNCATE locations; INSERT INTO locations VALUES ('sto-001', 'Stockholm')`)
	loaded := make(chan smelt.ReferenceSet, 1)
	go func() {
		set, err := db.Load(t.Context(), locations())
		if err != nil {
			t.Error(err)
		}
		loaded <- set
	}()
	awaitWaiter(t, d)
	mustExec(t, other, `COMMIT`)
	set := <-loaded
	if set.Version <= before || len(set.Tables) != 1 || len(set.Tables[0].Rows) != 1 {
		t.Errorf("got %v, want a version above %d and one row", set, before)
	}
}

// Two tables that always change together are never seen apart.
func TestLoadIsOneInstant(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, `
CREATE TABLE a (k text PRIMARY KEY, n bigint); INSERT INTO a VALUES ('k', 0);
CREATE TABLE b (k text PRIMARY KEY, n bigint); INSERT INTO b VALUES ('k', 0)`)
	refs := []smelt.Reference{{Name: "a", Table: "public.a", Key: "k"}, {Name: "b", Table: "public.b", Key: "k"}}
	db := follow(t, d, refs)

	const changes = 200
	writer := connect(t, d.dsn())
	done := make(chan error, 1)
	go func() {
		for range changes {
			if _, err := writer.Exec(t.Context(), `BEGIN; UPDATE a SET n = n + 1; UPDATE b SET n = n + 1; COMMIT`); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	numbers := map[int64]int64{} // by version
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
		set := load(t, db, refs)
		a, b := set.Tables[0].Rows[0][1].(int64), set.Tables[1].Rows[0][1].(int64)
		if a != b {
			t.Fatalf("a is at %d, b at %d", a, b)
		}
		if n, ok := numbers[set.Version]; ok && n != a {
			t.Fatalf("version %d is both %d and %d", set.Version, n, a)
		}
		numbers[set.Version] = a
	}
}

func TestWithoutTheRightTrigger(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations+`; ALTER TABLE locations ADD COLUMN secret text`)
	role, dsn := d.role(t)
	mustExec(t, d.admin, `GRANT SELECT (sensor_id, city) ON locations TO `+role)
	db := open(t, dsn)
	var log strings.Builder
	db.Log = slog.New(slog.NewTextHandler(&log, nil))

	err := db.Prepare(t.Context(), locations())
	if !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), "CREATE SCHEMA smelt AUTHORIZATION") || strings.Contains(err.Error(), server.password) {
		t.Errorf("prepare without a schema: got %v", err)
	}
	mustExec(t, d.admin, `CREATE SCHEMA smelt AUTHORIZATION `+role)
	if err := db.Prepare(t.Context(), locations()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "level=INFO") || !strings.Contains(log.String(), "lacks the right TRIGGER") {
		t.Errorf("log: got %q", log.String())
	}
	before := load(t, db, locations())
	if len(before.Tables[0].Columns) != 2 || len(before.Tables[0].Rows) != 2 {
		t.Errorf("load: got %v", before)
	}
	mustExec(t, d.admin, `UPDATE locations SET city = 'Helsinki' WHERE sensor_id = 'hel-001'`)
	after := load(t, db, locations())
	if after.Version <= before.Version || version(t, db, locations()) != after.Version {
		t.Errorf("got version %d after %d", after.Version, before.Version)
	}

	// With the right there is a trigger from now on, which needs no rights of who writes.
	mustExec(t, d.admin, `GRANT TRIGGER ON locations TO `+role)
	if err := db.Prepare(t.Context(), locations()); err != nil {
		t.Fatal(err)
	}
	writer := "writer_of_" + d.name
	mustExec(t, d.admin, fmt.Sprintf(`CREATE ROLE %s; GRANT INSERT ON locations TO %[1]s`, writer))
	last := version(t, db, locations())
	mustExec(t, d.admin, fmt.Sprintf(`SET ROLE %s; INSERT INTO locations VALUES ('sto-001', 'Stockholm'); RESET ROLE`, writer))
	if v := version(t, db, locations()); v != last+1 {
		t.Errorf("got version %d after %d", v, last)
	}
}

// Relations on which a statement trigger would miss changes are compared by content.
func TestRelationsThatFireNoTrigger(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, `
CREATE TABLE base (k text, n int); INSERT INTO base VALUES ('x', 1);
CREATE VIEW a_view AS SELECT * FROM base;
CREATE TABLE parted (k text, n int) PARTITION BY LIST (k);
CREATE TABLE parted_x PARTITION OF parted FOR VALUES IN ('x');
INSERT INTO parted VALUES ('x', 1)`)
	tests := []struct{ table, change string }{
		{"public.a_view", `UPDATE base SET n = n + 1`},
		{"public.parted", `UPDATE parted_x SET n = n + 1`},
		{"public.parted_x", `UPDATE parted SET n = n + 1`},
	}
	for _, test := range tests {
		refs := []smelt.Reference{{Name: "r", Table: test.table, Key: "k"}}
		db := follow(t, d, refs)
		before := version(t, db, refs)
		mustExec(t, d.admin, test.change)
		if v := version(t, db, refs); v <= before {
			t.Errorf("%s: version %d after %d", test.table, v, before)
		}
	}
}

func TestPrepareRaces(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	var group sync.WaitGroup
	for range 8 {
		db := open(t, d.dsn())
		group.Go(func() {
			if err := db.Prepare(t.Context(), locations()); err != nil {
				t.Error(err)
			}
			if _, err := db.Load(t.Context(), locations()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestReferenceFaults(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations+`;
CREATE TABLE twice (sensor_id text, city text);
INSERT INTO twice VALUES ('hel-001', 'Espoo'), (NULL, 'a'), (NULL, 'b'), ('hel-001', 'Helsinki')`)
	db := follow(t, d, locations())
	tests := []struct {
		name, table, key string
		want             []string
	}{
		{"no table", "public.locatoins", "sensor_id", []string{"locatoins", "did you mean public.locations?"}},
		{"no schema", "publik.locations", "sensor_id", []string{"publik.locations", "did you mean public.locations?"}},
		{"nothing near", "public.zzzzzzzz", "sensor_id", []string{"no table public.zzzzzzzz"}},
		{"no name", "public..locations", "sensor_id", []string{"not schema.table"}},
		{"other database", "a.public.locations", "sensor_id", []string{"not schema.table"}},
		{"no key", "public.locations", "sensorid", []string{"no column sensorid", "did you mean sensor_id?"}},
		{"two rows", "public.twice", "sensor_id", []string{"public.twice", "sensor_id", `"hel-001"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			refs := []smelt.Reference{{Name: "places", Table: test.table, Key: test.key}}
			_, err := db.Load(t.Context(), refs)
			if !errors.Is(err, smelt.ErrPipeline) {
				t.Fatalf("got %v, want an ErrPipeline", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestTypes(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, `
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN percent AS numeric(5,2) CHECK (VALUE >= 0);`)
	instant := time.Date(2026, 11, 29, 15, 4, 5, 123456000, time.UTC)
	day := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	lastDay := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	first := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		declared, literal, duck string
		want                    any
	}{
		{"boolean", "true", "boolean", true},
		{"smallint", "-7", "bigint", int64(-7)},
		{"integer", "7", "bigint", int64(7)},
		{"bigint", "9223372036854775807", "bigint", int64(9223372036854775807)},
		{"real", "1.5", "double", 1.5},
		{"double precision", "0.1", "double", 0.1},
		{"numeric(10,2)", "12345678.90", "decimal(10,2)", "12345678.90"},
		{"numeric(10,2)", "'NaN'", "decimal(10,2)", nil},
		{"numeric(5)", "12345", "decimal(5,0)", "12345"},
		{"numeric(38,10)", "1.5", "decimal(38,10)", "1.5000000000"},
		{"numeric(40,2)", "1.5", "varchar", "1.50"},
		{"numeric(3,-2)", "12345", "varchar", "12300"},
		{"numeric", "1.23456789012345678901234567890", "varchar", "1.23456789012345678901234567890"},
		{"percent", "12.5", "decimal(5,2)", "12.50"},
		{"text", "'ä'", "varchar", "ä"},
		{"varchar(9)", "'a'", "varchar", "a"},
		{"char(3)", "'a'", "varchar", "a"},
		{"date", "'2026-11-29'", "date", day},
		{"date", "'infinity'", "date", lastDay},
		{"timestamp", "'2026-11-29 15:04:05.123456'", "timestamp", instant},
		{"timestamp", "'-infinity'", "timestamp", first},
		{"timestamptz", "'2026-11-29 17:04:05.123456+02'", "timestamptz", instant},
		{"timestamptz", "'infinity'", "timestamptz", time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
		{"timestamptz(0)", "'-infinity'", "timestamptz", first},
		{"uuid", "'6f0d8b57-7b32-4a3f-a3b1-7dbb1f0b8c11'", "varchar", "6f0d8b57-7b32-4a3f-a3b1-7dbb1f0b8c11"},
		{"jsonb", `'{"a": 1}'`, "varchar", `{"a": 1}`},
		{"mood", "'happy'", "varchar", "happy"},
		{"int[]", "'{1,2}'", "varchar", "{1,2}"},
		{"interval", "'1 day'", "varchar", "P1D"},
		{"time", "'15:04'", "varchar", "15:04:00"},
		{"text", "NULL", "varchar", nil},
	}
	var columns, literals []string
	wantColumns := []smelt.Column{{Name: "k", Type: smelt.Type{Name: "varchar"}, NotNull: true}}
	want := []any{"key"}
	for i, test := range tests {
		columns = append(columns, fmt.Sprintf(`"C %d%%" %s`, i, test.declared))
		literals = append(literals, test.literal)
		wantColumns = append(wantColumns, smelt.Column{Name: fmt.Sprintf("C %d%%", i), Type: smelt.Type{Name: test.duck}})
		want = append(want, test.want)
	}
	mustExec(t, d.admin, fmt.Sprintf(`CREATE TABLE "Types" (k text PRIMARY KEY, %s); INSERT INTO "Types" VALUES ('key', %s)`,
		strings.Join(columns, ", "), strings.Join(literals, ", ")))
	refs := []smelt.Reference{{Name: "types", Table: `public."Types"`, Key: "k"}}
	got := load(t, follow(t, d, refs), refs).Tables[0]
	if !reflect.DeepEqual(got.Reference, refs[0]) || !reflect.DeepEqual(got.Columns, wantColumns) {
		t.Errorf("columns: got %v, want %v", got.Columns, wantColumns)
	}
	if len(got.Rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(got.Rows))
	}
	for i := range want {
		if !reflect.DeepEqual(got.Rows[0][i], want[i]) {
			t.Errorf("%s: got %#v, want %#v", columns[max(i-1, 0)], got.Rows[0][i], want[i])
		}
	}
}

func TestTooManyRows(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, `CREATE VIEW many AS SELECT i AS k FROM generate_series(1, 5000001) AS i`)
	refs := []smelt.Reference{{Name: "many", Table: "public.many", Key: "k"}}
	_, err := follow(t, d, refs).Load(t.Context(), refs)
	if !errors.Is(err, smelt.ErrPipeline) || !strings.Contains(err.Error(), "more than 5000000 rows") {
		t.Errorf("got %v", err)
	}
}

// A long transaction must not block set-up without limit, nor hide the cause.
func TestPrepareWhileTheTableIsHeld(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	other := connect(t, d.dsn())
	mustExec(t, other, `BEGIN; UPDATE locations SET city = 'x'`)
	err := open(t, d.dsn()).Prepare(t.Context(), locations())
	if !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), "another transaction holds") {
		t.Errorf("got %v", err)
	}
	mustExec(t, other, `ROLLBACK`)
}
