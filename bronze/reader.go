package bronze

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"smelt"
)

// ErrBreak is a chain whose objects do not join: something was taken from the
// lake, or put there, by another than smelt. No reader goes on after it.
var ErrBreak = errors.New("break in the chain of bronze objects")

// Reader reads a pipeline's records from the lake. It has no state and is safe for concurrent
// use.
//
// Objects are merged and deleted at the same time. An object that is deleted between a
// listing and its reading is a smelt.ErrNotFound; another listing finds its records.
type Reader struct {
	store    smelt.Store
	pipeline string
	page     int // how many objects a listing brings
}

// NewReader returns a reader of a pipeline's bronze.
func NewReader(store smelt.Store, pipeline string) *Reader {
	return &Reader{store, pipeline, listMax}
}

// Partitions returns the partitions that the lake has records of, in rising
// order. It takes a request for each.
func (r *Reader) Partitions(ctx context.Context) ([]int32, error) {
	var ids []int32
	for after := ""; ; {
		objects, err := r.store.List(ctx, Prefix(r.pipeline), after, 1)
		if err != nil {
			return nil, smelt.Mark(smelt.ErrStore, err)
		}
		if len(objects) == 0 {
			slices.Sort(ids)
			return ids, nil
		}
		name, err := ParseName(objects[0].Key)
		if err != nil {
			return nil, smelt.Mark(smelt.ErrStore, err)
		}
		ids = append(ids, name.Partition)
		prefix := PartitionPrefix(r.pipeline, name.Partition)
		after = prefix[:len(prefix)-1] + "0" // "0" is the byte after "/": beyond the folder, and before a longer number's
	}
}

// After returns the objects of a chain to read from a position on: at least one if there is
// one, then more up to maxBytes, compressed. The position is where the last object read
// ended; a negative one means the chain's beginning. If no object covers the position but
// the chain continues after it, After fails with ErrBreak.
//
// The objects can be fetched in parallel. Use those that are [Joined]. The end of the last
// one is the next call's position.
func (r *Reader) After(ctx context.Context, partition int32, position, maxBytes int64) ([]Ref, error) {
	from := Name{Pipeline: r.pipeline, Partition: partition, Start: max(position, 0)}
	listed, err := r.list(ctx, partition, from.from(), r.page)
	if err != nil || len(listed) == 0 {
		return nil, err
	}
	if position < 0 {
		position = listed[0].Start
	}
	refs := cover(listed, position)
	if len(refs) == 0 {
		floor, _, err := r.covering(ctx, partition, position)
		if err != nil {
			return nil, err
		}
		refs = append([]Ref{floor}, cover(listed, floor.next)...)
	}
	last := listed[len(listed)-1].Start
	total := int64(0)
	for i := range refs {
		refs[i].more = len(listed) == r.page || refs[i].Start < last
		if total += refs[i].Size; total > maxBytes && i > 0 {
			return refs[:i], nil
		}
	}
	return refs, nil
}

// Inside returns the object that covers a position which is not where an object
// starts, and false when the chain ends there or before. After finds such an object
// as well, unless it is the chain's last.
func (r *Reader) Inside(ctx context.Context, partition int32, position int64) (Ref, bool, error) {
	ref, _, err := r.covering(ctx, partition, position)
	if errors.Is(err, smelt.ErrNotFound) {
		return Ref{}, false, nil
	}
	ref.more = false
	return ref, err == nil, err
}

// Cover returns the objects to read of a whole chain, as a listing from its
// beginning shows it. It does not check that the chain has no break: what is after
// one is among them.
func (r *Reader) Cover(ctx context.Context, partition int32) (refs []Ref, err error) {
	var listed []Ref
	if err := r.each(ctx, partition, 0, math.MaxInt64, func(ref Ref) { listed = append(listed, ref) }); err != nil {
		return nil, err
	}
	for i := 0; i < len(listed); {
		refs = append(refs, cover(listed[i:], listed[i].Start)...)
		last := refs[len(refs)-1]
		for i < len(listed) && (listed[i].Start <= last.Start || listed[i].Start < last.next) {
			i++
		}
	}
	for i := range refs {
		refs[i].more = i < len(refs)-1
	}
	return refs, nil
}

