package shell_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"smelt"
	"smelt/internal/store"
	"smelt/shell"
)

const espoo = `{"sensor_id":"hel-001","temperature":21.5,"unit":"C","event_time":"2026-11-29T12:00:00.123Z"}`

func reading(sensor, temperature, unit, time string) string {
	return `{"sensor_id":"` + sensor + `","temperature":` + temperature + `,"unit":"` + unit + `","event_time":"` + time + `"}`
}

func TestQueries(t *testing.T) {
	t.Parallel()
	l := newLake(t, "sensors")
	s := l.open()

	// Nothing is there yet: bronze is empty and the rest says so.
	if got := l.query(s, "SELECT count(*) FROM bronze"); got != "0" {
		t.Errorf("an empty bronze has %s records", got)
	}
	if _, err := run(t.Context(), s, shell.CSV, "SELECT * FROM silver.sensors"); err == nil || !strings.Contains(err.Error(), "silver.sensors has no data yet") {
		t.Errorf("silver before the first step: %v", err)
	}
	if _, err := run(t.Context(), s, shell.CSV, "SELECT * FROM gold"); err == nil || !strings.Contains(err.Error(), "no data yet") {
		t.Errorf("gold before the first step: %v", err)
	}

	l.send(0, espoo, reading("hel-001", "70.7", "F", "2026-11-29T12:20:00Z"), reading("nyc-001", "50", "F", "2026-11-29T12:59:59.999Z"))
	l.send(1, `{"sensor_id":"hel-001","temperature":21`, "", reading("hel-001", `"21.5"`, "C", "2026-11-29T13:00:00Z"), `[1]`, "\xff\xfe")
	l.drain()

	for _, c := range []struct{ name, sql, want string }{
		{"bronze, newest first", "SELECT sensor_id, temperature, unit, event_time FROM bronze ORDER BY event_time DESC NULLS LAST LIMIT 2",
			"hel-001,,C,2026-11-29 13:00:00+00\nnyc-001,50.0,F,2026-11-29 12:59:59.999+00"},
		{"silver", "SELECT strftime(event_time::TIMESTAMPTZ, '%Y-%m-%d %H:%M:%S') AS event_time, sensor_id, round(temperature_celsius, 2) AS temp_c, city FROM silver ORDER BY event_time::TIMESTAMPTZ DESC LIMIT 7",
			"2026-11-29 12:59:59,nyc-001,10.0,New York\n2026-11-29 12:20:00,hel-001,21.5,Espoo\n2026-11-29 12:00:00,hel-001,21.5,Espoo"},
		{"gold", "SELECT city, strftime(hour, '%Y-%m-%d %H:00') AS hour, readings, avg_temp_c, min_temp_c, max_temp_c FROM gold ORDER BY hour DESC, city LIMIT 6",
			"Espoo,2026-11-29 12:00,2,21.5,21.5,21.5\nNew York,2026-11-29 12:00,1,10.0,10.0,10.0"},
		{"units", "SELECT unit, count(*) FROM bronze GROUP BY unit ORDER BY ALL", "C,2\nF,2\n,4"},
		{"one city", "SELECT hour, readings, avg_temp_c FROM gold WHERE city = 'New York' ORDER BY hour DESC LIMIT 12", "2026-11-29 12:00:00+00,1,10.0"},
		{"full names", "SELECT (SELECT count(*) FROM bronze.sensors), (SELECT count(*) FROM silver.sensors), (SELECT count(*) FROM gold.sensors_hourly), (SELECT count(*) FROM quarantine.sensors), (SELECT count(*) FROM reference.locations)",
			"8,3,2,4,2"},
		{"lineage and values", "SELECT _partition_id, _partition_offset, epoch_ms(_timestamp), _key, _headers, _value FROM bronze WHERE _partition_id = 1 ORDER BY ALL",
			"1,0,1796000000000,key,,\"{\"\"sensor_id\"\":\"\"hel-001\"\",\"\"temperature\"\":21\"\n1,1,1796000000001,key,,\n" +
				"1,2,1796000000002,key,,\"" + strings.ReplaceAll(reading("hel-001", `"21.5"`, "C", "2026-11-29T13:00:00Z"), `"`, `""`) + "\"\n" +
				"1,3,1796000000003,key,,[1]\n1,4,1796000000004,key,,//4="},
		{"finality", "SELECT bool_or(_final) FROM gold", "false"},
		{"types", "SELECT typeof(temperature), typeof(event_time), typeof(_timestamp) FROM bronze LIMIT 1", "DOUBLE,TIMESTAMP WITH TIME ZONE,TIMESTAMP WITH TIME ZONE"},
		{"describe", "SELECT column_name FROM (DESCRIBE quarantine.sensors) LIMIT 2", "_partition_id\n_partition_offset"},
		{"pivot", "PIVOT (SELECT city, readings FROM gold) ON city USING sum(readings)", "2,1"},
	} {
		if got := l.query(s, c.sql); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}

	// The same shell sees what comes next, and so does a view of the user's.
	l.query(s, "CREATE VIEW warm AS SELECT * FROM bronze WHERE temperature > 100")
	l.send(0, reading("hel-001", "373.15", "K", "2026-11-30T12:00:00Z"))
	l.drain()
	if got := l.query(s, "SELECT count(*), max(temperature_celsius) FROM silver; SELECT sum(readings) FROM gold; FROM warm SELECT temperature"); !strings.Contains(got, "4,100.0") || !strings.HasSuffix(got, "\n373.15") {
		t.Errorf("after another record: %q", got)
	}
	if got := l.query(s, "SELECT hour, _final FROM gold WHERE city = 'Espoo' ORDER BY 1"); got != "2026-11-29 12:00:00+00,true\n2026-11-30 12:00:00+00,false" {
		t.Errorf("final windows: %s", got)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	l := newLake(t, "formats")
	s := l.open()
	const sql = `SELECT 1.50::DECIMAL(4,2) AS n, 'a"b,
c' AS t, NULL AS z, {'k': [1, NULL]} AS s, '{"x": 1.0}'::JSON AS j, TIMESTAMPTZ '2026-11-29 12:00:00+00' AS at, 'nan'::DOUBLE AS f, true AS b, '' AS e`
	for _, c := range []struct {
		format shell.Format
		sql    string
		want   string
	}{
		{shell.CSV, sql, "n,t,z,s,j,at,f,b,e\n1.50,\"a\"\"b,\nc\",,\"{'k': [1, NULL]}\",\"{\"\"x\"\": 1.0}\",2026-11-29 12:00:00+00,nan,true,\"\"\n"},
		{shell.JSON, sql, `[
{"n":1.5,"t":"a\"b,\nc","z":null,"s":{"k":[1,null]},"j":{"x":1.0},"at":"2026-11-29 12:00:00+00","f":null,"b":true,"e":""}
]
`},
		{shell.JSON, "SELECT 1 AS a WHERE false; CREATE TABLE local AS SELECT 1; SELECT 2 AS a, 3 AS a", "[\n]\n[\n{\"a\":2,\"a\":3}\n]\n"},
		{shell.Table, "SELECT 12345 AS n, 'a\x1b[31m' AS t UNION ALL SELECT 1, NULL", `┌───────┬───────────┐
│ n     │ t         │
├───────┼───────────┤
│ 12345 │ a\x1b[31m │
│     1 │ NULL      │
└───────┴───────────┘
2 rows
`},
		{shell.CSV, "-- nothing\n;;SELECT ';' AS \"a;b\" /* ; */ ; SELECT $$;'$$ AS d -- the end", "a;b\n;\nd\n;'\n"},
	} {
		got, err := run(t.Context(), s, c.format, c.sql)
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
		} else if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.sql, got, c.want)
		}
	}
}

