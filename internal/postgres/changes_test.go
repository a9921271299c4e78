package postgres_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"smelt"
	"smelt/internal/postgres"
)

func changes(t *testing.T, db *postgres.DB, refs []smelt.Reference, since int64) []smelt.ReferenceChanges {
	t.Helper()
	all, err := db.Changes(t.Context(), refs, since)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		if len(all) != len(refs) || c.Reference != refs[i] || c.Keys == nil {
			t.Fatalf("changes of %v: got %v", refs, all)
		}
	}
	return all
}

// expect checks what has changed after a version: each of keys, by a later one,
// or with nil keys the whole table. It returns the version now.
func expect(t *testing.T, db *postgres.DB, refs []smelt.Reference, since int64, what string, keys []string) int64 {
	t.Helper()
	now := version(t, db, refs)
	got := changes(t, db, refs, since)[0]
	if keys == nil {
		if got.Whole <= since || got.Whole > now || len(got.Keys) != 0 {
			t.Errorf("%s: got %v since %d, want the whole table", what, got, since)
		}
		return now
	}
	if got.Whole != 0 || !slices.Equal(slices.Sorted(maps.Keys(got.Keys)), slices.Sorted(slices.Values(keys))) {
		t.Errorf("%s: got %v, want %q", what, got, keys)
	}
	for key, version := range got.Keys {
		if version <= since || version > now {
			t.Errorf("%s: %q has version %d, want one from %d to %d", what, key, version, since+1, now)
		}
	}
	return now
}

