package line_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/line"
	"smelt/pipeline"
)

const (
	declaration = `source: {kafka: t}
events:
  time: ts
  columns:
    id: varchar not null
    n: bigint
    ts: timestamptz not null
    place: struct(lat double)
    tags: varchar[]
    doc: json
references:
  places: {table: public.places, key: id, on: id}
silver:
  partition: [day(ts), city]
  unique: [id]
  expect:
    positive: n > 0
gold:
  daily: {window: 1d, column: day}
`
	goodSilver = `SELECT id, n, ts, city, _partition_id, _partition_offset
FROM bronze.p
LEFT JOIN reference.places USING (id)
`
	goodDaily = `SELECT date_trunc('day', ts) AS day, count(*) AS events
FROM silver.p
GROUP BY date_trunc('day', ts)
`
	test = "-- events.ndjson --\n-- reference/places.csv --\nid,city,size\na,Espoo,1\n"
)

// folder is a pipeline that has no faults, with some of its files replaced.
func folder(t *testing.T, files map[string]string) *smelt.Pipeline {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{"pipeline.yml": declaration, "silver.sql": goodSilver, "daily.sql": goodDaily, "test.txtar": test} {
		if other, ok := files[name]; ok {
			text = other
		}
		if text != "" {
			fsys["p/"+name] = &fstest.MapFile{Data: []byte(text), Mode: fs.ModePerm}
		}
	}
	p, err := pipeline.Read(fsys, "p")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func database(t *testing.T) *duck.DB {
	t.Helper()
	db, err := duck.Open(duck.Config{MemoryBytes: 256 << 20, TempDir: t.TempDir(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// silver is a silver.sql that selects something beside what it must.
func silver(what string) string {
	return "SELECT " + what + ", id, n, ts, city, _partition_id, _partition_offset\nFROM bronze.p LEFT JOIN reference.places USING (id)"
}

// declared is the declaration with one text replaced.
func declared(old, new string) string { return strings.Replace(declaration, old, new, 1) }

func TestCheck(t *testing.T) {
	t.Parallel()
	db := database(t)
	const (
		row   = ": each record must give its own row"
		alone = ": each record must be transformed alone"
	)
	tests := []struct{ name, file, text, want string }{
		{"as it should be", "", "", ""},
		{"a comment and a semicolon", "silver.sql", "-- what\n" + goodSilver + "; -- end", ""},
		{"an alias, a CTE and a subquery in FROM", "silver.sql",
			"WITH b AS (SELECT * FROM bronze.p) SELECT x.id, x.n, x.ts, r.city, x._partition_id, x._partition_offset FROM b AS x LEFT JOIN (FROM reference.places) AS r ON x.id = r.id", ""},
		{"lambdas, fields, JSON, lists, cases", "silver.sql",
			silver(`list_transform(tags, lambda x: upper(x)) AS a, place.lat AS b, (doc->>'x') AS c, tags[1] AS d, [x FOR x IN tags IF x > 'a'] AS e, extract(hour FROM ts) AS f, list_sum([1, n]) AS g, doc->'y' AS h`), ""},
		{"ORDER BY is of no use and does no harm", "silver.sql", goodSilver + "ORDER BY ts", ""},
		{"FROM first", "silver.sql", "FROM bronze.p LEFT JOIN reference.places USING (id) SELECT id, n, ts, city, _partition_id, _partition_offset", ""},

		{"not SQL", "silver.sql", "SELECT id,\n  n at FROM\nWHERE", `p/silver.sql:2:8: syntax error at or near "FROM"`},
		{"characters, not bytes", "silver.sql", "SELECT 'äöü', FRM x y z", `p/silver.sql:1:21: syntax error at or near "y"`},
		{"two statements", "silver.sql", goodSilver + "; SELECT ';'", "p/silver.sql:4:3: a second statement: one SELECT must stand here"},
		{"no SELECT", "silver.sql", "-- no\nDELETE FROM bronze.p", "p/silver.sql:2:1: this is not a plain SELECT: write one SELECT"},
		{"a pivot", "silver.sql", "PIVOT bronze.p ON id USING sum(n)", "p/silver.sql:1:1: this is not a plain SELECT: write one SELECT"},
		{"only a comment", "silver.sql", "-- nothing", "p/silver.sql: there is no statement: write one SELECT"},

		{"another table", "silver.sql", strings.Replace(goodSilver, "bronze.p", "bronze.q", 1), `p/silver.sql:2:6: bronze.q cannot be read here: did you mean "bronze.p"?`},
		{"its own output", "silver.sql", strings.Replace(goodSilver, "reference.places", "silver.p", 1), "p/silver.sql:3:11: silver.p cannot be read here: known are bronze.p, reference.places"},
		{"a file", "silver.sql", silver("1 AS a") + " LEFT JOIN 'x.csv' AS c USING (id)", "p/silver.sql:2:63: x.csv cannot be read here: known are bronze.p, reference.places"},
		{"a table function", "silver.sql", silver("1 AS a") + " LEFT JOIN read_csv('x.csv') AS c USING (id)", "p/silver.sql:2:63: a table function: only bronze.p, reference.places can be read here"},
		{"values", "silver.sql", silver("1 AS a") + " LEFT JOIN (VALUES ('a')) AS c(id) USING (id)", "p/silver.sql:2:64: VALUES: only bronze.p, reference.places can be read here"},
		{"bronze twice", "silver.sql", silver("1 AS a") + " LEFT JOIN bronze.p AS b USING (id)", "*p/silver.sql:2:63: bronze.p is read twice" + alone},
		{"bronze not ts all", "silver.sql", "SELECT 'a' AS id, 1 AS n, TIMESTAMPTZ '2026-01-01' AS ts, city, 0::INTEGER AS _partition_id, 1::BIGINT AS _partition_offset FROM reference.places",
			"*p/silver.sql:1:1: bronze.p is not read: each of its records must give a row"},

		{"an aggregate", "silver.sql", "SELECT max(n) AS n FROM bronze.p", "*p/silver.sql:1:8: max makes one row of several" + row},
		{"an aggregate in a macro", "silver.sql", silver("geometric_mean(n) AS g"), "*p/silver.sql:1:8: geometric_mean makes one row of several" + row},
		{"GROUP BY", "silver.sql", goodSilver + "GROUP BY ALL", "p/silver.sql:4:1: GROUP BY: it makes one row of several" + row},
		{"a window function", "silver.sql", silver("row_number() OVER () AS r"), "p/silver.sql:1:8: a window function: it reads other rows" + alone},
		{"QUALIFY", "silver.sql", goodSilver + "QUALIFY row_number() OVER () = 1", "p/silver.sql:4:1: QUALIFY: it reads other rows" + alone + "\np/silver.sql:4:9: a window function: it reads other rows" + alone},
		{"DISTINCT", "silver.sql", strings.Replace(goodSilver, "SELECT", "SELECT DISTINCT", 1), "p/silver.sql:1:8: DISTINCT: it drops rows that are alike: declare what is a duplicate as unique: in pipeline.yml"},
		{"LIMIT", "silver.sql", goodSilver + "LIMIT 10", "p/silver.sql:4:1: LIMIT: it drops rows: each record must give its row"},
		{"SAMPLE", "silver.sql", strings.Replace(goodSilver, "bronze.p", "bronze.p TABLESAMPLE 10%", 1), "p/silver.sql:2:15: SAMPLE: it drops rows: each record must give its row"},
		{"UNNEST", "silver.sql", silver("unnest(tags) AS tag"), "p/silver.sql:1:8: unnest makes several rows of one: each record must give one row"},
		{"UNNEST in FROM", "silver.sql", "SELECT id, n, ts, 'x' AS city, _partition_id, _partition_offset\nFROM bronze.p, unnest(tags)", `p/silver.sql:2:16: CROSS JOIN: it makes several rows of one: use a LEFT JOIN on the reference's key
p/silver.sql:2:16: a table function: only bronze.p, reference.places can be read here
p/silver.sql:2:16: unnest makes several rows of one: each record must give one row`},
		{"UNION", "silver.sql", goodSilver + "UNION ALL SELECT 'a', 1, now(), 'b', 0, 0", "*p/silver.sql:4:1: UNION: it reads rows twice: each record must give one row"},
		{"a subquery", "silver.sql", silver("(SELECT city FROM reference.places AS r WHERE r.id = p.id) AS c"), "p/silver.sql:1:8: a subquery in an expression: read a reference by a LEFT JOIN on its key"},
		{"a full join", "silver.sql", strings.Replace(goodSilver, "LEFT", "FULL", 1), "p/silver.sql:3:1: FULL JOIN: it makes rows that are of no record: use a LEFT JOIN"},
		{"a comma", "silver.sql", "SELECT p.id, n, ts, city, _partition_id, _partition_offset\nFROM bronze.p, reference.places", "p/silver.sql:2:16: CROSS JOIN: it makes several rows of one: use a LEFT JOIN on the reference's key"},

		{"random", "silver.sql", silver("random() AS r"), "p/silver.sql:1:8: random gives another value at each run: use what the record has, such as its event time"},
		{"now, without parentheses", "silver.sql", silver("ts > CURRENT_TIMESTAMP AS r"), "p/silver.sql:1:13: CURRENT_TIMESTAMP gives another value at each run: use what the record has, such as its event time"},
		{"the age of today", "silver.sql", silver("age(ts::TIMESTAMP)::VARCHAR AS r"), "p/silver.sql:1:8: age gives another value at each run: use what the record has, such as its event time"},
		{"a parameter", "silver.sql", silver("$1 AS r"), "p/silver.sql:1:8: a parameter: nothing gives it a value"},

		{"columns that are not there", "silver.sql", silver("citty, places.sise, N, zz"), `p/silver.sql:1:8: there is no column "citty": did you mean "city"?
p/silver.sql:1:15: there is no column "sise": did you mean "size"?
*p/silver.sql:1:31: there is no column "zz"`},
		{"no such table", "silver.sql", silver("x.city AS c"), `p/silver.sql:1:8: Referenced table "x" not found! Candidate tables: "p"`},
		{"types that do not fit", "silver.sql", silver("upper(n, id) AS u"), "p/silver.sql:1:8: No function matches the given name and argument types 'upper(BIGINT, VARCHAR)'. You might need to add explicit type casts."},
		{"no lineage", "silver.sql", "SELECT id, n, ts, city, _partition_offset + 0 AS _partition_offset FROM bronze.p LEFT JOIN reference.places USING (id)", `p/silver.sql:1:1: the result lacks _partition_id, which links a row to its record: select it unchanged
p/silver.sql:1:25: _partition_offset must stay unchanged: it links a row to its record`},
		{"the event time renamed", "silver.sql", strings.Replace(goodSilver, "ts,", "ts AS t,", 1), `p/daily.sql:3:28: there is no column "ts": did you mean "t"?
p/pipeline.yml:14:15: silver.sql gives no column "ts": did you mean "t"?
p/silver.sql:1:1: the result lacks ts, the event time: select it under its name`},
		{"the event time cast", "silver.sql", strings.Replace(goodSilver, "ts,", "ts::DATE AS ts,", 1), "p/silver.sql:1:15: ts, the event time, is of type date in the result: it must stay a timestamptz"},
		{"smelt's own names", "silver.sql", silver("_key, 1 AS _mine"), `p/silver.sql:1:8: column "_key": names that begin with _ are smelt's own: give it another with AS
p/silver.sql:1:14: column "_mine": names that begin with _ are smelt's own: give it another with AS`},
		{"a name twice", "silver.sql", silver("n AS ID"), `p/silver.sql:1:17: two columns of the result have the name "id", in which case does not count`},
		{"what no table can keep", "silver.sql", silver("MAP {'a': n} AS m, INTERVAL 1 DAY AS i"), `p/silver.sql:1:13: column "m" is of type map(varchar, bigint), which a table cannot keep: cast it
p/silver.sql:1:36: column "i" is of type interval, which a table cannot keep: cast it`},

		{"a partition's column", "pipeline.yml", declared("city]", "citty]"), `p/pipeline.yml:14:24: silver.sql gives no column "citty": did you mean "city"?`},
		{"a partition's type", "pipeline.yml", declared("day(ts)", "day(n)"), "p/pipeline.yml:14:15: n is of type bigint, which cannot be partitioned by day"},
		{"a partition by a decimal", "silver.sql", strings.Replace(goodSilver, "city", "n::DECIMAL(9, 2) AS city", 1), "p/pipeline.yml:14:24: city is of type decimal(9,2), which cannot be partitioned by identity"},
		{"a partition by a uuid", "silver.sql", strings.Replace(goodSilver, "city", "id::UUID AS city", 1), "p/pipeline.yml:14:24: city is of type uuid, which cannot be partitioned by identity"},
		{"a partition by a large number", "silver.sql", strings.Replace(goodSilver, "city", "n::UBIGINT AS city", 1), "p/pipeline.yml:14:24: city is of type decimal(20,0), which cannot be partitioned by identity"},
		{"a partition by small numbers", "silver.sql", strings.Replace(goodSilver, "city", "n::USMALLINT AS city", 1), ""},
		{"a unique column", "pipeline.yml", declared("unique: [id]", "unique: [ID]"), `p/pipeline.yml:15:12: silver.sql gives no column "ID": did you mean "id"?`},
		{"a condition that is none", "pipeline.yml", declared("n > 0", "n +"), `p/pipeline.yml:17:15: the expectation "positive": syntax error at end of input`},
		{"a condition on nothing", "pipeline.yml", declared("n > 0", "true"), `p/pipeline.yml:17:15: the expectation "positive": it looks at no column`},
		{"a number", "pipeline.yml", declared("n > 0", "n + 1"), `p/pipeline.yml:17:15: the expectation "positive": it is of type bigint: it must be a condition`},
		{"a condition's column", "pipeline.yml", declared("n > 0", "m > 0"), `p/pipeline.yml:17:15: the expectation "positive": there is no column "m"*`},
		{"a condition over rows", "pipeline.yml", declared("n > 0", "n > max(n)"), `p/pipeline.yml:17:15: the expectation "positive": max: a condition looks at its row alone`},
		{"a condition with a subquery", "pipeline.yml", declared("n > 0", "id IN (FROM x)"), `p/pipeline.yml:17:15: the expectation "positive": a subquery in an expression: a condition looks at its row alone`},
		{"a condition's second", "pipeline.yml", declared("n > 0", "n > 0, true"), `p/pipeline.yml:17:15: the expectation "positive": a list: one condition must stand here`},
		{"a condition on now", "pipeline.yml", declared("n > 0", "ts < now()"), `p/pipeline.yml:17:15: the expectation "positive": now gives another value at each run`},
		{"a condition's comment", "pipeline.yml", declared("n > 0", "n > 0 -- why"), `p/pipeline.yml:17:15: the expectation "positive": syntax error at end of input`},

		{"gold reads bronze", "daily.sql", strings.Replace(goodDaily, "silver.p", "bronze.p", 1), "p/daily.sql:2:6: bronze.p cannot be read here*"},
		{"gold reads nothing", "daily.sql", "SELECT DATE '2026-01-01' AS day", "p/daily.sql:1:1: silver.p is not read"},
		{"gold has a limit", "daily.sql", goodDaily + "LIMIT 10", "p/daily.sql:4:1: LIMIT: which rows it leaves depends on the other windows"},
		{"gold has windows and CTEs", "daily.sql", "WITH x AS (FROM silver.p) SELECT DISTINCT date_trunc('day', ts) AS day, sum(n) OVER (PARTITION BY date_trunc('day', ts)) AS s, _unmatched AS u FROM x", ""},
		{"gold is volatile", "daily.sql", strings.Replace(goodDaily, "count(*)", "count(*) * random()", 1), "p/daily.sql:1:49: random gives another value at each run: use what the record has, such as its event time"},
		{"gold's column", "daily.sql", strings.ReplaceAll(goodDaily, "ts)", "tts)"), `p/daily.sql:3:28: there is no column "tts": did you mean "ts"?`},
		{"gold's window", "daily.sql", strings.Replace(goodDaily, "AS day", "AS days", 1), `p/pipeline.yml:19:31: daily.sql gives no column "day": did you mean "days"?`},
		{"gold's window is no time", "daily.sql", "SELECT 1 AS day FROM silver.p", "p/daily.sql:1:8: day, the start of a window, is of type integer: it must be a time"},
	}
	for _, tt := range tests {
		p := folder(t, map[string]string{tt.file: tt.text})
		skipped, err := line.Check(t.Context(), db, p)
		got := ""
		if err != nil {
			got = err.Error()
			if !errors.Is(err, smelt.ErrPipeline) {
				t.Errorf("%s: %v has no kind", tt.name, err)
			}
		} else if skipped != nil {
			t.Errorf("%s: skipped %q", tt.name, skipped)
		}
		if !matches(got, tt.want) {
			t.Errorf("%s:\n got: %s\nwant: %s", tt.name, strings.ReplaceAll(got, "\n", "\n      "), strings.ReplaceAll(tt.want, "\n", "\n      "))
		}
	}
}

// matches compares line by line. A star at the end of a line matches any rest. One at its start matches any lines before, and one
// after the last line any lines after.
func matches(got, want string) bool {
	lines := strings.Split(got, "\n")
	for _, w := range strings.Split(want, "\n") {
		w, skip := strings.CutPrefix(w, "*")
		w, rest := strings.CutSuffix(w, "*")
		for len(lines) > 0 && skip && !strings.HasPrefix(lines[0], w) {
			lines = lines[1:]
		}
		if len(lines) == 0 || lines[0] != w && !((rest || skip) && strings.HasPrefix(lines[0], w)) {
			return false
		}
		lines = lines[1:]
	}
	return len(lines) == 0 || strings.HasPrefix(want, "*") || strings.HasSuffix(want, "*")
}

// TestCheckAudits checks many audits in one declaration.
func TestCheckAudits(t *testing.T) {
	t.Parallel()
	tests := []struct{ condition, want string }{
		{"(SELECT count(*) FROM old) = (SELECT count(*) FROM new)", ""},
		{"(SELECT max(old.n) = max(NEW.N) FROM old FULL JOIN new USING (_partition_id, _partition_offset))", ""},
		{"NOT EXISTS (WITH a AS (FROM new) SELECT id FROM a WHERE _rebuilt_at IS NULL EXCEPT SELECT id FROM old)", ""},
		{"(SELECT sum(n) FROM (FROM old QUALIFY row_number() OVER (PARTITION BY id ORDER BY ts) = 1)) < 7", ""},
		{"id IN (SELECT o.id FROM old AS o)", "id is read from no table: put it into a SELECT, such as (SELECT max(id) FROM new)"},

		{"(SELECT count(*) FROM old", "syntax error at end of input"},
		{"EXISTS (FROM old) -- and", "syntax error at end of input"},
		{"EXISTS (FROM old), EXISTS (FROM new)", "a list: one condition must stand here"},
		{"EXISTS (FROM old); DROP TABLE x", "a semicolon: one condition must stand here, and nothing after it"},
		{"(WITH d AS (DELETE FROM old RETURNING n) FROM d) > 0", "A CTE needs a SELECT"},
		{"SELECT count(*) = 0 FROM new", "it is a SELECT: put it in parentheses, and say what it must give"},
		{"(SELECT max(n) FROM new)", "it is of type bigint: it must be a condition"},
		{"n > 0", "it reads neither old nor new"},
		{"count(*) = (SELECT count(*) FROM new)", "there are no rows outside a SELECT: write (SELECT count(*) FROM new)"},

		{"EXISTS (FROM olds)", `olds cannot be read here: did you mean "old"?`},
		{"EXISTS (FROM old, silver.p)", "silver.p cannot be read here: known are old, new"},
		{"EXISTS (FROM old, 'x.csv')", "x.csv cannot be read here: known are old, new"},
		{"EXISTS (FROM old, read_csv('x.csv'))", "a table function: only old and new can be read here"},
		{"(SELECT n FROM old) IN (VALUES (1))", "VALUES: only old and new can be read here"},
		{"EXISTS (FROM new TABLESAMPLE 10%)", "SAMPLE: it leaves other rows at each run"},
		{"EXISTS (FROM new WHERE ts > now())", "now gives another value at each run"},
		{"EXISTS (FROM new WHERE n > random())", "random gives another value at each run"},
		{"EXISTS (FROM new WHERE n > $1)", "a parameter: nothing gives it a value"},
		{"EXISTS (WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) FROM r, new)", "RECURSIVE: an audit must come to an end"},

		{"EXISTS (FROM new WHERE citi = 'a')", `there is no column "citi": did you mean "city"?`},
		{"(SELECT max(new.citi) FROM new) = 'a'", `there is no column "citi": did you mean "city"?`},
		{"EXISTS (FROM old AS o JOIN new AS n ON o.citi = n.city)", `there is no column "citi": did you mean "city"?`},
		{"EXISTS (FROM old JOIN new USING (citi))", `there is no column "citi": did you mean "city"?`},
		{"EXISTS (FROM old WHERE new.n = 1) AND EXISTS (FROM new)", "new.n is read from no table: put it into a SELECT, such as (SELECT max(n) FROM new)"},
		{"EXISTS (FROM old WHERE o.n = 1)", `Referenced table "o" not found!`},
		{"EXISTS (FROM old JOIN new ON old.n = id)", `Ambiguous reference to column name "id" (use: "old.id" or "new.id")`},
		{"(WITH c AS (SELECT n FROM old) SELECT max(id) FROM c) = 'a'", `Referenced column "id" not found in FROM clause!`},
	}
	audits, want := "  audit:\n", ""
	for i, tt := range tests {
		name := fmt.Sprintf("audit %d", i+10)
		audits += fmt.Sprintf("    %s: '%s'\n", name, strings.ReplaceAll(tt.condition, "'", "''"))
		if tt.want != "" {
			want += fmt.Sprintf("p/pipeline.yml:%d:15: the audit %q: %s\n", i+19, name, tt.want)
		}
	}
	p := folder(t, map[string]string{"pipeline.yml": declared("gold:", audits+"gold:")})
	_, err := line.Check(t.Context(), database(t), p)
	if !errors.Is(err, smelt.ErrPipeline) {
		t.Fatalf("got %v, want an error marked ErrPipeline", err)
	}
	got, wanted := strings.Split(err.Error(), "\n"), strings.Split(strings.TrimSpace(want), "\n")
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Fatalf("from fault %d on\n got %s\nwant %s", i, strings.Join(got[i:], "\n     "), strings.Join(wanted[i:], "\n     "))
		}
	}
}

// TestCheckSkips: what could not be checked is reported.
func TestCheckSkips(t *testing.T) {
	t.Parallel()
	db := database(t)
	p := folder(t, map[string]string{"test.txtar": ""})
	p.Silver.SQL = strings.Replace(p.Silver.SQL, "city", "upper(city) AS city, places.size * 2 AS size, coalesce(places.name, id) AS name", 1)
	skipped, err := line.Check(t.Context(), db, p)
	if err != nil {
		t.Error(err)
	}
	if want := "the columns of reference.places: test.txtar has no reference/places.csv"; len(skipped) != 1 || skipped[0] != want {
		t.Errorf("skipped %q, want %q", skipped, want)
	}
	p.Silver.SQL = "SELECT"
	skipped, err = line.Check(t.Context(), db, p)
	if err == nil || len(skipped) != 2 {
		t.Errorf("%v, skipped %q; want a fault, and what hangs on it skipped", err, skipped)
	}
}

// TestCheckShipped checks the pipelines that ship.
func TestCheckShipped(t *testing.T) {
	t.Parallel()
	pipelines, err := pipeline.ReadAll(smelt.Shipped())
	if err != nil {
		t.Fatal(err)
	}
	db := database(t)
	for _, p := range pipelines {
		if skipped, err := line.Check(t.Context(), db, p); err != nil || skipped != nil {
			t.Errorf("%s: %v, skipped %q", p.Name, err, skipped)
		}
	}
}
