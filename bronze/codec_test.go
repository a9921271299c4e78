package bronze_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"smelt"
	"smelt/bronze"
)

const recordMax = 1 << 20

func TestAppendLine(t *testing.T) {
	t.Parallel()
	header := func(nameValues ...string) (hs []smelt.Header) {
		for i := 0; i < len(nameValues); i += 2 {
			hs = append(hs, smelt.Header{Name: nameValues[i], Value: []byte(nameValues[i+1])})
		}
		return hs
	}
	tests := []struct {
		name   string
		record smelt.Record
		want   string
	}{
		{"all there is",
			smelt.Record{Partition: 3, Offset: 17, Timestamp: 1789221600000, Key: []byte("hel-001"), Headers: header("trace", "4bf9"), Value: []byte(`{"a":1}`)},
			`{"partition":3,"offset":17,"timestamp":1789221600000,"key":"hel-001","headers":{"trace":"4bf9"},"value":{"a":1}}`},
		{"nothing but a value",
			smelt.Record{Timestamp: smelt.NoTimestamp, Value: []byte(`1`)},
			`{"partition":0,"offset":0,"value":1}`},
		{"null is a value",
			smelt.Record{Value: []byte(`null`)},
			`{"partition":0,"offset":0,"timestamp":0,"value":null}`},
		{"tombstone, empty key",
			smelt.Record{Key: []byte{}},
			`{"partition":0,"offset":0,"timestamp":0,"key":"","tombstone":true}`},
		{"empty value",
			smelt.Record{Value: []byte{}},
			`{"partition":0,"offset":0,"timestamp":0,"raw":""}`},
		{"not JSON",
			smelt.Record{Value: []byte("a\"\\\n\r\t\x00\x1f\x7f\u2028é")},
			`{"partition":0,"offset":0,"timestamp":0,"raw":"a\"\\\n\r\t\u0000\u001f` + "\x7f\u2028é" + `"}`},
		{"not UTF-8",
			smelt.Record{Key: []byte{0xff}, Value: []byte("\"\xff\"")},
			`{"partition":0,"offset":0,"timestamp":0,"key_base64":"/w==","raw_base64":"Iv8i"}`},
		{"line breaks between tokens",
			smelt.Record{Value: []byte("\n{\r\n\"a\":\t1}\n")},
			`{"partition":0,"offset":0,"timestamp":0,"value": {  "a":` + "\t" + `1} }`},
		{"a header named value",
			smelt.Record{Headers: header("a", "1", "value", `,"value":`), Value: []byte(`2`)},
			`{"partition":0,"offset":0,"timestamp":0,"headers":{"a":"1","\u0076alue":",\"value\":"},"value":2}`},
		{"headers: repeated, null, not UTF-8",
			smelt.Record{Headers: append(header("a", "1", "b", "\xff", "a", "2"), smelt.Header{Name: "c"}), Value: []byte(`2`)},
			`{"partition":0,"offset":0,"timestamp":0,"headers":{"a":["1","2"],"b":{"base64":"/w=="},"c":null},"value":2}`},
		{"a header whose name is not UTF-8",
			smelt.Record{Headers: append(header("a", "1", "\xff", ""), smelt.Header{Name: "c"}), Value: []byte(`2`)},
			`{"partition":0,"offset":0,"timestamp":0,"headers_base64":[["YQ==","MQ=="],["/w==",""],["Yw==",null]],"value":2}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := string(bronze.AppendLine(nil, &tt.record, recordMax)); got != tt.want+"\n" {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAppendLineOversize(t *testing.T) {
	t.Parallel()
	value := bytes.Repeat([]byte("x"), 100)
	sum := sha256.Sum256(value)
	over := `"oversize":{"size":100,"sha256":"` + hex.EncodeToString(sum[:]) + `"}}` + "\n"
	headers := []smelt.Header{{Name: "h", Value: []byte("v")}}
	r := smelt.Record{Offset: 5, Timestamp: 7, Key: []byte("k"), Headers: headers, Value: value}
	tests := []struct {
		key  string
		max  int
		want string
	}{
		{"k", 119, `{"partition":0,"offset":5,"timestamp":7,"key":"k","headers":{"h":"v"},"raw":"` + string(value) + "\"}\n"},
		{"k", 118, `{"partition":0,"offset":5,"timestamp":7,"key":"k",` + over},
		{strings.Repeat("k", 1025), 118, `{"partition":0,"offset":5,"timestamp":7,` + over},
	}
	for _, tt := range tests {
		r.Key = []byte(tt.key)
		got := bronze.AppendLine(nil, &r, tt.max)
		if string(got) != tt.want {
			t.Errorf("max %d:\n got %s\nwant %s", tt.max, got, tt.want)
		}
	}
	line, err := bronze.Decode(bronze.AppendLine(nil, &r, 10))
	if err != nil || line.Kind != bronze.KindOversize || line.Size != 100 || line.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("got %+v, %v", line, err)
	}
}