func TestChangedKeys(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, `
CREATE TABLE public.locations (sensor_id text PRIMARY KEY, city text, r json, key text);
INSERT INTO public.locations VALUES ('hel-001', 'Espoo', '{"a":1}'), ('nyc-001', 'New York', NULL), ('ber-001', NULL, NULL);
CREATE TABLE countries (name text PRIMARY KEY); INSERT INTO countries VALUES ('fi'), ('us');
CREATE TABLE placed (country text REFERENCES countries ON UPDATE CASCADE ON DELETE CASCADE, k text PRIMARY KEY);
INSERT INTO placed VALUES ('fi', 'hel'), ('fi', 'esp'), ('us', 'nyc');
CREATE TABLE twice (k text); INSERT INTO twice VALUES ('a'), ('a')`)
	placed := []smelt.Reference{{Name: "placed", Table: "public.placed", Key: "k"}}
	twice := []smelt.Reference{{Name: "twice", Table: "public.twice", Key: "k"}}
	tests := []struct {
		change string
		refs   []smelt.Reference
		want   []string
	}{
		{`INSERT INTO locations VALUES ('sto-001', 'Stockholm'), ('cph-001', 'Copenhagen')`, locations(), []string{"sto-001", "cph-001"}},
		{`UPDATE locations SET city = 'Helsinki' WHERE sensor_id = 'hel-001'`, locations(), []string{"hel-001"}},
		{`UPDATE locations SET city = ''`, locations(), []string{"hel-001", "nyc-001", "ber-001", "sto-001", "cph-001"}},
		{`UPDATE locations SET city = ''`, locations(), []string{}},
		{`UPDATE locations SET r = '{"a": 1}' WHERE city = '' AND sensor_id = 'hel-001'`, locations(), []string{"hel-001"}},
		{`UPDATE locations SET city = CASE sensor_id WHEN 'ber-001' THEN 'Berlin' ELSE city END`, locations(), []string{"ber-001"}},
		{`UPDATE locations SET city = 'x' WHERE sensor_id = 'nowhere'`, locations(), []string{}},
		{`UPDATE locations SET sensor_id = 'arn-001' WHERE sensor_id = 'sto-001'`, locations(), []string{"sto-001", "arn-001"}},
		{`DELETE FROM locations WHERE sensor_id IN ('arn-001', 'nowhere')`, locations(), []string{"arn-001"}},
		{`INSERT INTO locations VALUES ('lon-001', 'London'), ('nyc-001', 'Newark'), ('ber-001', 'Berlin')
			ON CONFLICT (sensor_id) DO UPDATE SET city = EXCLUDED.city`, locations(), []string{"lon-001", "nyc-001"}},
		{`INSERT INTO locations VALUES ('lon-001', 'x'), ('par-001', 'Paris') ON CONFLICT DO NOTHING`, locations(), []string{"par-001"}},
		{`WITH gone AS (DELETE FROM locations WHERE sensor_id = 'par-001' RETURNING *)
			INSERT INTO locations SELECT 'cdg-001', city FROM gone`, locations(), []string{"par-001", "cdg-001"}},
		{`BEGIN; INSERT INTO locations VALUES ('a'); UPDATE locations SET city = 'b' WHERE sensor_id = 'a';
			DELETE FROM locations WHERE sensor_id = 'a'; UPDATE locations SET city = 'c' WHERE sensor_id = 'cdg-001'; COMMIT`, locations(), []string{"a", "cdg-001"}},
		{`BEGIN; INSERT INTO locations VALUES ('b'); ROLLBACK`, locations(), []string{}},
		{`BEGIN; SAVEPOINT s; INSERT INTO locations VALUES ('b'); ROLLBACK TO s; INSERT INTO locations VALUES ('c'); COMMIT`, locations(), []string{"c"}},
		{`BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO locations VALUES ('d'); COMMIT`, locations(), []string{"d"}},
		{`INSERT INTO locations SELECT 'many-' || i FROM generate_series(1, 3) AS i`, locations(), []string{"many-1", "many-2", "many-3"}},
		{`SELECT 1`, locations(), []string{}},
		{`UPDATE countries SET name = 'FI' WHERE name = 'fi'`, placed, []string{"hel", "esp"}},
		{`DELETE FROM countries WHERE name = 'us'`, placed, []string{"nyc"}},
		{`UPDATE twice SET k = 'b'`, twice, []string{"a", "b"}},
		{`TRUNCATE locations`, locations(), nil},
		{`BEGIN; TRUNCATE locations; INSERT INTO locations VALUES ('x'); COMMIT`, locations(), nil},
		{`INSERT INTO locations VALUES ('y')`, locations(), []string{"y"}},
		{`ALTER TABLE locations ADD COLUMN note text`, locations(), nil},
		{`UPDATE locations SET note = 'z' WHERE sensor_id = 'y'`, locations(), []string{"y"}},
	}
	db := follow(t, d, slices.Concat(locations(), placed, twice))
	for _, test := range tests {
		since := version(t, db, test.refs)
		mustExec(t, d.admin, test.change)
		now := expect(t, db, test.refs, since, test.change, test.want)
		if c := changes(t, db, test.refs, now)[0]; c.Whole != 0 || len(c.Keys) != 0 {
			t.Errorf("%s: since the version now, got %v", test.change, c)
		}
	}

	since := version(t, db, locations())
	rows := [][]any{{"copied-1", "x"}, {"copied-2", "y"}}
	if _, err := d.admin.CopyFrom(t.Context(), pgx.Identifier{"locations"}, []string{"sensor_id", "city"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
	expect(t, db, locations(), since, "COPY", []string{"copied-1", "copied-2"})
}

// Of several changes to a row the last one counts, and a key is kept once.
func TestTheLastChangeOfAKeyCounts(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	db := follow(t, d, locations())
	start := version(t, db, locations())
	for i, sensor := range []string{"hel-001", "nyc-001", "hel-001"} {
		mustExec(t, d.admin, `UPDATE locations SET city = $1 WHERE sensor_id = $2`, fmt.Sprint(i), sensor)
	}
	for since, want := range []map[string]int64{
		{"hel-001": start + 3, "nyc-001": start + 2},
		{"hel-001": start + 3, "nyc-001": start + 2},
		{"hel-001": start + 3},
		{},
	} {
		if got := changes(t, db, locations(), start+int64(since))[0]; got.Whole != 0 || !reflect.DeepEqual(got.Keys, want) {
			t.Errorf("since %d: got %v, want %v", since, got, want)
		}
	}
	if got := changes(t, db, locations(), 0)[0]; got.Whole != start || len(got.Keys) != 2 {
		t.Errorf("since ever: got %v, want the whole table by version %d and two keys", got, start)
	}
	mustExec(t, d.admin, `BEGIN; TRUNCATE locations; INSERT INTO locations VALUES ('new-1', 'x'), ('new-2', 'x'); COMMIT`) // any row counts as changed
	var kept int
	if err := d.admin.QueryRow(t.Context(), `SELECT count(*) FROM smelt.reference_keys`).Scan(&kept); err != nil || kept != 2 {
		t.Errorf("got %d rows, %v, want one a key", kept, err)
	}
}

func TestTwoKeysOfOneTable(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations)
	byCity := []smelt.Reference{{Name: "cities", Table: "locations", Key: "city"}}
	db := follow(t, d, append(locations(), byCity...))
	for _, test := range []struct {
		change        string
		sensors, city []string
	}{
		{`UPDATE locations SET city = 'Helsinki' WHERE sensor_id = 'hel-001'`, []string{"hel-001"}, []string{"Espoo", "Helsinki"}},
		{`UPDATE locations SET sensor_id = 'hel-002' WHERE sensor_id = 'hel-001'`, []string{"hel-001", "hel-002"}, []string{"Helsinki"}},
		{`INSERT INTO locations VALUES ('ber-001', NULL)`, []string{"ber-001"}, []string{}},
		{`UPDATE locations SET city = 'Berlin' WHERE sensor_id = 'ber-001'`, []string{"ber-001"}, []string{"Berlin"}},
		{`INSERT INTO locations VALUES ('a', 'same'), ('b', 'same')`, []string{"a", "b"}, []string{"same"}},
		{`UPDATE locations SET city = 'other' WHERE city = 'same'`, []string{"a", "b"}, []string{"same", "other"}},
		{`DELETE FROM locations WHERE city = 'other'`, []string{"a", "b"}, []string{"other"}},
	} {
		since := version(t, db, locations())
		mustExec(t, d.admin, test.change)
		expect(t, db, locations(), since, test.change, test.sensors)
		expect(t, db, byCity, since, test.change, test.city)
	}
	// A third one starts later, and does not change the others' logs.
	since := version(t, db, locations())
	mustExec(t, d.admin, `ALTER TABLE locations ADD COLUMN zip text; UPDATE locations SET zip = '00100' WHERE sensor_id = 'hel-002'`)
	byZip := []smelt.Reference{{Name: "zips", Table: "locations", Key: "zip"}}
	before := expect(t, db, locations(), since, "a new column", nil)
	mustExec(t, d.admin, `UPDATE locations SET zip = '00200' WHERE sensor_id = 'hel-002'`)
	follow(t, d, byZip)
	expect(t, db, locations(), before, "another log", []string{"hel-002"})
	now := expect(t, db, byZip, before, "before its log", nil)
	expect(t, db, byZip, now, "at its log's beginning", []string{})
}