// On a narrow terminal long texts are cut, and then the last columns left out.
func TestNarrow(t *testing.T) {
	t.Parallel()
	l := newLake(t, "narrow")
	s := l.open()
	for _, c := range []struct {
		sql, want string
		width     int
	}{
		{"SELECT repeat('é', 60) AS long, 1 AS n", `┌─────────────────────────────────┬───┐
│ long                            │ n │
├─────────────────────────────────┼───┤
│ éééééééééééééééééééééééééééééé… │ 1 │
└─────────────────────────────────┴───┘
1 row
`, 39},
		{"SELECT 'abc' AS a, NULL AS b FROM range(1001)", "1,001 rows, the first 1,000 shown; --csv and --json give all, 1 of 2 columns shown\n", 10},
	} {
		statements, _ := shell.Split(c.sql + ";")
		r, err := s.Run(t.Context(), statements[0], false)
		l.must(err)
		var out strings.Builder
		p := shell.Printer{Out: &out, Err: io.Discard, Width: func() int { return c.width }}
		l.must(p.Print(r))
		if got := out.String(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.sql, got, c.want)
		}
	}
}

// A statement that names no table, or a wrong one, sees all that there are.
func TestWhatThereIs(t *testing.T) {
	t.Parallel()
	l := newLake(t, "tables")
	l.send(0, espoo)
	l.drain()
	if got := l.query(l.open(), "SHOW TABLES"); got != "bronze\ngold\nsilver" {
		t.Errorf("tables: %s", got)
	}
	for sql, want := range map[string]string{
		"FROM silvr":            `Did you mean "silver"`,
		"FROM gold.tables_dail": `Did you mean "tables_`,
		"SELECT 'open":          "unterminated quoted string",
		"SELECT 1 /* open":      "unterminated",
	} {
		if out, err := run(t.Context(), l.open(), shell.CSV, sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q and %v, want %q", sql, out, err, want)
		}
	}
}