// hostile are values that some reader of JSON trips over.
func hostile() []string {
	nest := func(open, in, end string, n int) string { return strings.Repeat(open, n) + in + strings.Repeat(end, n) }
	return []string{
		``, ` `, `{}`, ` {} `, `[]`, `null`, `true`, `false`, `"x"`, `0`, `-0`, `-`, `01`, `1.`, `.5`, `1e`, `1e+`, `-1.5E-7`, `+1`, `0x10`,
		`NaN`, `-Infinity`, `nul`, `truee`, `{"a":1e400}`, `{"a":-1e400}`, `{"a":1e99999999999999999999}`, `{"a":18446744073709551616}`,
		`{"a":` + strings.Repeat("9", 400) + `}`, `{"a":0.` + strings.Repeat("3", 400) + `e-400}`,
		`{"a":"\u0000"}`, `{"\u0000":1}`, `{"a\u0000":1,"a":2}`, "{\"a\":\"\x00\"}", "\x00", "1\x00", `{"":1}`,
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":2}}`, `{"A":1,"a":2}`, `{"c":1,"c":1}`,
		`{"a":"\ud83d\ude00"}`, `{"a":"\ud800"}`, `{"a":"\udc00"}`, `{"a":"\ude00\ud83d"}`, `{"a":"\ud800\ud800"}`, `{"a":"\ud800x\udc00"}`, `{"\ud800":1}`, `{"a":"\uD83D\uDE00\uD83D"}`,
		`{"a":"\u12"}`, `{"a":"\u123g"}`, `{"a":"\x"}`, `{"a":"\`, `{"a":"\"`, `{"a":"\"\\\/\b\f\n\r\t"}`,
		"{\"a\":\"\x7f\u0080\u2028\u2029\ufeff\ufffe\uffff\U0010ffff\"}", "\ufeff{}", "{\"a\":\"\xff\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\xf4\x90\x80\x80\"}", "{\"a\":\"\xc0\x80\"}",
		"{\n  \"a\": 1,\r\n\t\"b\": [1,\n2]\n}\n", "{\"a\":\"\n\"}", "{\"a\":\"\t\"}", "{\v\"a\":1}", "{\u00a0\"a\":1}", "{\u2028}",
		`{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{1:1}`, `{'a':1}`, `{a:1}`, `[1 2]`, `{"a":1 "b":2}`, `[}`, `{]`, `[1}`, `]`, `}`, `{"a":1}}`, `{"a":1}{"a":2}`, `1 2`, `{`, `[`, `"`, `{"a":[}`,
		`{"a":1}/*c*/`, `//c`, "#c", `{"a":1};`, `,"value":`, `{"a":",\"value\":"}`, `{"b":1,"value":{"value":2}}`, `{"partition":9,"offset":9,"tombstone":true}`,
		nest("[", "", "]", bronze.MaxDepth), nest("[", "", "]", bronze.MaxDepth+1), nest(`{"a":`, "1", "}", bronze.MaxDepth), nest(`{"a":`, "1", "}", bronze.MaxDepth+1), nest("[", "", "]", 20_000), nest(`{"a":[`, "{}", "]}", 100),
		`{"a":"` + strings.Repeat("long ", 20_000) + `"}`, strings.Repeat("\x01", 3000), `{"a":"it''s"}`, `'`, `a,b`, `a	b`,
	}
}