// Keys are those of ::text, whatever the writer's settings, and without functions of other owners' types.
func TestKeysAsText(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, `
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN flag AS boolean;
CREATE DOMAIN nested AS flag CHECK (VALUE IS NOT NULL);
CREATE TYPE pair AS (a int, b text);
CREATE FUNCTION spoof(pair) RETURNS text LANGUAGE sql AS $$SELECT session_user || current_user$$;
CREATE CAST (pair AS text) WITH FUNCTION spoof(pair) AS IMPLICIT;
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SET timezone = 'America/New_York'; SET datestyle = 'German'; SET intervalstyle = 'sql_standard';
SET extra_float_digits = -9; SET bytea_output = 'escape'`)
	tests := []struct {
		declared, literal string
		want              []string
	}{
		{"text", `'ä "1\\'`, []string{`ä "1\\`}},
		{"text COLLATE nocase", `'a'), ('A'`, []string{"a", "A"}},
		{"char(5)", `'ab'`, []string{"ab"}},
		{"boolean", `true`, []string{"true"}},
		{"nested", `false`, []string{"false"}},
		{"bigint", `-7`, []string{"-7"}},
		{"numeric(10,2)", `1.5`, []string{"1.50"}},
		{"double precision", `0.1::float8 + 0.2`, []string{"0.30000000000000004"}},
		{"date", `'2026-11-29'::date`, []string{"2026-11-29"}},
		{"timestamptz", `'2026-11-29T15:04:05.5Z'`, []string{"2026-11-29 15:04:05.5+00"}},
		{"interval", `'1 day'`, []string{"P1D"}},
		{"bytea", `'\xff'`, []string{`\xff`}},
		{"uuid", `'6F0D8B57-7b32-4a3f-a3b1-7dbb1f0b8c11'`, []string{"6f0d8b57-7b32-4a3f-a3b1-7dbb1f0b8c11"}},
		{"mood", `'happy'`, []string{"happy"}},
		{"pair", `ROW(1, 'x')`, []string{"(1,x)"}},
		{"text", `NULL`, []string{}},
		{"text", `repeat('ü', 499)`, []string{strings.Repeat("ü", 499)}},
		{"text", `(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1000) AS i)`, nil}, // too long for an index
	}
	for i, test := range tests {
		name := strings.Repeat("ä", 28) + fmt.Sprintf(`"'\%%%d`, i)
		refs := []smelt.Reference{{Name: "r", Table: fmt.Sprintf(`public."It's %d"`, i), Key: name}}
		mustExec(t, d.admin, fmt.Sprintf(`CREATE TABLE %s (%s %s)`, refs[0].Table, pgx.Identifier{name}.Sanitize(), test.declared))
		db := follow(t, d, refs)
		since := version(t, db, refs)
		mustExec(t, d.admin, fmt.Sprintf(`INSERT INTO %s VALUES (%s)`, refs[0].Table, test.literal))
		expect(t, db, refs, since, test.declared+" "+test.literal, test.want)
	}
}