// A statement cannot change the lake, however it is written.
func TestRefused(t *testing.T) {
	t.Parallel()
	l := newLake(t, "refused")
	l.send(0, espoo)
	l.drain()
	s := l.open()
	before, err := l.config.Store.List(t.Context(), "", "", 1000)
	l.must(err)
	inHome := filepath.Join(l.home, "s3", "lake", "x.csv")
	link := filepath.Join(t.TempDir(), "link")
	l.must(os.Symlink(l.home, link))
	for _, sql := range []string{
		"COPY (SELECT 1) TO 's3://lake/x.csv'",
		"/* COPY */ copy silver.refused to 'S3://lake/x.csv' (FORMAT csv)",
		"COPY (SELECT 1) TO ('s3://' || 'lake/x.csv')",
		"SET VARIABLE p = 's3://lake/x.csv'; COPY (SELECT 1) TO (getvariable('p'))",
		"COPY (SELECT 1) TO E's3\\x3a//lake/x.csv'",
		"COPY (SELECT 1) TO $$s3://lake/x.csv$$",
		"EXPLAIN ANALYZE COPY (SELECT 1) TO 's3://lake/x.csv'",
		"EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO 's3://lake/x.csv'",
		"PREPARE w AS COPY (SELECT 1) TO 's3://lake/x.csv'",
		"EXPORT DATABASE 's3://lake/x'",
		"ATTACH 's3://lake/x.duckdb'",
		"ATTACH 'lake' AS l (TYPE iceberg)",
		"ATTACH 'postgres:dbname=x' AS p",
		"ATTACH 'local.duckdb' AS p (TYPE postgres)",
		"COPY (SELECT 1) TO 'https://127.0.0.1/x.csv'",
		"COPY (SELECT 1) TO '" + inHome + "'",
		"COPY (SELECT 1) TO '" + filepath.Join(link, "x.csv") + "'",
		"ATTACH '" + inHome + "'",
		"INSTALL postgres", "LOAD postgres", "FORCE INSTALL x FROM 's3://lake'",
		"CREATE SECRET mine (TYPE s3, KEY_ID 'a', SECRET 'b')",
		"CREATE OR REPLACE TEMPORARY SECRET lake (TYPE s3)",
		"DROP SECRET lake",
		"SET s3_endpoint = '127.0.0.1:9000'", "SET GLOBAL allow_unsigned_extensions = true", "RESET s3_endpoint", `SET "log_query_path" = 'x'`,
		"PRAGMA enable_profiling", "PRAGMA profiling_output = 's3://lake/x'",
		"CALL enable_logging(storage = 'file')", "BEGIN",
		"INSERT INTO silver.refused SELECT * FROM silver.refused", "DELETE FROM gold", "UPDATE silver SET city = 'x'",
	} {
		if out, err := run(t.Context(), s, shell.CSV, sql); err == nil {
			t.Errorf("%s was run: %s", sql, out)
		} else {
			t.Logf("%s: %v", sql, err)
		}
	}
	after, err := l.config.Store.List(t.Context(), "", "", 1000)
	l.must(err)
	for _, o := range after {
		if strings.Contains(o.Key, "x.") {
			t.Errorf("%s is in the lake now (%d objects before)", o.Key, len(before))
		}
	}

	// What is local is allowed.
	file := filepath.Join(t.TempDir(), "out.csv")
	for _, sql := range []string{
		"COPY (FROM silver.refused SELECT city) TO '" + file + "'",
		"EXPLAIN ANALYZE SELECT count(*) FROM silver", "EXPLAIN (FORMAT json) SELECT 1", "SET threads = 2", "SET TIME ZONE 'UTC'", "PRAGMA table_info('silver.refused')",
		"CREATE TEMP TABLE mine AS FROM bronze", "CREATE TABLE secret (a INTEGER)", "DROP TABLE secret", "ATTACH ':memory:' AS m", "SHOW ALL TABLES", "SUMMARIZE gold", "(SELECT 1)",
	} {
		if _, err := run(t.Context(), s, shell.CSV, sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "city\nEspoo\n" {
		t.Errorf("COPY wrote %q, %v", text, err)
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	l := newLake(t, "trouble")
	l.send(0, espoo)
	l.drain()
	s := l.open()

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := run(ctx, s, shell.CSV, "SELECT count(*) FROM range(100000000000) a, range(1000) b"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled statement gave %v", err)
	}
	if got := l.query(s, "SELECT count(*) FROM silver"); got != "1" {
		t.Errorf("after a cancelled statement: %s", got)
	}
	if _, err := run(t.Context(), s, shell.CSV, "SELECT nope FROM silver"); err == nil || errors.Is(err, smelt.ErrStore) || !strings.Contains(err.Error(), `"nope" not found`) {
		t.Errorf("a wrong column gave %v", err)
	}

	away, err := store.OpenS3(t.Context(), store.S3Config{Endpoint: "http://127.0.0.1:1", Bucket: "lake", AccessKey: "key", SecretKey: "secret"})
	l.must(err)
	l.config.S3.Transport = away.Reader(1)
	far := l.open()
	if _, err := run(t.Context(), far, shell.CSV, "SELECT count(*) FROM silver"); !errors.Is(err, smelt.ErrStore) {
		t.Errorf("with S3 away: %v", err)
	}
}
