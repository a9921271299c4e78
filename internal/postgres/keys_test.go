package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"smelt"
)

// toTrigger does something to the trigger that logs the keys of updated rows.
func toTrigger(statement string) string {
	return fmt.Sprintf(`DO $$ BEGIN EXECUTE (SELECT format('%s', tgname) FROM pg_trigger WHERE tgname LIKE 'smelt_key_%%_update'); END $$`, statement)
}

// Any change that bypasses the log counts for the whole table, and blocks nothing.
func TestChangesBehindTheLog(t *testing.T) {
	t.Parallel()
	const update = `; UPDATE locations SET city = city || '!' WHERE sensor_id = 'hel-001'`
	tests := []struct {
		name, change string
		after        []string // what is told of a further change; nil: the whole table
		prepared     []string // and of one after Prepare
	}{
		{"user triggers off", `ALTER TABLE locations DISABLE TRIGGER USER` + update, nil, nil},
		{"user triggers off and on", `ALTER TABLE locations DISABLE TRIGGER USER` + update + `; ALTER TABLE locations ENABLE TRIGGER USER`, nil, []string{"hel-001"}},
		{"key trigger off", toTrigger(`ALTER TABLE locations DISABLE TRIGGER %I`) + update, nil, nil},
		{"key trigger dropped", toTrigger(`DROP TRIGGER %I ON locations`) + update, nil, []string{"hel-001"}},
		{"version trigger dropped", `DROP TRIGGER smelt_reference ON locations` + update, nil, []string{"hel-001"}},
		{"key renamed there and back", `ALTER TABLE locations RENAME sensor_id TO id; UPDATE locations SET city = 'x' WHERE id = 'hel-001'; ALTER TABLE locations RENAME id TO sensor_id`, []string{"hel-001"}, []string{"hel-001"}},
		{"made anew", `DROP TABLE locations;` + createLocations, nil, []string{"hel-001"}},
		{"a parent", `CREATE TABLE more () INHERITS (locations)` + update, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			mustExec(t, d.admin, createLocations)
			db := follow(t, d, locations())
			since := version(t, db, locations())
			mustExec(t, d.admin, test.change)
			since = expect(t, db, locations(), since, "the change", nil)
			mustExec(t, d.admin, strings.TrimPrefix(update, ";"))
			expect(t, db, locations(), since, "a further change", test.after)
			follow(t, d, locations())
			since = version(t, db, locations())
			mustExec(t, d.admin, strings.TrimPrefix(update, ";"))
			expect(t, db, locations(), since, "a change after it is prepared anew", test.prepared)
		})
	}
}

func TestChangesWithoutTheRightTrigger(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	role, dsn := d.role(t)
	mustExec(t, d.admin, fmt.Sprintf(`CREATE SCHEMA smelt AUTHORIZATION %s; GRANT SELECT ON locations TO %[1]s`, role))
	db := open(t, dsn)
	prepare := func() {
		t.Helper()
		if err := db.Prepare(t.Context(), locations()); err != nil {
			t.Fatal(err)
		}
	}
	const update = `UPDATE locations SET city = city || '!' WHERE sensor_id = 'hel-001'`
	prepare()
	since := version(t, db, locations())
	mustExec(t, d.admin, update)
	since = expect(t, db, locations(), since, "without the right", nil)
	mustExec(t, d.admin, `GRANT TRIGGER ON locations TO `+role)
	prepare()
	since = expect(t, db, locations(), since, "with triggers", nil)

	// Who writes needs no right on the log.
	writer := "writer_of_" + d.name
	mustExec(t, d.admin, fmt.Sprintf(`CREATE ROLE %s; GRANT SELECT, UPDATE ON locations TO %[1]s`, writer))
	mustExec(t, d.admin, fmt.Sprintf(`SET ROLE %s; %s; RESET ROLE`, writer, update))
	expect(t, db, locations(), since, "by another role", []string{"hel-001"})
}

// A database that an earlier smelt has prepared is brought up, by its owner.
func TestPrepareBringsAnEarlierSchemaUp(t *testing.T) {
	t.Parallel()
	d := setup(t)
	earlier, err := os.ReadFile("testdata/earlier.sql")
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, d.admin, string(earlier)+createLocations)
	mustExec(t, d.admin, `
CREATE TRIGGER smelt_reference BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON locations
FOR EACH STATEMENT EXECUTE FUNCTION smelt.reference_changed();
UPDATE locations SET city = 'x' WHERE sensor_id = 'hel-001'`)
	var before int64
	if err := d.admin.QueryRow(t.Context(), `SELECT version FROM smelt.reference_tables`).Scan(&before); err != nil {
		t.Fatal(err)
	}
	role, dsn := d.role(t)
	mustExec(t, d.admin, fmt.Sprintf(`GRANT USAGE ON SCHEMA smelt TO %s; GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA smelt TO %[1]s;
GRANT SELECT ON locations TO %[1]s`, role))
	other := open(t, dsn)
	if err := other.Prepare(t.Context(), locations()); !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), "as their owner, postgres") {
		t.Errorf("prepare by another role: got %v", err)
	}
	if _, err := other.Changes(t.Context(), locations(), 0); !errors.Is(err, smelt.ErrDatabase) || !strings.Contains(err.Error(), "start the pipeline") {
		t.Errorf("changes before it is prepared: got %v", err)
	}

	db := open(t, d.dsn())
	for range 2 {
		if err := db.Prepare(t.Context(), locations()); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, db, locations(), before-1, "before the log", nil)
	since := version(t, db, locations())
	mustExec(t, d.admin, `UPDATE locations SET city = 'y' WHERE sensor_id = 'hel-001'`)
	since = expect(t, db, locations(), since, "after", []string{"hel-001"})
	mustExec(t, d.admin, `TRUNCATE locations`)
	expect(t, db, locations(), since, "truncated", nil)

	mustExec(t, d.admin, fmt.Sprintf(`GRANT SELECT ON ALL TABLES IN SCHEMA smelt TO %s`, role))
	if err := other.Prepare(t.Context(), locations()); err != nil {
		t.Errorf("prepare by another role, once it is up: %v", err)
	}
	version(t, other, locations())
	changes(t, other, locations(), 0)
}

