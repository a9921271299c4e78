package crash_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"smelt/internal/duck"
	"smelt/internal/store"
	"smelt/internal/table"
)

var (
	places = flag.Int("crash.places", 1, "at how many of its places to die at each point: the first, the last, and some between")
	all    = flag.Bool("crash.all", false, "die at every place, twice as well, and go on to the end of the scenario each time")
	update = flag.Bool("update", false, "write docs/crash-points.md")
)

const documentFile = "../../docs/crash-points.md"

// TestCrash plays a scenario, and lets the process die before and after each of the
// points that are in parts, at some of the places where it comes to them. A new
// process goes on to the end of the chapter.
//
//	go test -run TestCrash -crash.places=3 ./internal/crash
//	go test -run TestCrash -crash.all -timeout 2h ./internal/crash
func TestCrash(t *testing.T) {
	t.Parallel()
	s := &stage{dir: t.TempDir(), index: newIndex(parts())}
	var err error
	if s.duck, err = duck.Open(duck.Config{MemoryBytes: 1 << 30, TempDir: s.dir, Threads: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.duck.Close(); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, s.rehearse)
	if t.Failed() {
		return
	}
	for i, d := range s.deaths(t) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { s.dies(t, d, 1, *all || i%thorough == 0) })
			if *all || i%twice == 0 {
				synctest.Test(t, func(t *testing.T) { s.dies(t, d, 2, false) })
			}
		})
	}
}

const (
	// twice is of how many deaths one is died again by the process that goes on.
	twice = 20
	// thorough is the number of deaths after which the line runs once more and the lake is recounted. By then its content was
	// compared with that of a recounted lake.
	thorough = 3
)

// stage is where the scenario is played, and how it went without a death.
type stage struct {
	duck   *duck.DB
	dir    string
	index  index
	scenes []scene
}

// scene is an act as it went without a death.
type scene struct {
	act
	begins moment
	did    []string
	ends   state // of the last act of a chapter
}

// rehearse plays the scenario without a death.
func (s *stage) rehearse(t *testing.T) {
	p, err := newPipeline()
	if err != nil {
		t.Fatal(err)
	}
	ctx, acts := context.Background(), scenario()
	w := newWorld(moment{at: time.Now(), clock: time.Now(), pipeline: p, objects: store.NewMemory(), catalog: table.NewMemoryCatalog()}, s.duck, s.dir)
	for i, a := range acts {
		if a.world != nil {
			if err := a.world(w); err != nil {
				t.Fatalf("%s: before %s: %v", a.chapter, a.by, err)
			}
		}
		here := scene{act: a, begins: w.moment()}
		p, err := w.play(ctx, a, nil)
		if err != nil {
			t.Fatalf("%s: %s: %v", a.chapter, a.by, err)
		}
		here.did = p.did
		if i+1 == len(acts) || acts[i+1].chapter != a.chapter {
			err := w.checked(ctx, func(c *checker) (err error) {
				if here.ends, err = c.state(ctx); err != nil {
					return err
				}
				return c.verify(ctx)
			})
			if err != nil {
				t.Fatalf("%s: after %s: %v", a.chapter, a.by, err)
			}
		}
		s.scenes = append(s.scenes, here)
	}
}

// death is a place in a scene at which a process dies: when it has done so many
// things that others can see.
type death struct {
	scene int
	done  int
	name  string
}

// place is one of the things that others can see, in a scene.
type place struct{ scene, n int }

// deaths chooses where to die. What comes after one thing comes before the next, so
// there are fewer deaths than twice the points. It checks that each thing done is a
// point, and each point is done.
func (s *stage) deaths(t *testing.T) (out []death) {
	found := map[string][]place{}
	for i, scene := range s.scenes {
		for n, doing := range doings(scene.by, scene.did) {
			name := s.index.of(doing)
			if name == "" {
				t.Errorf("%s: %q is at no point of the table", scene.chapter, doing)
			}
			found[name] = append(found[name], place{i, n})
		}
	}
	chosen := map[place]bool{}
	if twice := len(s.index.names) - len(slices.Compact(slices.Sorted(slices.Values(s.index.names)))); twice > 0 {
		t.Errorf("%d points have the name of another", twice)
	}
	for _, name := range s.index.names {
		at := found[name]
		if len(at) == 0 {
			t.Errorf("nothing comes to %q", name)
		}
		for _, p := range some(at) {
			chosen[p], chosen[place{p.scene, p.n + 1}] = true, true
		}
	}
	for i, scene := range s.scenes {
		for n := range len(scene.did) + 1 {
			if chosen[place{i, n}] {
				out = append(out, death{i, n, fmt.Sprintf("%s, %s, %d: %s", scene.chapter, scene.by, n, between(scene.did, n))})
			}
		}
	}
	return out
}

