package pipeline_test

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
	"smelt/pipeline"
)

// folder is a pipeline "p" whose declaration is given and whose SQL is there.
func folder(declaration string) fstest.MapFS {
	return fstest.MapFS{
		"p/pipeline.yml": {Data: []byte(declaration)},
		"p/silver.sql":   {Data: []byte("SELECT 1")},
		"p/hourly.sql":   {Data: []byte("SELECT 2")},
	}
}

// whole is a declaration that uses everything.
const whole = `# What it is.
#  In two lines.

# Not this one.
source:
  kafka: app.events-v1
events:
  time: at
  watermark: 90m
  columns:
    id: varchar not null
    at: {type: timestamptz NOT NULL, unit: ms}
    "@kind": Boolean
    price: {type: "decimal(10, 2)", round: true}
    tags: varchar[]
    place: struct(lat double, "lon.g" double, more struct(a json[][]))
references:
  shops: {table: public.Shops, key: shop_id, on: id}
silver:
  partition: [day(at), country]
  unique: [id]
  expect:
    price is sane: price >= 0
    named: 'id <> '''''
  audit:
    as many as before: (SELECT count(*) FROM old) = (SELECT count(*) FROM new)
gold:
  hourly: {window: 1h, column: hour}
retain:
  bronze: 36h
  silver: 30d
  gold: 365d
`

func TestReadPipeline(t *testing.T) {
	t.Parallel()
	got, err := pipeline.Read(folder(whole), "p")
	if err != nil {
		t.Fatal(err)
	}
	list := func(e smelt.Type) smelt.Type { return smelt.Type{Name: "list", Elem: &e} }
	column := func(name, typ string) smelt.Column { return smelt.Column{Name: name, Type: smelt.Type{Name: typ}} }
	want := &smelt.Pipeline{
		Name:  "p",
		Dir:   "p",
		Doc:   "What it is.\nIn two lines.",
		Topic: "app.events-v1",
		Events: smelt.Events{
			Time:      "at",
			Watermark: 90 * time.Minute,
			Columns: []smelt.Column{
				{Name: "id", Type: smelt.Type{Name: "varchar"}, NotNull: true},
				{Name: "at", Type: smelt.Type{Name: "timestamptz", Unit: "ms"}, NotNull: true},
				column("@kind", "boolean"),
				{Name: "price", Type: smelt.Type{Name: "decimal(10,2)", Round: true}},
				{Name: "tags", Type: list(smelt.Type{Name: "varchar"})},
				{Name: "place", Type: smelt.Type{Name: "struct", Fields: []smelt.Column{
					column("lat", "double"),
					column("lon.g", "double"),
					{Name: "more", Type: smelt.Type{Name: "struct", Fields: []smelt.Column{
						{Name: "a", Type: list(list(smelt.Type{Name: "json"}))},
					}}},
				}}},
			},
		},
		References: []smelt.Reference{{Name: "shops", Table: "public.Shops", Key: "shop_id", On: "id"}},
		Silver: smelt.Silver{
			SQL:       "SELECT 1",
			Partition: []smelt.PartitionField{{Transform: "day", Column: "at"}, {Transform: "identity", Column: "country"}},
			Unique:    []string{"id"},
			Expect: []smelt.Expectation{
				{Name: "price is sane", Condition: "price >= 0"},
				{Name: "named", Condition: "id <> ''"},
			},
			Audit: []smelt.Audit{{Name: "as many as before", Condition: "(SELECT count(*) FROM old) = (SELECT count(*) FROM new)"}},
		},
		Gold:   []smelt.Model{{Name: "hourly", Window: time.Hour, Column: "hour", SQL: "SELECT 2"}},
		Retain: smelt.Retain{Bronze: 36 * time.Hour, Silver: 30 * 24 * time.Hour, Gold: 365 * 24 * time.Hour},
	}
	for i, n := 0, reflect.TypeFor[smelt.Pipeline]().NumField(); i < n; i++ {
		field := reflect.TypeFor[smelt.Pipeline]().Field(i)
		if field.Name == "Places" { // what they say is below
			continue
		}
		g, w := reflect.ValueOf(*got).Field(i).Interface(), reflect.ValueOf(*want).Field(i).Interface()
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s:\n got %+v\nwant %+v", field.Name, g, w)
		}
	}
	for want, keys := range map[string][]string{
		"p/pipeline.yml:20:24: m": {"silver", "partition", "1"},
		"p/pipeline.yml:23:20: m": {"silver", "expect", "price is sane"},
		"p/pipeline.yml:26:24: m": {"silver", "audit", "as many as before"},
		"p/pipeline.yml:28:11: m": {"gold", "hourly", "nothing", "here"},
		"p/pipeline.yml: m":       {"nothing"},
	} {
		if got := got.Fault("m", keys...).String(); got != want {
			t.Errorf("Fault at %v = %s, want %s", keys, got, want)
		}
	}
}