var surrogates = regexp.MustCompile(`\\(?:u([0-9a-fA-F]{4})|.)`)

// mustEmbed is the rule as the package states it, by other means.
func mustEmbed(value []byte) bool {
	if !json.Valid(value) || !utf8.Valid(value) || depth(value) > bronze.MaxDepth {
		return false
	}
	high := -1 // where a low surrogate has to begin
	for _, m := range surrogates.FindAllSubmatchIndex(value, -1) {
		unit := uint64(0)
		if m[2] >= 0 {
			unit, _ = strconv.ParseUint(string(value[m[2]:m[3]]), 16, 16)
		}
		low := unit >= 0xdc00 && unit <= 0xdfff
		if low != (high == m[0]) || high >= 0 && high != m[0] {
			return false
		}
		high = -1
		if unit >= 0xd800 && unit <= 0xdbff {
			high = m[1]
		}
	}
	return high < 0
}

func depth(valid []byte) (deepest int) {
	dec := json.NewDecoder(bytes.NewReader(valid))
	for now := 0; ; {
		switch tok, err := dec.Token(); {
		case err != nil:
			return deepest
		case tok == json.Delim('{') || tok == json.Delim('['):
			now++
			deepest = max(deepest, now)
		case tok == json.Delim('}') || tok == json.Delim(']'):
			now--
		}
	}
}

// checkLine says how the line of a record breaks what AppendLine promises.
func checkLine(r smelt.Record) error {
	line := bronze.AppendLine(nil, &r, recordMax)
	if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' || !json.Valid(line) || !utf8.Valid(line) {
		return fmt.Errorf("not one line of JSON: %q", line)
	}
	if n := bronze.MaxLine(recordMax); len(line) > n {
		return fmt.Errorf("%d bytes, MaxLine is %d", len(line), n)
	}
	got, err := bronze.Decode(line)
	if err != nil {
		return fmt.Errorf("%w: %q", err, line)
	}
	if embed := r.Value != nil && mustEmbed(r.Value); embed != (got.Kind == bronze.KindValue) {
		return fmt.Errorf("embedded: %v: %q", !embed, r.Value)
	}
	want := r
	if got.Kind == bronze.KindValue {
		want.Value = []byte(strings.NewReplacer("\n", " ", "\r", " ").Replace(string(r.Value)))
		if value, ok := bronze.RawValue(line); !ok || !bytes.Equal(value, want.Value) {
			return fmt.Errorf("cut out: got %q, want %q", value, want.Value)
		}
	} else if bytes.Contains(line, []byte(`,"value":`)) {
		return fmt.Errorf(`,"value": in a line that embeds none: %q`, line)
	}
	want.Headers = byName(r.Headers)
	if !reflect.DeepEqual(got.Record, want) && got.Kind != bronze.KindOversize {
		return fmt.Errorf("got %+v, want %+v, line %q", got.Record, want, line)
	}
	return nil
}

// byName is the order in which headers come back.
func byName(headers []smelt.Header) []smelt.Header {
	var names []string
	for _, h := range headers {
		if !utf8.ValidString(h.Name) {
			return headers
		}
		if !slices.Contains(names, h.Name) {
			names = append(names, h.Name)
		}
	}
	var out []smelt.Header
	for _, name := range names {
		for _, h := range headers {
			if h.Name == name {
				out = append(out, h)
			}
		}
	}
	return out
}