// At returns the writer's object that starts at a position and has a codec; false if there is
// none. The end of an object is the name of the next one, so a reader that follows a
// growing chain need not list it.
func (r *Reader) At(ctx context.Context, partition int32, position int64, codec Codec) (Ref, Meta, bool, error) {
	name := Name{Pipeline: r.pipeline, Partition: partition, Start: position, Codec: cmp.Or(codec, Zstd)}
	o, err := r.store.Stat(ctx, name.Key())
	if errors.Is(err, smelt.ErrNotFound) {
		return Ref{}, Meta{}, false, nil
	}
	if err != nil {
		return Ref{}, Meta{}, false, smelt.Mark(smelt.ErrStore, err)
	}
	m, err := metaOf(name, o)
	ref := Ref{Name: name, Key: o.Key, Size: o.Size, Modified: o.Modified, From: position, next: m.End}
	return ref, m, true, smelt.Mark(smelt.ErrStore, err)
}

// list returns the objects of a partition after a key, in order.
func (r *Reader) list(ctx context.Context, partition int32, after string, limit int) ([]Ref, error) {
	prefix := PartitionPrefix(r.pipeline, partition)
	objects, err := r.store.List(ctx, prefix, after, limit)
	if err != nil {
		return nil, smelt.Mark(smelt.ErrStore, err)
	}
	refs := make([]Ref, len(objects))
	for i, o := range objects {
		name, err := ParseName(o.Key)
		if err != nil {
			return nil, smelt.Mark(smelt.ErrStore, err)
		}
		refs[i] = Ref{Name: name, Key: o.Key, Size: o.Size, Modified: o.Modified, From: name.Start, next: -1}
		if i > 0 && refs[i-1].Start == name.Start && !refs[i-1].Merged() && !name.Merged() {
			return nil, broken("%s and %s start at the same position: two writers used different codecs", refs[i-1].Key, o.Key)
		}
	}
	return refs, nil
}

// Stat returns the metadata of an object.
func (r *Reader) Stat(ctx context.Context, ref Ref) (Meta, error) { return r.stat(ctx, ref.Name) }

func (r *Reader) stat(ctx context.Context, name Name) (Meta, error) {
	o, err := r.store.Stat(ctx, name.Key())
	if err != nil {
		return Meta{}, smelt.Mark(smelt.ErrStore, err)
	}
	m, err := metaOf(name, o)
	return m, smelt.Mark(smelt.ErrStore, err)
}

func broken(format string, args ...any) error {
	return smelt.Mark(smelt.ErrStore, fmt.Errorf("%w: "+format, append([]any{ErrBreak}, args...)...))
}

func (r *Reader) get(ctx context.Context, ref Ref) (io.ReadCloser, Meta, error) {
	body, o, err := r.store.Get(ctx, ref.Key)
	if err != nil {
		return nil, Meta{}, smelt.Mark(smelt.ErrStore, err)
	}
	m, err := metaOf(ref.Name, o)
	if err != nil {
		body.Close()
		return nil, Meta{}, smelt.Mark(smelt.ErrStore, err)
	}
	return body, m, nil
}

// Lines calls yield with each line of an object that counts, without its line
// feed. The bytes are valid until yield returns, whose error ends the reading.
func (r *Reader) Lines(ctx context.Context, ref Ref, yield func(line []byte) error) (Meta, error) {
	body, m, err := r.get(ctx, ref)
	if err != nil {
		return Meta{}, err
	}
	defer body.Close()
	return m, eachLineOf(body, ref, m.Count, yield)
}

// eachLineOf reads the lines of an object that count from its bytes, and checks
// that it has as many lines as its metadata says.
func eachLineOf(body io.Reader, ref Ref, want int64, yield func(line []byte) error) error {
	plain, err := newDecoder(body, ref.Codec)
	if err != nil {
		return fmt.Errorf("read %s: %w", ref.Key, err)
	}
	defer plain.Close()
	buffer := bufio.NewReaderSize(plain, lineBuffer)
	for count := int64(0); ; count++ {
		line, err := readLine(buffer)
		if err == io.EOF && count == want {
			return nil
		}
		if err == nil && count == want {
			err = errors.New("more lines than its metadata says")
		}
		counts := true
		if err == nil && ref.Partial() {
			var offset int64
			offset, err = lineOffset(line)
			counts = offset >= ref.From
		}
		if err != nil {
			return smelt.Mark(smelt.ErrStore, fmt.Errorf("read %s, line %d of %d: %w", ref.Key, count+1, want, err))
		}
		if !counts {
			continue
		}
		if err := yield(line); err != nil {
			return err
		}
	}
}
