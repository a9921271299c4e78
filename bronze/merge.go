package bronze

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"smelt"
)

// Members are fetched side by side, so many and so many bytes at a time: enough
// to hide the store's latency, and what bounds a merger's memory.
const (
	aheadObjects = 16
	aheadBytes   = largeBytes
)

// Merge makes one object of a run and returns it. If another merger was first, it returns
// that merger's object. If a member was deleted, because others have merged and cleaned,
// it fails with smelt.ErrNotFound and changes nothing.
func (m *Merger) Merge(ctx context.Context, run Run) (smelt.Object, error) {
	name := Name{Pipeline: m.cfg.Pipeline, Partition: run.Partition, Start: run.Start, End: run.End, Codec: m.cfg.Codec}
	o, err := m.compose(ctx, name, func(w io.Writer) (Meta, error) {
		var all Meta
		for members := run.members; len(members) > 0; {
			n, size := 0, int64(0)
			for n < len(members) && n < aheadObjects && (n == 0 || size+members[n].Size <= aheadBytes) {
				size += members[n].Size
				n++
			}
			if err := m.append(ctx, w, members[:n], &all); err != nil {
				return Meta{}, err
			}
			members = members[n:]
		}
		return all, nil
	})
	if err != nil {
		return smelt.Object{}, fmt.Errorf("merge %s: %w", run, err)
	}
	return o, nil
}

// append writes the lines of some members after those that all counts.
func (m *Merger) append(ctx context.Context, w io.Writer, members []Ref, all *Meta) error {
	bodies, metas, err := m.fetch(ctx, members)
	if err != nil {
		return err
	}
	for i, ref := range members {
		meta := metas[i]
		if meta.End != ref.next {
			return broken("%s ends at %d, but the next object starts at %d", ref.Key, meta.End, ref.next)
		}
		if meta.Seam != "" {
			return fmt.Errorf("%s is a seam, which no merged object may have: this is a bug in smelt", ref.Key)
		}
		if ref.Partial() {
			part := meta.without()
			err = eachLineOf(bytes.NewReader(bodies[i]), ref, meta.Count, func(line []byte) error { return part.write(w, line) })
			meta = part
		} else {
			err = appendWhole(w, bodies[i], ref, meta)
		}
		if err != nil {
			return err
		}
		all.join(meta)
	}
	return nil
}

// appendWhole writes the lines of a member, and checks that they are those which its
// metadata counts.
func appendWhole(w io.Writer, body []byte, ref Ref, meta Meta) error {
	plain, err := newDecoder(bytes.NewReader(body), ref.Codec)
	if err != nil {
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("read %s: %w", ref.Key, err))
	}
	defer plain.Close()
	counted := &lineCounter{w: w}
	if _, err := io.Copy(counted, plain); err != nil {
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("read %s: %w", ref.Key, err))
	}
	if counted.lines != meta.Count || counted.bytes != meta.Bytes || counted.open {
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s has %d lines of %d bytes, but its metadata says %d of %d",
			ref.Key, counted.lines, counted.bytes, meta.Count, meta.Bytes))
	}
	return nil
}

// lineCounter counts the lines that go through.
type lineCounter struct {
	w            io.Writer
	lines, bytes int64
	open         bool // what came last was no line feed
}

func (c *lineCounter) Write(p []byte) (int, error) {
	c.lines += int64(bytes.Count(p, []byte("\n")))
	c.bytes += int64(len(p))
	c.open = len(p) > 0 && p[len(p)-1] != '\n' || len(p) == 0 && c.open
	return c.w.Write(p)
}

// fetch reads objects into memory, side by side.
func (m *Merger) fetch(ctx context.Context, refs []Ref) ([][]byte, []Meta, error) {
	bodies, metas := make([][]byte, len(refs)), make([]Meta, len(refs))
	g, ctx := errgroup.WithContext(ctx)
	for i, ref := range refs {
		g.Go(func() error {
			body, meta, err := m.reader.get(ctx, ref)
			if err != nil {
				return err
			}
			defer body.Close()
			if bodies[i], err = io.ReadAll(body); err != nil {
				return smelt.Mark(smelt.ErrStore, fmt.Errorf("read %s: %w", ref.Key, err))
			}
			metas[i] = meta
			return nil
		})
	}
	return bodies, metas, g.Wait()
}

// join adds the metadata of the object that comes next. m is empty, or that of
// those before it.
func (m *Meta) join(next Meta) {
	if m.Count == 0 {
		m.First = next.First
	}
	if next.Count > 0 {
		m.Last = next.Last
	}
	if m.Members == 0 || m.MinTimestamp == smelt.NoTimestamp || next.MinTimestamp != smelt.NoTimestamp && next.MinTimestamp < m.MinTimestamp {
		m.MinTimestamp = next.MinTimestamp
	}
	if m.Members == 0 || next.MaxTimestamp > m.MaxTimestamp { // smelt.NoTimestamp is below all
		m.MaxTimestamp = next.MaxTimestamp
	}
	m.Counts = m.Counts.plus(next.Counts)
	m.Longest = max(m.Longest, next.Longest)
	m.End, m.Chain = next.End, next.Chain
	m.Cluster, m.Topic, m.Base, m.Epoch, m.Written = next.Cluster, next.Topic, next.Base, next.Epoch, next.Written
	m.Members++
}

// compose puts an object whose lines fill writes, unless there is one of its name.
func (m *Merger) compose(ctx context.Context, name Name, fill func(io.Writer) (Meta, error)) (o smelt.Object, err error) {
	file, err := os.CreateTemp(m.cfg.Dir, "bronze-*")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	enc, err := newEncoder(name.Codec)
	if err != nil {
		return o, err
	}
	enc.Reset(file)
	meta, err := fill(enc)
	if err = errors.Join(err, enc.Close()); err != nil {
		return o, err
	}
	meta.Start, meta.Writer = name.Start, fmt.Sprintf("%s-%d-%s", m.cfg.ID, name.Partition, name.positions())
	if !meta.fits(name) {
		return o, fmt.Errorf("%d records from %d to %d, up to %d, are not what %s should hold: this is a bug in smelt, and nothing was written",
			meta.Count, meta.First, meta.Last, meta.End, name.Key())
	}
	err = m.cfg.Store.Put(ctx, name.Key(), file, smelt.PutOptions{IfAbsent: true, Meta: meta.user(name.Codec)})
	if err != nil && !errors.Is(err, smelt.ErrExists) {
		return o, smelt.Mark(smelt.ErrStore, err)
	}
	return m.there(ctx, name, meta)
}

// there reads back the object of a name, and checks that it holds what it should.
func (m *Merger) there(ctx context.Context, name Name, want Meta) (smelt.Object, error) {
	o, err := m.cfg.Store.Stat(ctx, name.Key())
	if err != nil {
		return o, smelt.Mark(smelt.ErrStore, err)
	}
	got, err := metaOf(name, o)
	if err == nil && (got.Chain != want.Chain || !name.Retired && got.Counts != want.Counts) {
		err = fmt.Errorf("%s has %d records, and the chain %d up to its end; its members have %d and %d", name.Key(), got.Count, got.Chain.Count, want.Count, want.Chain.Count)
	}
	return o, smelt.Mark(smelt.ErrStore, err)
}

func isGone(err error) bool { return errors.Is(err, smelt.ErrNotFound) }