// No change is between the log and what was before it.
func TestTheLogBeginsWhileOthersWrite(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	db := follow(t, d, locations())
	writer := connect(t, d.dsn())
	done := make(chan error, 1)
	go func() {
		for i := range 300 {
			if _, err := writer.Exec(t.Context(), `UPDATE locations SET city = $1 WHERE sensor_id = $2`, fmt.Sprint(i), []string{"hel-001", "nyc-001"}[i%2]); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
		before := load(t, db, locations())
		mustExec(t, d.admin, toTrigger(`DROP TRIGGER %I ON locations`))
		follow(t, d, locations())
		after := load(t, db, locations())
		told(t, before, after, changes(t, db, locations(), before.Version)[0])
	}
}

// told checks that changes include each row that differs between two loads.
func told(t *testing.T, before, after smelt.ReferenceSet, changes smelt.ReferenceChanges) {
	t.Helper()
	rows := map[string]string{}
	for _, row := range before.Tables[0].Rows {
		rows[row[0].(string)] = fmt.Sprint(row)
	}
	for _, row := range after.Tables[0].Rows {
		if key := row[0].(string); rows[key] == fmt.Sprint(row) {
			delete(rows, key)
		} else {
			rows[key] = fmt.Sprint(row)
		}
	}
	for key := range rows {
		if changes.Whole <= before.Version && changes.Keys[key] <= before.Version {
			t.Errorf("%s differs between versions %d and %d, of which %v does not tell", key, before.Version, after.Version, changes)
		}
	}
}

func TestTwoWritersOfTheSameKeys(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	db := follow(t, d, locations())
	since := version(t, db, locations())
	first, second := connect(t, d.dsn()), connect(t, d.dsn())
	mustExec(t, first, `BEGIN; UPDATE locations SET city = 'first' WHERE sensor_id = 'hel-001'`)
	done := make(chan error, 1)
	go func() {
		_, err := second.Exec(t.Context(), `BEGIN; UPDATE locations SET city = 'second' WHERE sensor_id = 'nyc-001'; UPDATE locations SET city = 'second' WHERE sensor_id = 'hel-001'; COMMIT`)
		done <- err
	}()
	awaitWaiter(t, d)
	mustExec(t, first, `UPDATE locations SET city = 'first' WHERE sensor_id = 'nyc-001'`)
	expect(t, db, locations(), since, "before a commit", []string{})
	mustExec(t, first, `INSERT INTO locations VALUES ('sto-001', 'first'); COMMIT`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"hel-001": since + 2, "nyc-001": since + 2, "sto-001": since + 1}
	if got := changes(t, db, locations(), since)[0]; got.Whole != 0 || !reflect.DeepEqual(got.Keys, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A log that is too long counts as a change to all rows, and loses its oldest keys at the next preparation.
func TestTooManyKeys(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	db := follow(t, d, locations())
	since := version(t, db, locations())
	mustExec(t, d.admin, `ALTER TABLE smelt.reference_keys DROP CONSTRAINT reference_keys_pkey, SET UNLOGGED`) // for speed
	mustExec(t, d.admin, `INSERT INTO smelt.reference_keys SELECT 'public.locations', 'sensor_id', i, $1 FROM generate_series(1, 1000000) AS i`, since+2)
	mustExec(t, d.admin, `INSERT INTO smelt.reference_keys VALUES ('public.locations', 'sensor_id', 'old', $1)`, since+1)
	mustExec(t, d.admin, `UPDATE smelt.reference_tables SET version = $1`, since+2)
	expect(t, db, locations(), since, "too many", nil)
	follow(t, d, locations())
	var begins, kept int64
	err := d.admin.QueryRow(t.Context(), `SELECT since_version, (SELECT count(*) FROM smelt.reference_keys) FROM smelt.reference_logs`).Scan(&begins, &kept)
	if err != nil || begins != since+1 || kept != 1_000_000 {
		t.Errorf("prepared anew: got %d keys since %d, %v, want 1000000 since %d", kept, begins, err, since+1)
	}
}