func TestTypeString(t *testing.T) {
	t.Parallel()
	p, err := pipeline.Read(folder(whole), "p")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"VARCHAR", "TIMESTAMPTZ", "BOOLEAN", "DECIMAL(10,2)", "VARCHAR[]",
		`STRUCT("lat" DOUBLE, "lon.g" DOUBLE, "more" STRUCT("a" JSON[][]))`,
	}
	for i, c := range p.Events.Columns {
		if got := c.Type.String(); got != want[i] {
			t.Errorf("%s: got %s, want %s", c.Name, got, want[i])
		}
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"round: true": true, "round: false": false} {
		p, err := pipeline.Read(folder(strings.Replace(whole, "tags: varchar[]", "tags: {type: 'struct(a struct(b decimal(5,1)[])[], c varchar)[] not null', "+text+"}", 1)), "p")
		if err != nil {
			t.Fatal(err)
		}
		tags := p.Events.Columns[4]
		fields := tags.Type.Elem.Fields
		if got := fields[0].Type.Elem.Fields[0].Type.Elem.Round; got != want {
			t.Errorf("%s: decimals in the list are rounded: %v", text, got)
		}
		if fields[1].Type.Round || tags.Type.Round || !tags.NotNull {
			t.Errorf("%s: got %+v", text, tags)
		}
	}
}

