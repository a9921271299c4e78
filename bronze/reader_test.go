package bronze_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"smelt"
	"smelt/bronze"
	"smelt/internal/store"
)

// chain writes objects of two records each to partition 0.
func chain(t *testing.T, objects int) (*store.Memory, *bronze.Reader) {
	lake, tp := store.NewMemory(), newTopic()
	w := newWriter(t, "a", lake, tp)
	for range objects {
		tp.fill(1, 2)
		step(t, w)
	}
	return lake, bronze.NewReader(lake, "p")
}

func after(t *testing.T, r *bronze.Reader, position, maxBytes int64) []bronze.Ref {
	t.Helper()
	refs, err := r.After(t.Context(), 0, position, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return refs
}

func TestReaderAfter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, r := chain(t, 4)
		all := after(t, r, -1, 1<<20)
		if len(all) != 4 || all[0].Start != 0 {
			t.Fatalf("got %+v", all)
		}
		for i, want := range []int{4, 3, 2, 1} {
			if refs := after(t, r, all[i].Start, 1<<20); len(refs) != want || refs[0] != all[i] {
				t.Errorf("after %d: %+v", all[i].Start, refs)
			}
		}
		if refs := after(t, r, 0, 1); len(refs) != 1 {
			t.Errorf("at least one: %+v", refs)
		}
		if refs := after(t, r, 0, all[0].Size+all[1].Size); len(refs) != 2 {
			t.Errorf("two: %+v", refs)
		}
		last, err := r.Last(t.Context(), 0)
		if err != nil || last.Chain.Count != 8 {
			t.Errorf("last: %+v, %v", last, err)
		}
		if refs := after(t, r, last.End, 1<<20); len(refs) != 0 {
			t.Errorf("after the end: %+v", refs)
		}
		if _, err := r.Last(t.Context(), 7); !errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("no such partition: %v", err)
		}
	})
}

func TestReaderDownload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, r := chain(t, 1)
		ref := after(t, r, -1, 1)[0]
		path := filepath.Join(t.TempDir(), "object")
		m, err := r.Download(t.Context(), ref, path)
		if err != nil || m.Count != 2 || m.Start != 0 {
			t.Fatalf("%+v, %v", m, err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		body, _, err := lake.Get(t.Context(), ref.Key)
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		if want, err := io.ReadAll(body); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %d bytes, want %d, %v", len(got), len(want), err)
		}
	})
}

func TestReaderStopsAtBreak(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, r := chain(t, 4)
		all := after(t, r, -1, 1<<20)
		if err := lake.Delete(t.Context(), all[2].Key); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		path := func(ref bronze.Ref) string { return filepath.Join(dir, filepath.Base(ref.Key)) }
		refs := after(t, r, -1, 1<<20)
		metas, err := r.Fetch(t.Context(), refs, path)
		if err != nil || len(refs) != 3 || len(metas) != 2 || metas[1].End != all[2].Start {
			t.Fatalf("%d of %d objects were fetched, %v: want the two before the break", len(metas), len(refs), err)
		}
		if _, err := r.After(t.Context(), 0, metas[1].End, 1<<20); !errors.Is(err, bronze.ErrBreak) || !errors.Is(err, smelt.ErrStore) {
			t.Errorf("after the break: %v", err)
		}
		// One that goes after it was listed.
		if err := lake.Delete(t.Context(), all[1].Key); err != nil {
			t.Fatal(err)
		}
		if metas, err := r.Fetch(t.Context(), refs, path); err != nil || len(metas) != 1 {
			t.Errorf("with the second gone %d objects were fetched, %v", len(metas), err)
		}
		if _, err := r.Fetch(t.Context(), refs[1:], path); !errors.Is(err, smelt.ErrNotFound) {
			t.Errorf("with the first gone: %v", err)
		}
	})
}

func TestReaderNamesTheStranger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lake, r := chain(t, 1)
		for _, key := range []string{"bronze/p/0/notes.txt", "bronze/p/notes.txt"} {
			if err := lake.Put(t.Context(), key, bytes.NewReader(nil), smelt.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.After(t.Context(), 0, -1, 1<<20); err == nil {
			t.Error("After passes over bronze/p/0/notes.txt")
		}
		if _, err := r.Partitions(t.Context()); err == nil {
			t.Error("Partitions passes over bronze/p/notes.txt")
		}
	})
}

// counted counts the listings of a store.
type counted struct {
	smelt.Store
	lists atomic.Int64
}

func (c *counted) List(ctx context.Context, prefix, after string, limit int) ([]smelt.Object, error) {
	c.lists.Add(1)
	return c.Store.List(ctx, prefix, after, limit)
}

// TestReaderLastRequests finds the end of chains of many lengths and shapes, and
// bounds the listings that it takes.
func TestReaderLastRequests(t *testing.T) {
	t.Parallel()
	// Of 400 seeds, 13 needed 9 for 5000 uneven objects, and 8 needed 11 for 9000.
	lengths := map[int]int64{1: 1, 999: 1, 1000: 3, 1001: 3, 5000: 9, 9000: 11}
	rng := seeded(t)
	for objects, most := range lengths {
		for _, step := range []int64{1, 1 << 40} {
			lake := &counted{Store: store.NewMemory()}
			start := int64(0)
			for range objects {
				end := start + 1 + rng.Int64N(step)
				putObject(t, lake, start, end)
				start = end
			}
			m, err := bronze.NewReader(lake, "p").Last(t.Context(), 0)
			if err != nil || m.End != start {
				t.Errorf("%d objects of up to %d: end %d, want %d, %v", objects, step, m.End, start, err)
			}
			n := lake.lists.Load()
			t.Logf("%d objects of up to %d records: %d listings", objects, step, n)
			if n > most {
				t.Errorf("%d objects of up to %d: %d listings, want at most %d", objects, step, n, most)
			}
		}
	}
}

// putObject puts an object with metadata and without lines.
func putObject(t *testing.T, lake smelt.Store, start, end int64) {
	t.Helper()
	meta := map[string]string{"written": "2026-11-29T12:00:00Z", "writer": fmt.Sprint(start)}
	for _, name := range []string{"tombstones", "oversize", "bytes", "min-timestamp", "max-timestamp", "chain-count", "chain-tombstones", "chain-oversize", "chain-bytes"} {
		meta[name] = "0"
	}
	maps.Copy(meta, map[string]string{"count": "1", "longest": "1", "end": fmt.Sprint(end), "first": fmt.Sprint(start), "last": fmt.Sprint(end - 1)})
	key := bronze.Name{Pipeline: "p", Start: start, Codec: bronze.Zstd}.Key()
	if err := lake.Put(t.Context(), key, bytes.NewReader(nil), smelt.PutOptions{IfAbsent: true, Meta: meta}); err != nil {
		t.Fatal(err)
	}
}
