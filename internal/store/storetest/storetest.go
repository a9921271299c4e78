// Package storetest is the contract that every [smelt.Store] passes.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"smelt"
)

// Run tests the stores that open returns. Each call must return an empty one.
func Run(t *testing.T, open func(t *testing.T) smelt.Store) {
	tests := []struct {
		name string
		test func(t *testing.T, s smelt.Store)
	}{
		{"round trip", testRoundTrip},
		{"not found", testNotFound},
		{"overwrite", testOverwrite},
		{"if absent", testIfAbsent},
		{"racers", testRacers},
		{"metadata", testMetadata},
		{"bad arguments", testBadArguments},
		{"body is read from its start", testBodyStart},
		{"body that breaks", testBodyBreaks},
		{"big body", testBigBody},
		{"list", testList},
		{"list pages", testListPages},
		{"list against a model", testListModel},
		{"delete", testDelete},
		{"cancelled", testCancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, open(t))
		})
	}
}

// oddKeys are keys that a careless encoding spoils, in the order of their bytes.
var oddKeys = []string{
	"odd/ leading and trailing ",
	"odd/%2F",
	"odd/%zz",
	"odd/a b+c=d&e?f#g",
	"odd/a%20b",
	"odd/a+b",
	"odd/day=2026-11-29/city=Espoo",
	"odd/quote'\"<>",
	"odd/~tilde!*()",
	"odd/Äänekoski/日本/🌡",
}

// longKey is 900 bytes: folders, because a server over a file system has names
// of at most 255.
func longKey() string {
	folder := strings.Repeat("k", 199) + "/"
	return strings.Repeat(folder, 4) + strings.Repeat("z", 100)
}

func put(t *testing.T, s smelt.Store, key, body string) {
	t.Helper()
	if err := s.Put(t.Context(), key, strings.NewReader(body), smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s smelt.Store, key string) ([]byte, smelt.Object) {
	t.Helper()
	body, object, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := body.Close(); err != nil {
		t.Fatal(err)
	}
	return data, object
}

func testRoundTrip(t *testing.T, s smelt.Store) {
	for _, key := range append([]string{"plain", longKey()}, oddKeys...) {
		for _, body := range []string{"", "x", "line\nfeed\r\n\x00\xff"} {
			put(t, s, key, body)
			data, got := get(t, s, key)
			if string(data) != body {
				t.Errorf("get %q = %q, want %q", key, data, body)
			}
			stat, err := s.Stat(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range []smelt.Object{got, stat} {
				if o.Key != key || o.Size != int64(len(body)) || o.Modified.IsZero() || len(o.Meta) != 0 {
					t.Errorf("%q is described as %+v", key, o)
				}
			}
		}
	}
}

func testNotFound(t *testing.T, s smelt.Store) {
	put(t, s, "there/too", "x")
	for _, key := range []string{"missing", "there/missing", "there", longKey()} {
		body, _, err := s.Get(t.Context(), key)
		if !errors.Is(err, smelt.ErrNotFound) || body != nil {
			t.Errorf("get %q = %v, %v, want ErrNotFound", key, body, err)
		}
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("stat %q = %v, want ErrNotFound", key, err)
		}
	}
}

func testOverwrite(t *testing.T, s smelt.Store) {
	put(t, s, "k", "first, and longer")
	put(t, s, "k", "second")
	if data, _ := get(t, s, "k"); string(data) != "second" {
		t.Errorf("got %q", data)
	}
}

func testIfAbsent(t *testing.T, s smelt.Store) {
	once := smelt.PutOptions{IfAbsent: true}
	for i := range 2 {
		if err := s.Put(t.Context(), "k", strings.NewReader("first"), once); err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{"second", "first", ""} {
			err := s.Put(t.Context(), "k", strings.NewReader(body), once)
			if !errors.Is(err, smelt.ErrExists) || errors.Is(err, smelt.ErrStore) {
				t.Errorf("round %d, put %q = %v, want ErrExists alone", i, body, err)
			}
		}
		if data, _ := get(t, s, "k"); string(data) != "first" {
			t.Errorf("round %d: got %q", i, data)
		}
		if err := s.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
}

func testRacers(t *testing.T, s smelt.Store) {
	const racers = 50
	errs := make([]error, racers)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range racers {
		group.Go(func() {
			<-start
			body := strings.NewReader(strings.Repeat(fmt.Sprintln("racer", i), 1000))
			errs[i] = s.Put(t.Context(), "race/line", body, smelt.PutOptions{
				IfAbsent: true,
				Meta:     map[string]string{"writer": fmt.Sprint(i)},
			})
		})
	}
	close(start)
	group.Wait()

	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Errorf("racers %d and %d both won", winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, smelt.ErrExists):
			t.Errorf("racer %d: %v", i, err)
		}
	}
	data, object := get(t, s, "race/line")
	if want := strings.Repeat(fmt.Sprintln("racer", winner), 1000); string(data) != want {
		t.Errorf("the object is not the body of racer %d", winner)
	}
	if object.Meta["writer"] != fmt.Sprint(winner) {
		t.Errorf("the metadata is of racer %s, the winner is %d", object.Meta["writer"], winner)
	}
}