// TestFaults changes one piece of a good declaration and wants these faults,
// each without the name of the file.
func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		old, new string
		want     []string
	}{
		{"unknown key", "  partition:", "  partiton:", []string{`20:3: unknown key "partiton": did you mean "partition"?`}},
		{"unknown key, nothing near", "  kafka: app", "  kafka: x\n  nats: app", []string{`7:3: unknown key "nats": known are kafka`}},
		{"missing key", "  time: at\n", "", []string{`8:3: "events" lacks the key "time"`}},
		{"key twice", "  unique: [id]", "  partition: x", []string{`21:3: key "partition" is given twice, first on line 20`}},
		{"empty", "  unique: [id]", "  unique:", []string{`21:10: "silver.unique" is empty: it must be a list, such as [a, b]`}},
		{"empty list", "[id]", "[]", []string{`21:11: "silver.unique" is an empty list: leave it out`}},
		{"wrong kind", "[id]", "id", []string{`21:11: "silver.unique" must be a list, such as [a, b]`}},
		{"wrong kind too", "90m", "[90m]", []string{`9:14: "events.watermark" must be a text`}},
		{"anchor and alias", "id: varchar not null\n", "id: &a varchar not null\n    b: *a\n", []string{
			"11:9: an anchor, &a: write the value out where it is needed", "12:8: an alias, *a: write the value out"}},
		{"merge key", "  unique: [id]", "  <<: {unique: [id]}", []string{`21:3: a merge key, <<: write the keys out`}},
		{"tag", "90m", "!!str 90m", []string{`9:14: a tag, !!str: leave it out`}},
		{"two documents", "gold:", "---\ngold:", []string{`27:1: a second document: keep one`}},
		{"tab", "  unique", "\tunique", []string{`21:1: a tab: indent with spaces`}},
		{"not YAML", "[id]", "[id", []string{`22:9: not YAML: while parsing a flow sequence did not find expected ',' or ']'`}},
		{"a long list", "[id]", "[" + strings.Repeat("a,", 33) + "]", []string{`21:11: "silver.unique" has 33 items: 32 are the most`}},
		{"topic", "app.events-v1", "app events", []string{`6:10: "app events" is not the name of a Kafka topic: letters, digits, ".", "_" and "-" only`}},
		{"duration", "90m", "1.5h", []string{`9:14: "1.5h" is not a duration: write a number and s, m, h or d, such as 10m`}},
		{"too long", "90m", "32d", []string{`9:14: "events.watermark" must be 0s at least and 31d at most`}},
		{"no such time", "time: at", "time: att", []string{`8:9: no column "att" under events.columns: did you mean "at"?`}},
		{"time of the wrong type", "time: at", "time: id", []string{`8:9: the event time "id" is a varchar: it must be a timestamptz not null`}},
		{"time may be null", "timestamptz NOT NULL", "timestamptz", []string{`8:9: the event time "at" may be null: declare it as timestamptz not null`}},
		{"reserved name", `"@kind"`, "_kind", []string{`13:5: column "_kind": names that begin with _ are smelt's own`}},
		{"odd name", `"@kind"`, `'a"b'`, []string{`13:5: column "a\"b": a name holds neither quotes, nor \, nor what cannot be printed`}},
		{"names that differ in case", `"@kind"`, "ID", []string{`13:5: columns "id" and "ID" are one to SQL, which ignores case`}},
		{"alias", "Boolean", "string", []string{`13:14: unknown type "string": did you mean "varchar"?`}},
		{"misspelt type", "Boolean", "tinint", []string{`13:14: unknown type "tinint": did you mean "tinyint"?`}},
		{"a place within a type", `more struct`, "\u00e4 text, more struct", []string{`16:47: expected a field's name`}},
		{"a type within a type", `a json[][]`, `a jsn[][]`, []string{`16:61: unknown type "jsn": did you mean "json"?`}},
		{"not null within", `a json[][]`, `a json not null`, []string{`16:66: expected "," or ")" after the field "a"; "not null" goes with whole columns only`}},
		{"decimal", `"decimal(10, 2)"`, "decimal", []string{`14:19: a decimal needs its digits and how many of them are decimals: decimal(10,2)`}},
		{"decimal's digits", "decimal(10, 2)", "decimal(39,2)", []string{`14:28: a decimal has 1 to 38 digits, and at most as many decimals`}},
		{"after the type", "Boolean", "double precision", []string{`13:21: unexpected "precision" after the type: only "not null" may follow`}},
		{"unit", "Boolean", "{type: bigint, unit: ms}", []string{`13:35: a unit goes with a timestamptz, not with a bigint`}},
		{"unknown unit", "unit: ms", "unit: m", []string{`12:44: unknown unit "m": s, ms, us or ns since 1970; without a unit the time is ISO 8601 text`}},
		{"round", "Boolean", "{type: varchar, round: true}", []string{`13:37: round goes with a decimal, not with a varchar`}},
		{"round of no decimals", "Boolean", "{type: 'struct(a double[])', round: true}", []string{`13:50: round goes with a decimal, not with a struct("a" double[])`}},
		{"round how", "round: true", "round: up", []string{`14:44: "up" is not true or false`}},
		{"table", "public.Shops", "shops", []string{`18:18: "shops" is not a table: write schema.table, in letters, digits and _`}},
		{"on", "on: id", "on: shop", []string{`18:50: no column "shop" under events.columns: known are id, at, @kind, price, tags, place`}},
		{"on a list", "on: id", "on: tags", []string{`18:50: "tags" is a varchar[], which cannot be a key`}},
		{"transform", "day(at)", "days(at)", []string{`20:15: unknown transform "days": did you mean "day"?; a bare column means its value`}},
		{"partition", "day(at)", `"day at"`, []string{`20:15: "day at" is not a partitioning: write day(column), or a column`}},
		{"partition twice", "country", "hour(AT)", []string{`20:24: the column "AT" is in the partitioning twice`}},
		{"unique twice", "[id]", "[id, ID]", []string{`21:16: the column "ID" is given twice`}},
		{"expectation's name", "price is sane:", `"price\n":`, []string{`23:5: expectation "price\n": a name is not empty, and does not begin or end with a space`}},
		{"audit's name", "as many as before:", `it's so:`, []string{`26:5: audit "it's so": a name holds neither quotes, nor \, nor what cannot be printed`}},
		{"audit without a condition", "as many as before: (SELECT count(*) FROM old) = (SELECT count(*) FROM new)", "a:", []string{`26:7: "silver.audit.a" is empty: it must be a text`}},
		{"audit twice", "as many as before:", "a: x\n    a:", []string{`27:5: key "a" is given twice, first on line 26`}},
		{"audit that is a list", "as many as before:", "-", []string{`26:5: "silver.audit" must be a mapping, such as {key: value}`}},
		{"no audits", "    as many as before: (SELECT count(*) FROM old) = (SELECT count(*) FROM new)\n", "", []string{`25:9: "silver.audit" is empty: it must be a mapping, such as {key: value}`}},
		{"audits misspelt", "  audit:", "  audits:", []string{`25:3: unknown key "audits": did you mean "audit"?`}},
		{"long audit", "(SELECT count(*) FROM old)", strings.Repeat("1+", 1<<15) + "1", []string{`26:24: the condition is longer than 65536 bytes`}},
		{"window", "1h, c", "7h, c", []string{`28:20: a window must divide the day, or be whole days: 1m, 15m, 1h, 6h, 1d, 7d`}},
		{"short window", "1h, c", "59s, c", []string{`28:20: "gold.hourly.window" must be 1m at least and 31d at most`}},
		{"retain for the watermark", "silver: 30d", "silver: 1h", []string{
			`31:11: silver is kept for 1h, less than 2 windows of gold.hourly (1h each), which are computed from whole windows of silver`,
			`31:11: silver is kept for 1h, less than the watermark of 90m: late events would go before gold has them`}},
		{"retain for two windows", "silver: 30d", "silver: 119m", []string{
			`31:11: silver is kept for 119m, less than 2 windows of gold.hourly (1h each), which are computed from whole windows of silver`}},
		{"retain for less than a window", "gold: 365d", "gold: 59m", []string{`32:9: "retain.gold" must be 1h at least and 36500d at most`}},
		{"retain gold for a part of a window", "1h, column: hour}\nretain:\n  bronze: 36h\n  silver: 30d\n  gold: 365d", "2d, column: hour}\nretain:\n  gold: 47h", []string{
			`30:9: gold is kept for 47h, less than a window of gold.hourly (2d), which would go before it has ended`}},
		{"retain gold without gold", "gold:\n  hourly: {window: 1h, column: hour}\n", "", []string{
			`p/hourly.sql: no model of this name, "hourly", stands under gold: in pipeline.yml`,
			`30:9: there is no gold model: remove the key, or declare a model under gold`}},
		{"retain for too long", "gold: 365d", "gold: 36501d", []string{`32:9: "retain.gold" must be 1h at least and 36500d at most`}},
		{"retain for no time", "bronze: 36h", "bronze: for ever", []string{`30:11: "for ever" is not a duration: write a number and s, m, h or d, such as 10m`}},
		{"retain misspelt", "  bronze: 36h", "  bronse: 36h", []string{`30:3: unknown key "bronse": did you mean "bronze"?`}},
		{"retain of nothing", "  bronze: 36h\n  silver: 30d\n  gold: 365d\n", "", []string{`29:8: "retain" is empty: it must be a mapping, such as {key: value}`}},
		{"silver is taken", "  hourly:", "  hourly: {window: 1h, column: hour}\n  silver:", []string{`29:3: model "silver": silver.sql is taken: choose another name`}},
		{"several at once", "time: at\n  watermark: 90m", "time: when\n  watermark: soon", []string{
			`8:9: no column "when" under events.columns: known are id, at, @kind, price, tags, place`,
			`9:14: "soon" is not a duration: write a number and s, m, h or d, such as 10m`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(whole, tt.old) {
				t.Fatalf("nothing to change: %q", tt.old)
			}
			_, err := pipeline.Read(folder(strings.Replace(whole, tt.old, tt.new, 1)), "p")
			wantFaults(t, err, "p/pipeline.yml:", tt.want)
		})
	}
}

