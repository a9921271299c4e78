package silver_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"smelt"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random events; 0: by the clock")

// everyType declares a column of each type, under names of all sorts.
const everyType = `source: {kafka: t}
events:
  time: ts
  columns:
    ts:         timestamptz not null
    text:       varchar
    must:       varchar not null
    "a b":      boolean
    "a.b":      tinyint
    "a/b":      smallint
    "~x":       integer
    Größe:      bigint
    f:          float
    d:          double
    "$.d":      decimal(10,2)
    big:        decimal(38,10)
    day:        date
    iso:        timestamptz
    s:          {type: timestamptz, unit: s}
    ms:         {type: timestamptz, unit: ms}
    us:         {type: timestamptz, unit: us}
    ns:         {type: timestamptz, unit: ns}
    id:         uuid
    doc:        json
    texts:      varchar[]
    numbers:    bigint[][]
    place:      'struct(lat double, "street no" varchar, opened struct("on" date, docs json))'
    spots:      'struct(n integer, at timestamptz)[]'
    decimals:   'decimal(5,1)[]'
`

// everything is the pipeline of everyType; its silver has all that bronze shows.
func everything(t *testing.T) *smelt.Pipeline {
	t.Helper()
	fsys := fstest.MapFS{
		"every/pipeline.yml": {Data: []byte(everyType)},
		"every/silver.sql":   {Data: []byte("SELECT * EXCLUDE (_timestamp, _key, _headers) FROM bronze.every")},
	}
	p, err := smelt.ReadPipeline(fsys, "every")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPathsAgree sends random events, good ones and odd ones in every way,
// through both paths: what comes out is the same.
func TestPathsAgree(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	p := everything(t)
	g := &generator{rand.New(rand.NewPCG(seed, 1)), p.Events.Columns}
	fast, careful := open(t, p, false), open(t, p, true)
	const files, records = 24, 12
	var sent []smelt.Record
	for range files {
		batch := g.batch(records)
		sent = append(sent, batch...)
		for _, l := range []*lake{fast, careful} {
			l.Topic.Append(batch...)
			if _, err := l.Bronze.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	fast.drain(t)
	careful.drain(t)
	columns := "_partition_offset"
	for _, c := range p.Events.Columns {
		columns += "," + c.Name
	}
	agree(t, seed, sent, fast.rows(t, "silver.every", columns), careful.rows(t, "silver.every", columns))
	columns = "_partition_offset,_timestamp,_key,raw,stage,reason,field,detail"
	agree(t, seed, sent, fast.rows(t, "quarantine.every", columns), careful.rows(t, "quarantine.every", columns))
	n := len(careful.rows(t, "silver.every", "ts"))
	t.Logf("seed %d: %d of %d good", seed, n, files*records)
	if n < files*records/10 || n > files*records*9/10 {
		t.Errorf("seed %d: %d of %d records are good: the test has lost its point", seed, n, files*records)
	}
}

// agree compares rows, which begin with their record's offset.
func agree(t *testing.T, seed uint64, sent []smelt.Record, fast, careful []string) {
	t.Helper()
	told := 0
	has := map[string]bool{}
	for _, r := range careful {
		has[r] = true
	}
	for _, r := range fast {
		if has[r] {
			delete(has, r)
			continue
		}
		var offset int
		fmt.Sscan(strings.ReplaceAll(r, ",", " "), &offset)
		if told++; told <= 5 {
			t.Errorf("seed %d: the fast path alone has\n%s\nof the record\n%s", seed, r, sent[offset].Value)
		}
	}
	for r := range has {
		if told++; told <= 10 {
			t.Errorf("seed %d: the careful path alone has\n%s", seed, r)
		}
	}
}

// generator makes events.
type generator struct {
	*rand.Rand
	columns []smelt.Column
}

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

// batch is the records of a file: in some files one is odd, in some many are,
// and in some a value is none that the fast path takes.
func (g *generator) batch(n int) []smelt.Record {
	batch := make([]smelt.Record, n)
	kind, odd := g.IntN(3), g.IntN(n)
	for i := range batch {
		oddness := 0.0
		if i == odd || kind > 0 && g.IntN(2) == 0 {
			oddness = g.Float64() * 0.1
		}
		batch[i] = smelt.Record{Timestamp: 1795953601000, Key: []byte(g.one("k", "é", "")), Value: []byte(g.event(oddness, kind == 2))}
		if g.IntN(40) == 0 {
			batch[i].Timestamp = smelt.NoTimestamp
		}
		if g.IntN(40) == 0 {
			batch[i].Value = nil
		}
		if kind > 0 && g.IntN(40) == 0 {
			batch[i].Value = []byte(g.one("{", "", " ", "{}", "{\"ts\":1,}", "\xff", `{"must":"\ud800"}`, "{\"a\":1}{}", "nul"))
		}
		if kind == 2 && g.IntN(40) == 0 {
			batch[i].Value = []byte(g.one("[]", "1", "null", `"x"`, "true"))
		}
	}
	return batch
}

func (g *generator) event(oddness float64, twice bool) string {
	var members []string
	for _, i := range g.Perm(len(g.columns)) {
		c := g.columns[i]
		odd := g.Float64() < oddness
		if !c.NotNull && g.IntN(5) == 0 || odd && g.IntN(10) == 0 {
			continue
		}
		name := c.Name
		if odd && g.IntN(10) == 0 {
			name = strings.ToUpper(name)
		}
		members = append(members, g.member(name, g.value(c.Type, odd)))
		if twice && odd && g.IntN(8) == 0 {
			members = append(members, g.member(name, g.value(c.Type, g.IntN(2) == 0)))
		}
	}
	if g.IntN(4) == 0 {
		members = append(members, g.member("not declared", g.odd()))
	}
	return "{" + strings.Join(members, g.one(",", ", ", "\n,")) + "}"
}

func (g *generator) member(name, value string) string {
	return fmt.Sprintf("%q%s%s", name, g.one(":", ": ", " :\t"), value)
}

// value is a value of a type, good or odd.
func (g *generator) value(t smelt.Type, odd bool) string {
	if odd && g.IntN(3) > 0 {
		return g.odd()
	}
	switch t.Name {
	case "list":
		elems := make([]string, g.IntN(4))
		for i := range elems {
			elems[i] = g.value(*t.Elem, odd && g.IntN(2) == 0)
		}
		return "[" + strings.Join(elems, ",") + "]"
	case "struct":
		var members []string
		for _, f := range t.Fields {
			if g.IntN(6) > 0 {
				members = append(members, g.member(f.Name, g.value(f.Type, odd && g.IntN(2) == 0)))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	return g.good(t)
}

func (g *generator) good(t smelt.Type) string {
	switch {
	case t.Name == "varchar":
		return g.one(`""`, `"x"`, `" x "`, `"null"`, `"é😀"`, `"\u0041\n\t\"\\\/"`, `"\ud83d\ude00"`, `"1"`, `"[1]"`, `"a'b"`)
	case t.Name == "boolean":
		return g.one("true", "false")
	case t.Name == "timestamptz" && t.Unit != "":
		zeros := map[string]string{"s": "", "ms": "000", "us": "000000", "ns": "000000000"}[t.Unit]
		return g.one("0", "-1", "1795953600"+zeros, "1795953599"+zeros+".5", "1.5e3", "-62135596800"+zeros)
	case t.Name == "timestamptz":
		return g.one(`"2026-11-29T12:00:00Z"`, `"2026-11-29t12:00:00.5z"`, `"2026-11-29 12:00:00.123456789+01:30"`, `"2026-11-29T12:00"`, `"2026-11-29T12:00:00-05"`, `"1999-12-31T23:59:59+0100"`)
	case t.Name == "date":
		return g.one(`"2026-11-29"`, `"0001-01-01"`, `"2024-02-29"`)
	case t.Name == "uuid":
		return g.one(`"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`, `"6BA7B810-9DAD-11D1-80B4-00C04FD430C8"`)
	case t.Name == "json":
		return g.one(`{"a": [1, 2.50, {"b":null}]}`, "[]", `"x"`, "1.0", "true", `{"a":1,"a":2}`, "1e5")
	case t.Name == "float" || t.Name == "double":
		return g.one("0", "-0", "-0.0", "1", "1.5", "-2.25e-3", "1E5", "0.1", "3.4e38", "5e-324", "123456789012345678")
	case strings.HasPrefix(t.Name, "decimal"):
		return g.one("0", "-0", "12.5", "1e2", "-99.9", "0.001", "1.005", "1.5E-1")
	}
	return g.one("0", "-1", "7", "127", "-128", "-0")
}

func (g *generator) odd() string {
	return g.one("null", "true", "false", `"true"`, "0", "-0", "1", "1.0", "1.5", "1e2", "1e400", "-1e400", "1e-400", "128", "32768", "2147483648",
		"9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616", strings.Repeat("9", 40), "0."+strings.Repeat("1", 60),
		"12345678.905", "99999999.995", "NaN", "Infinity", "-Infinity", "01", "+1", ".5", "5.", "0x1F", "1_000", `"42"`, `"1.5"`, `"NaN"`, `""`, `" "`, `"null"`,
		`"infinity"`, `"-infinity"`, `"epoch"`, `"now"`, `"today"`, `"2026-11-29"`, `"2026-02-30"`, `"2026-11-29T24:00:00Z"`, `"2026-11-29T12:00:60Z"`,
		`"2026-11-29T12:00:00+25:00"`, `"2026-11-29T12:00:00 Europe/Berlin"`, `" 2026-11-29T12:00:00Z "`, `"2026-11-29T12:00:00Z\n"`, `"2026-11-29T12:00:00.Z"`, `"99999-01-01T00:00:00Z"`,
		`"0000-01-01T00:00:00Z"`, `"1899-12-31T23:59:59Z"`, `"2031-01-01T00:00:00Z"`, `"2026-11-29T12:00:00−05:00"`, `"2026-11-29 BC"`, `"\u0032026-11-29"`,
		`"6ba7b8109dad11d180b400c04fd430c8"`, `"{6ba7b810-9dad-11d1-80b4-00c04fd430c8}"`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c"`, `"a\u0000b"`, `"\ud800"`, `"\x"`,
		"[]", "{}", "[1]", "[null]", `["a",1]`, `[[1],[2,"x"]]`, `[[9223372036854775808]]`, "[[],[null]]", `{"lat":"1"}`, `{"LAT":1}`, `{"lat":1,"lat":2}`, `{"lat":null,"street no":null,"opened":null}`,
		`{"street no":5}`, `{"opened":{"on":"2026-02-30"}}`, `{"opened":{"on":"2026-02-28","docs":[1]},"x":[[]]}`, `{"opened":[]}`, `[{"n":1},{"n":1.5}]`, `[{"n":1,"at":"x"}]`, `[{},null]`, `[1,]`,
		`{"a":1,}`, "[1 2]", "tru", "'x'", "/**/1", strings.Repeat("[", 60)+strings.Repeat("]", 60), `"`+strings.Repeat("x", 300)+`"`)
}