func testMetadata(t *testing.T, s smelt.Store) {
	want := map[string]string{
		"writer-id":   "f3a9",
		"end":         "00000000000000000017",
		"range2":      `1789221600000..1789221601000`,
		"printable":   `a "quoted, \ value"; x=1 (~!@#$%^&*) {[<'>]}`,
		"two--hyphen": "a  b",
	}
	err := s.Put(t.Context(), "meta/data", strings.NewReader("x"), smelt.PutOptions{Meta: want})
	if err != nil {
		t.Fatal(err)
	}
	_, got := get(t, s, "meta/data")
	stat, err := s.Stat(t.Context(), "meta/data")
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.Meta, want) || !maps.Equal(stat.Meta, want) {
		t.Errorf("got  %q\nstat %q\nwant %q", got.Meta, stat.Meta, want)
	}
	got.Meta["writer-id"] = "changed"
	if _, again := get(t, s, "meta/data"); again.Meta["writer-id"] != "f3a9" {
		t.Error("a caller changed the store's metadata")
	}
}

func testBadArguments(t *testing.T, s smelt.Store) {
	for _, key := range []string{"", strings.Repeat("a/", 513), "bad\xffutf"} {
		if err := s.Put(t.Context(), key, strings.NewReader("x"), smelt.PutOptions{}); err == nil {
			t.Errorf("put took the key %.20q", key)
		}
		if _, _, err := s.Get(t.Context(), key); err == nil {
			t.Errorf("get took the key %.20q", key)
		}
	}
	for name, value := range map[string]string{
		"Upper": "x", "under_score": "x", "": "x", "feed": "a\nb", "nonascii": "ä", "spaces": " x ",
		"long": strings.Repeat("x", 2<<10),
	} {
		opts := smelt.PutOptions{Meta: map[string]string{name: value}}
		if err := s.Put(t.Context(), "bad", strings.NewReader("x"), opts); err == nil {
			t.Errorf("put took the metadata %.20q=%.20q", name, value)
		}
	}
	if objects, err := s.List(t.Context(), "", "", 10); err != nil || len(objects) > 0 {
		t.Errorf("after refused puts the store holds %v, %v", objects, err)
	}
}