// record makes a record of bytes that a fuzzer chose.
func record(key, value, name, header []byte, shape uint8) smelt.Record {
	r := smelt.Record{Partition: int32(shape), Offset: int64(len(value)) << 40, Timestamp: int64(shape) - 2, Key: key, Value: value}
	if shape&1 != 0 {
		r.Headers = append(r.Headers, smelt.Header{Name: string(name), Value: header})
	}
	if shape&2 != 0 {
		r.Headers = append(r.Headers, smelt.Header{Name: string(key), Value: value}, smelt.Header{Name: "value", Value: key})
	}
	if shape&4 != 0 {
		r.Headers = append(r.Headers, smelt.Header{Name: "null"}, smelt.Header{Name: string(name), Value: name})
	}
	if shape&8 != 0 {
		r.Key = nil
	}
	if shape&0xf0 == 0xf0 {
		r.Value = nil
	}
	return r
}

// records returns n records that are mutations of the hostile values.
func records(rng *rand.Rand, n int) []smelt.Record {
	seeds := slices.DeleteFunc(hostile(), func(s string) bool { return len(s) > 5000 })
	pick := func() []byte {
		b := []byte(seeds[rng.IntN(len(seeds))])
		for rng.IntN(3) > 0 && len(b) > 0 && len(b) < 1000 {
			at := rng.IntN(len(b))
			switch rng.IntN(4) {
			case 0:
				b[at] = byte(rng.Uint32())
			case 1:
				b = slices.Delete(b, at, at+1)
			case 2:
				b = slices.Insert(b, at, `{}[]",:\u0d8ec1-. `[rng.IntN(18)])
			case 3:
				b = slices.Insert(b, at, []byte(seeds[rng.IntN(20)])...)
			}
		}
		return b
	}
	rs := make([]smelt.Record, n)
	for i := range rs {
		rs[i] = record(pick(), pick(), pick(), pick(), uint8(rng.Uint32()))
		rs[i].Offset = int64(i)
	}
	return rs
}

// seeded returns a source of chance and prints its seed.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestLineHostile(t *testing.T) {
	t.Parallel()
	for _, value := range hostile() {
		if err := checkLine(record([]byte(value), []byte(value), []byte(value), []byte(value), 0x0f)); err != nil {
			t.Errorf("value %.60q: %.2000v", value, err)
		}
	}
	for _, r := range records(seeded(t), 4000) {
		if err := checkLine(r); err != nil {
			t.Fatalf("%.2000v", err)
		}
	}
}

func TestLineManyHeaders(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 16, 17, 100, 20_000} {
		r := smelt.Record{Value: []byte("1")}
		for i := range n {
			r.Headers = append(r.Headers, smelt.Header{Name: strconv.Itoa(i % 37), Value: []byte{byte(i % 100)}})
		}
		if err := checkLine(r); err != nil {
			t.Errorf("%d headers: %.1000v", n, err)
		}
	}
}

// TestEveryByte puts every byte at every place of strings of every length up to two words
// and a half, which are looked at eight bytes at a time.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	const longest = 20
	for length := 1; length <= longest; length++ {
		for at := range length {
			for b := range 256 {
				text := bytes.Repeat([]byte("a"), length)
				text[at] = byte(b)
				for _, value := range []string{`"` + string(text) + `"`, `{"` + string(text) + `":1}`, `["` + string(text) + `", 0, "a longer string"]`} {
					if err := checkLine(smelt.Record{Value: []byte(value)}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

func FuzzLine(f *testing.F) {
	for i, value := range hostile() {
		f.Add([]byte("k"), []byte(value), []byte("h"), []byte("v"), uint8(i))
	}
	f.Fuzz(func(t *testing.T, key, value, name, header []byte, shape uint8) {
		if err := checkLine(record(key, value, name, header, shape)); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, value := range hostile() {
		r := record([]byte("k"), []byte(value), []byte("h"), []byte("v"), 7)
		f.Add(bronze.AppendLine(nil, &r, recordMax))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := bronze.Decode(line)
		if err != nil || got.Kind == bronze.KindOversize {
			return
		}
		again, err := bronze.Decode(bronze.AppendLine(nil, &got.Record, recordMax))
		if err != nil || again.Record.Offset != got.Record.Offset || !bytes.Equal(again.Record.Key, got.Record.Key) {
			t.Fatalf("%q: %+v, then %+v, %v", line, got, again, err)
		}
	})
}