func wantFaults(t *testing.T, err error, prefix string, want []string) {
	t.Helper()
	if !errors.Is(err, smelt.ErrPipeline) {
		t.Fatalf("got %v, want an error marked ErrPipeline", err)
	}
	var faults smelt.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got %v, want Faults", err)
	}
	got := make([]string, len(faults))
	for i, f := range faults {
		got[i] = strings.TrimPrefix(f.String(), prefix)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(fstest.MapFS)
		want   []string
	}{
		{"no declaration", func(f fstest.MapFS) { delete(f, "p/pipeline.yml") },
			[]string{"p/pipeline.yml: the file does not exist"}},
		{"empty declaration", func(f fstest.MapFS) { f["p/pipeline.yml"].Data = []byte("# only this\n") },
			[]string{"p/pipeline.yml: the file is empty"}},
		{"declaration too large", func(f fstest.MapFS) { f["p/pipeline.yml"].Data = make([]byte, 1<<20+1) },
			[]string{"p/pipeline.yml: the file is larger than 1048576 bytes"}},
		{"no SQL", func(f fstest.MapFS) { delete(f, "p/silver.sql"); delete(f, "p/hourly.sql") },
			[]string{"p/hourly.sql: the file does not exist", "p/silver.sql: the file does not exist"}},
		{"empty SQL", func(f fstest.MapFS) { f["p/silver.sql"].Data = []byte(" \n") },
			[]string{"p/silver.sql: the file is empty: it must be a SELECT"}},
		{"not UTF-8", func(f fstest.MapFS) { f["p/silver.sql"].Data = []byte("SELECT\n'\u00e4\xff'") },
			[]string{"p/silver.sql:2:3: not UTF-8 text, at the byte 0xff"}},
		{"a stranger", func(f fstest.MapFS) { f["p/daily.sql"] = &fstest.MapFile{Data: []byte("SELECT 3")} },
			[]string{`p/daily.sql: no model of this name, "daily", stands under gold: in pipeline.yml`}},
		{"a test of something else", func(f fstest.MapFS) {
			f["p/test.txtar"] = &fstest.MapFile{Data: []byte("-- events.ndjson --\n-- reference/shop.csv --\na\n-- reference/shops.csv --\na\n-- gold/daily.csv --\na\n")}
		}, []string{
			`p/test.txtar:2: pipeline.yml declares no reference "shop"`,
			`p/test.txtar:4: the reference "shops" lacks its key, the column "shop_id"`,
			`p/test.txtar:6: pipeline.yml declares no gold model "daily"`}},
		{"a test that cannot be read", func(f fstest.MapFS) { f["p/test.txtar"] = &fstest.MapFile{Data: []byte("-- event.ndjson --\n")} },
			[]string{`p/test.txtar: the file "events.ndjson" is missing`, `p/test.txtar:1: unknown file "event.ndjson": did you mean "events.ndjson"?`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fsys := folder(whole)
			tt.change(fsys)
			_, err := pipeline.Read(fsys, "p")
			wantFaults(t, err, "", tt.want)
		})
	}
}