func testBodyStart(t *testing.T, s smelt.Store) {
	body := strings.NewReader("whole body")
	if _, err := io.CopyN(io.Discard, body, 6); err != nil {
		t.Fatal(err)
	}
	closed := false
	if err := s.Put(t.Context(), "k", &closer{body, &closed}, smelt.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if data, _ := get(t, s, "k"); string(data) != "whole body" {
		t.Errorf("got %q", data)
	}
	if closed {
		t.Error("put closed the caller's body")
	}
}

type closer struct {
	io.ReadSeeker
	closed *bool
}

func (c *closer) Close() error { *c.closed = true; return nil }

// testBodyBreaks breaks a body in each of the passes that a store makes over it.
func testBodyBreaks(t *testing.T, s smelt.Store) {
	broken := errors.New("the disk is gone")
	for pass := 1; ; pass++ {
		body := &breaking{ReadSeeker: bytes.NewReader(make([]byte, 1<<20)), passes: pass, err: broken}
		err := s.Put(t.Context(), "k", body, smelt.PutOptions{IfAbsent: true})
		if err == nil {
			if pass == 1 {
				t.Error("the body was never read")
			}
			return // it needed fewer passes
		}
		if !errors.Is(err, broken) || errors.Is(err, smelt.ErrStore) {
			t.Fatalf("pass %d: got %v, want the body's error, not the store's", pass, err)
		}
		if o, err := s.Stat(t.Context(), "k"); !errors.Is(err, smelt.ErrNotFound) {
			t.Fatalf("pass %d: half an object is there: %+v, %v", pass, o, err)
		}
	}
}

// breaking fails in the middle of a pass over it.
type breaking struct {
	io.ReadSeeker
	passes int // the pass that fails, from 1
	read   int // bytes of this pass
	err    error
}

func (b *breaking) Read(p []byte) (int, error) {
	const half = 1 << 19
	if b.passes == 1 && b.read >= half {
		return 0, b.err
	}
	n, err := b.ReadSeeker.Read(p[:min(len(p), half)])
	b.read += n
	if err == io.EOF {
		b.passes--
	}
	return n, err
}

func (b *breaking) Seek(offset int64, whence int) (int64, error) {
	b.read = 0
	return b.ReadSeeker.Seek(offset, whence)
}

func testBigBody(t *testing.T, s smelt.Store) {
	body := make([]byte, 20<<20)
	rand.NewChaCha8([32]byte{1}).Read(body)
	once := smelt.PutOptions{IfAbsent: true}
	if err := s.Put(t.Context(), "big", bytes.NewReader(body), once); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "big", bytes.NewReader(body), once); !errors.Is(err, smelt.ErrExists) {
		t.Errorf("a second big put = %v, want ErrExists", err)
	}
	if data, object := get(t, s, "big"); !bytes.Equal(data, body) || object.Size != int64(len(body)) {
		t.Errorf("%d bytes of %d came back, or other ones", len(data), len(body))
	}
}

// list returns the keys of a listing, and checks its objects.
func list(t *testing.T, s smelt.Store, prefix, after string, limit int) []string {
	t.Helper()
	objects, err := s.List(t.Context(), prefix, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range objects {
		keys = append(keys, o.Key)
		if o.Meta != nil || o.Modified.IsZero() || o.Size != int64(len(o.Key)) {
			t.Errorf("%q is listed as %+v", o.Key, o)
		}
	}
	return keys
}

// fill puts an object at each key, of as many bytes as the key has.
func fill(t *testing.T, s smelt.Store, keys []string) {
	t.Helper()
	work := make(chan string)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for key := range work {
				if err := s.Put(t.Context(), key, strings.NewReader(key), smelt.PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, key := range keys {
		work <- key
	}
	close(work)
	group.Wait()
}

func testList(t *testing.T, s smelt.Store) {
	sorted := append([]string{
		"a-b", "a.b", "a/1", "a/2", "a/2.x", "a/3/deep/er", "a0", "ab/1", "b/00010", "b/00009.z", "b/9", "c", longKey(),
	}, oddKeys...)
	fill(t, s, sorted)
	slices.Sort(sorted)
	if got := list(t, s, "", "", 100); !slices.Equal(got, sorted) {
		t.Fatalf("list:\n got %q\nwant %q", got, sorted)
	}
	afters := append([]string{"", " ", "a", "a/", "a/20", "b/1", "odd", "odd/a%", "zzz", "\U0010ffff"}, sorted...)
	for i, prefix := range []string{"", "a", "a/", "a/2", "a/3/de", "b/0", "odd/", "odd/a%", "odd/Ä", "c", "c/", "zz", longKey()[:450]} {
		for j, after := range afters {
			want := model(sorted, prefix, after)
			limits := []int{0, 1, 2, len(want), len(want) + 1}
			limit := limits[(i+j)%len(limits)]
			got := list(t, s, prefix, after, limit)
			if cut := want[:min(limit, len(want))]; !slices.Equal(got, cut) {
				t.Errorf("list %.40q after %.40q limit %d:\n got %.300q\nwant %.300q", prefix, after, limit, got, cut)
			}
		}
	}
}

// model is what a listing without a limit returns.
func model(sorted []string, prefix, after string) []string {
	var found []string
	for _, key := range sorted {
		if strings.HasPrefix(key, prefix) && key > after {
			found = append(found, key)
		}
	}
	return found
}

func testListPages(t *testing.T, s smelt.Store) {
	const n = 1010 // over the thousand of one S3 request
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("pages/%020d.ndjson.zst", i*7))
	}
	fill(t, s, keys)
	for _, limit := range []int{1000, 1001, n + 1} {
		if got := list(t, s, "pages/", "", limit); !slices.Equal(got, keys[:min(limit, n)]) {
			t.Errorf("limit %d: %d keys, or other ones", limit, len(got))
		}
	}
	var all []string
	for after := ""; ; {
		page := list(t, s, "pages/", after, 505)
		all = append(all, page...)
		if len(page) < 505 {
			break
		}
		after = page[len(page)-1]
	}
	if !slices.Equal(all, keys) {
		t.Errorf("by pages: %d keys of %d, or other ones", len(all), n)
	}
	if err := s.Delete(t.Context(), keys...); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s, "", "", 10); len(got) > 0 {
		t.Errorf("after deleting all: %q", got)
	}
}