func TestChangesOfWhatFiresNoTrigger(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, `
CREATE TABLE base (k text, n int); INSERT INTO base VALUES ('x', 1);
CREATE VIEW a_view AS SELECT * FROM base;
CREATE TABLE parted (k text, n int) PARTITION BY LIST (k);
CREATE TABLE parted_x PARTITION OF parted FOR VALUES IN ('x');
INSERT INTO parted VALUES ('x', 1)`)
	for _, test := range []struct{ table, change string }{
		{"public.a_view", `UPDATE base SET n = n + 1`},
		{"public.parted", `UPDATE parted SET n = n + 1`},
		{"public.parted", `UPDATE parted_x SET n = n + 1`},
		{"public.parted_x", `UPDATE parted SET n = n + 1`},
	} {
		refs := []smelt.Reference{{Name: "r", Table: test.table, Key: "k"}}
		db := follow(t, d, refs)
		since := version(t, db, refs)
		mustExec(t, d.admin, test.change)
		expect(t, db, refs, since, test.table, nil)
	}
}

// A table that is followed can become a partition, and then is compared.
func TestAFollowedTableBecomesAPartition(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mustExec(t, d.admin, createLocations+`; CREATE TABLE parted (sensor_id text NOT NULL, city text) PARTITION BY RANGE (sensor_id)`)
	db := follow(t, d, locations())
	since := version(t, db, locations())
	mustExec(t, d.admin, `ALTER TABLE parted ATTACH PARTITION locations DEFAULT; UPDATE parted SET city = 'x'`)
	expect(t, db, locations(), since, "through the parent", nil)
}

func TestChangesOfNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	db := open(t, d.dsn())
	if got := changes(t, db, nil, 0); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if _, err := db.Changes(t.Context(), locations(), 0); !errors.Is(err, smelt.ErrPipeline) {
		t.Errorf("of a table that is not there: got %v", err)
	}
}