func TestReadPipelines(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"README.md":      {Data: []byte("hello")},
		".git/config":    {Data: []byte("")},
		"Odd/a.sql":      {Data: []byte("")},
		"a/pipeline.yml": {Data: []byte(strings.Replace(whole, "hourly", "b_c", 1))},
		"a/silver.sql":   {Data: []byte("SELECT 1")},
		"a/b_c.sql":      {Data: []byte("SELECT 1")},
	}
	for _, name := range []string{"pipeline.yml", "silver.sql"} {
		fsys["a_b/"+name] = fsys["a/"+name]
	}
	fsys["a_b/pipeline.yml"] = &fstest.MapFile{Data: []byte(strings.Replace(whole, "hourly", "c", 1))}
	fsys["a_b/c.sql"] = fsys["a/b_c.sql"]
	pipelines, err := pipeline.ReadAll(fsys)
	if len(pipelines) != 2 {
		t.Errorf("got %d pipelines, want the 2 that are sound by themselves", len(pipelines))
	}
	wantFaults(t, err, "", []string{
		`Odd/pipeline.yml: the file does not exist`,
		`Odd/pipeline.yml: the folder's name, "Odd", is the pipeline's: begin with a lower-case letter, then lower-case letters, digits and _`,
		`a_b/pipeline.yml:28:6: the table gold.a_b_c belongs to the pipeline "a" already: rename the model "c"`,
	})
	var faults smelt.Faults
	errors.As(err, &faults)
	if got, want := faults.Under("sql")[0].File, "sql/Odd/pipeline.yml"; got != want {
		t.Errorf("Under: got %s, want %s", got, want)
	}

	_, err = pipeline.ReadAll(fstest.MapFS{"README.md": {}})
	wantFaults(t, err, "", []string{".: no pipelines here: each is a folder that has a pipeline.yml"})
	if _, err = pipeline.ReadAll(os.DirFS(t.TempDir() + "/none")); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, smelt.ErrPipeline) {
		t.Errorf("got %v, want ErrNotExist and ErrPipeline", err)
	}
}