// some are the first of some places, the last, and those between, as the flags say.
func some(at []place) []place {
	if *all || len(at) <= *places {
		return at
	}
	out := at[:1:1]
	for i := 1; i < *places; i++ {
		out = append(out, at[i*(len(at)-1)/(*places-1)])
	}
	return out
}

// between says where a death is.
func between(did []string, n int) string {
	switch {
	case n == 0:
		return "before " + did[0]
	case n == len(did):
		return "after " + did[n-1]
	}
	return "after " + did[n-1] + ", before " + did[n]
}

// dies plays a scene in which the process dies, and so often the one that goes on,
// and then lets another go on to the end.
func (s *stage) dies(t *testing.T, d death, times int, thorough bool) {
	scene, ctx := s.scenes[d.scene], context.Background()
	w := newWorld(scene.begins, s.duck, s.dir)
	for round := range times {
		p, err := w.play(ctx, scene.act, d.at(scene.did))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.did); round == 0 && (p.reads() == lives || !alike(p.did[n-1], scene.did[n-1])) {
			t.Fatalf("it does not die here: it did\n\t%s\nwhere it did before\n\t%s", strings.Join(p.did, "\n\t"), strings.Join(scene.did, "\n\t"))
		}
		if err := w.checked(ctx, func(c *checker) error { return c.whole(ctx) }); err != nil {
			t.Errorf("after the death: %v", err)
		}
		if scene.aside {
			if err := w.undisturbed(goesOn); err != nil {
				t.Fatalf("after the death, the line: %v", err)
			}
		}
	}
	end := d.scene
	for k := d.scene; ; k++ {
		next := s.scenes[k]
		if k > d.scene && next.world != nil {
			if err := next.world(w); err != nil {
				t.Fatalf("before %s: %v", next.by, err)
			}
		}
		if _, err := w.play(ctx, next.act, nil); err != nil {
			t.Fatalf("going on with %s: %v", next.by, err)
		}
		if end = k; next.ends != nil && (!*all || k+1 == len(s.scenes)) {
			break
		}
	}
	if err := w.checked(ctx, func(c *checker) error { return c.is(ctx, s.scenes[end].ends) }); err != nil {
		t.Fatal(err)
	}
	if thorough {
		if err := w.undisturbed(goesOn); err != nil {
			t.Fatalf("in the end, the line: %v", err)
		}
		if err := w.checked(ctx, func(c *checker) error { return c.verify(ctx) }); err != nil {
			t.Error(err)
		}
	}
	if err := w.checked(ctx, func(c *checker) error { return c.clean(ctx) }); err != nil {
		t.Error(err)
	}
}

// alike compares what was done without the numbers: of several files that are put at
// once, any may be the first.
func alike(a, b string) bool {
	letters := func(text string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, text)
	}
	return letters(a) == letters(b)
}

// at has a process die when it has done as much as the death says.
func (d death) at(did []string) func(n int) dying {
	return func(n int) dying {
		switch {
		case n == d.done:
			return diesBefore
		case n == d.done-1 && d.done == len(did):
			return diesAfter
		}
		return lives
	}
}

// play lets a process perform an act. Its death is not an error.
func (w *world) play(ctx context.Context, a act, at func(n int) dying) (*process, error) {
	p, err := w.process(a.by)
	if err != nil {
		return nil, err
	}
	p.at = at
	if a.rival != nil {
		p.before = w.meanwhile(ctx, a)
	}
	if err = a.do(ctx, p); p.reads() != lives {
		p.bury()
		return p, nil
	}
	return p, err
}

// meanwhile lets the act's rival do its work, once.
func (w *world) meanwhile(ctx context.Context, a act) func(did string) {
	var done atomic.Bool // calls come side by side
	return func(did string) {
		if !strings.HasPrefix(did, a.meanwhile) || !done.CompareAndSwap(false, true) {
			return
		}
		rival, err := w.process("rival")
		if err == nil {
			rival.free = true
			err = a.rival(ctx, rival)
		}
		if err != nil {
			panic(err)
		}
	}
}

// TestDocument holds docs/crash-points.md against the points.
func TestDocument(t *testing.T) {
	t.Parallel()
	want := document(parts())
	if *update {
		if err := os.WriteFile(documentFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the points say: go test ./internal/crash -run TestDocument -update", documentFile)
	}
}