func testListModel(t *testing.T, s smelt.Store) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	word := func() string {
		var b strings.Builder
		for range 1 + random.IntN(3) {
			b.WriteByte("-.0=Aaz~"[random.IntN(8)])
		}
		return b.String()
	}
	// Names are files or folders, not both, and none is "." or "..": some
	// servers keep objects as files.
	key := func() string { return "d" + word() + "/d" + word() + "/f" + word() }
	var keys []string
	for range 60 {
		keys = append(keys, key())
	}
	fill(t, s, keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for range 100 {
		from, after := key(), key()
		prefix := from[:random.IntN(len(from))]
		after = after[:random.IntN(len(after)+1)]
		if random.IntN(2) == 0 {
			after = keys[random.IntN(len(keys))]
		}
		limit := 1 + random.IntN(70)
		want := model(keys, prefix, after)
		if got := list(t, s, prefix, after, limit); !slices.Equal(got, want[:min(limit, len(want))]) {
			t.Errorf("list %q after %q limit %d:\n got %q\nwant %q", prefix, after, limit, got, want)
		}
	}
}

func testDelete(t *testing.T, s smelt.Store) {
	keys := append([]string{"d/1", "d/2", "d/3"}, oddKeys...)
	fill(t, s, keys)
	steps := []struct {
		name   string
		delete []string
	}{
		{"nothing", nil},
		{"a missing one", []string{"d/missing"}},
		{"one below an object", []string{"d/1/below"}},
		{"several missing", []string{"no/1", "no/2"}},
		{"one", keys[:1]},
		{"some, one of them gone", append([]string{"d/gone"}, keys[:3]...)},
		{"the rest", keys[3:]},
	}
	for _, step := range steps {
		if err := s.Delete(t.Context(), step.delete...); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return slices.Contains(step.delete, key) })
		slices.Sort(keys)
		if got := list(t, s, "", "", 100); !slices.Equal(got, keys) {
			t.Errorf("%s: %q is left, want %q", step.name, got, keys)
		}
	}
}

func testCancelled(t *testing.T, s smelt.Store) {
	put(t, s, "k", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, getErr := s.Get(ctx, "k")
	_, statErr := s.Stat(ctx, "k")
	_, listErr := s.List(ctx, "", "", 10)
	for call, err := range map[string]error{
		"get":         getErr,
		"stat":        statErr,
		"list":        listErr,
		"put":         s.Put(ctx, "new", strings.NewReader("x"), smelt.PutOptions{}),
		"delete":      s.Delete(ctx, "k"),
		"delete many": s.Delete(ctx, "k", "l"),
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, smelt.ErrStore) {
			t.Errorf("%s = %v, want context.Canceled, not the store's fault", call, err)
		}
	}
	if got, err := s.List(t.Context(), "", "", 10); err != nil || len(got) != 1 || got[0].Key != "k" {
		t.Errorf("the store holds %v, %v", got, err)
	}
}