func TestShipped(t *testing.T) {
	t.Parallel()
	pipelines, err := pipeline.ReadAll(smelt.Shipped())
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(pipelines))
	for i, p := range pipelines {
		if names[i] = p.Name; p.Test == nil {
			t.Errorf("%s has no test.txtar", p.Name)
		}
	}
	if want := []string{"sensors"}; !reflect.DeepEqual(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

// FuzzPipeline expects no panic, faults within the file, and types that read as they print.
func FuzzPipeline(f *testing.F) {
	shipped, err := fs.ReadFile(smelt.Shipped(), "sensors/pipeline.yml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(shipped))
	f.Add(whole)
	f.Add("\r\r0")
	f.Add("a: &a [*a, {<<: *a}]\n? [b]\n: !!x c\n---\n{")
	f.Add("events: {time: t, columns: {t: 'struct(a struct(\"b c\" decimal(1,1)[]))[] not null'}}")
	f.Fuzz(func(t *testing.T, declaration string) {
		p, err := pipeline.Read(folder(declaration), "p")
		if err != nil {
			checkFaults(t, err, declaration)
			return
		}
		for _, c := range p.Events.Columns {
			other := strings.NewReplacer("TYPE", strings.ReplaceAll(c.Type.String(), "'", "''")).Replace(
				"source: {kafka: a}\nevents: {time: t, columns: {t: timestamptz not null, c: 'TYPE'}}\ngold: {hourly: {window: 1h, column: h}}")
			again, err := pipeline.Read(folder(other), "p")
			if err != nil {
				t.Fatalf("%s: %v", c.Type, err)
			}
			unprinted(&c.Type)
			if got := again.Events.Columns[1].Type; !reflect.DeepEqual(got, c.Type) {
				t.Errorf("got %+v, want %+v", got, c.Type)
			}
		}
	})
}

// unprinted takes away what a type does not print.
func unprinted(t *smelt.Type) {
	t.Unit, t.Round = "", false
	if t.Elem != nil {
		unprinted(t.Elem)
	}
	for i := range t.Fields {
		unprinted(&t.Fields[i].Type)
	}
}

func checkFaults(t *testing.T, err error, text string) {
	t.Helper()
	var faults smelt.Faults
	if !errors.As(err, &faults) || !errors.Is(err, smelt.ErrPipeline) || len(faults) == 0 {
		t.Fatalf("got %v, want Faults that are marked", err)
	}
	lines := 2 // the last, and the end of the file
	for _, r := range text {
		if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) { // YAML's line breaks
			lines++
		}
	}
	for _, fault := range faults {
		if fault.Message == "" || fault.Line < 0 || fault.Col < 0 || fault.Line > lines {
			t.Errorf("%+v is not in the file", fault)
		}
	}
}
