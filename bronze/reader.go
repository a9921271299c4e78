package bronze

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"smelt"
)

// ErrBreak is a chain whose objects do not join: something was taken from the
// lake, or put there, by another than smelt. No reader goes on after it.
var ErrBreak = errors.New("break in the chain of bronze objects")

// Reader reads a pipeline's records from the lake. It keeps nothing and is safe
// for concurrent use.
type Reader struct {
	store    smelt.Store
	pipeline string
}

// NewReader returns a reader of a pipeline's bronze.
func NewReader(store smelt.Store, pipeline string) *Reader {
	return &Reader{store, pipeline}
}

// Ref is an object of a chain, as it is listed.
type Ref struct {
	Name
	Key      string
	Size     int64 // compressed
	Modified time.Time

	follower string // the key of the object that follows in the listing; empty when none was listed
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

// After returns the objects of a chain from a position on: at least one if there
// is one, then as long as they are no more than maxBytes in total, compressed.
// The position is where the last object read ended; below 0 stands for the
// chain's beginning. When the chain does not go on at the position, but after
// it, After fails with ErrBreak.
//
// A listing shows where objects start, not where they end. So that the objects
// can be fetched side by side and yet none lies beyond a break, [Reader.Download]
// and [Reader.Lines] check that each ends where the next one in the listing
// starts; and the last one's end is the next call's position.
func (r *Reader) After(ctx context.Context, partition int32, position, maxBytes int64) ([]Ref, error) {
	from := Name{Pipeline: r.pipeline, Partition: partition, Start: max(position, 0)}
	refs, err := r.list(ctx, partition, from.from(), listMax)
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	if position >= 0 && refs[0].Start != position {
		return nil, broken("the object before %s ended at %d: what is in between is missing", refs[0].Key, position)
	}
	total := int64(0)
	for i := range refs {
		if total += refs[i].Size; total > maxBytes && i > 0 {
			return refs[:i], nil
		}
	}
	return refs, nil
}

// At returns the object of a chain that starts at a position and has a codec,
// and false when there is none. Since the end of an object is the name of the
// next, one that follows a chain as it grows need not list it.
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
	return Ref{Name: name, Key: o.Key, Size: o.Size, Modified: o.Modified}, m, true, smelt.Mark(smelt.ErrStore, err)
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
		refs[i] = Ref{Name: name, Key: o.Key, Size: o.Size, Modified: o.Modified}
		if i == 0 {
			continue
		}
		refs[i-1].follower = o.Key
		if refs[i-1].Start == name.Start {
			return nil, broken("%s and %s start at the same position: two writers used different codecs", refs[i-1].Key, o.Key)
		}
	}
	return refs, nil
}

// Stat returns the metadata of an object. Like Download it checks the chain.
func (r *Reader) Stat(ctx context.Context, ref Ref) (Meta, error) {
	m, err := r.stat(ctx, ref.Name)
	if err != nil {
		return Meta{}, err
	}
	return m, ref.joins(m)
}

func (r *Reader) stat(ctx context.Context, name Name) (Meta, error) {
	o, err := r.store.Stat(ctx, name.Key())
	if err != nil {
		return Meta{}, smelt.Mark(smelt.ErrStore, err)
	}
	m, err := metaOf(name, o)
	return m, smelt.Mark(smelt.ErrStore, err)
}

// joins checks that the object ends where the next one starts.
func (ref *Ref) joins(m Meta) error {
	if ref.follower == "" {
		return nil
	}
	next, err := ParseName(ref.follower)
	if err != nil {
		return err
	}
	if m.End != next.Start {
		return broken("%s ends at %d, but the next object is %s", ref.Key, m.End, ref.follower)
	}
	return nil
}

func broken(format string, args ...any) error {
	return smelt.Mark(smelt.ErrStore, fmt.Errorf("%w: "+format, append([]any{ErrBreak}, args...)...))
}

// Download copies an object, compressed as it is, to a local file. It fails with
// ErrBreak when the object does not end where the next one starts.
func (r *Reader) Download(ctx context.Context, ref Ref, path string) (m Meta, err error) {
	body, m, err := r.get(ctx, ref)
	if err != nil {
		return Meta{}, err
	}
	defer body.Close()
	file, err := os.Create(path)
	if err != nil {
		return Meta{}, fmt.Errorf("download %s: %w", ref.Key, err)
	}
	n, err := io.Copy(file, body)
	if err == nil && n != ref.Size {
		err = fmt.Errorf("%d of %d bytes", n, ref.Size)
	}
	if local := new(fs.PathError); err != nil && !errors.As(err, &local) {
		err = smelt.Mark(smelt.ErrStore, err)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return Meta{}, fmt.Errorf("download %s: %w", ref.Key, err)
	}
	return m, nil
}

func (r *Reader) get(ctx context.Context, ref Ref) (io.ReadCloser, Meta, error) {
	body, o, err := r.store.Get(ctx, ref.Key)
	if err != nil {
		return nil, Meta{}, smelt.Mark(smelt.ErrStore, err)
	}
	m, err := metaOf(ref.Name, o)
	if err == nil {
		err = ref.joins(m)
	}
	if err != nil {
		body.Close()
		return nil, Meta{}, smelt.Mark(smelt.ErrStore, err)
	}
	return body, m, nil
}

// lineBuffer in bytes is what Lines reads ahead: thousands of usual lines.
const lineBuffer = 256 << 10

// Lines calls yield with each line of an object, without its line feed. The
// bytes are valid until yield returns, whose error ends the reading. It fails
// with ErrBreak when the object does not end where the next one starts.
func (r *Reader) Lines(ctx context.Context, ref Ref, yield func(line []byte) error) (Meta, error) {
	body, m, err := r.get(ctx, ref)
	if err != nil {
		return Meta{}, err
	}
	defer body.Close()
	plain, err := newDecoder(body, ref.Codec)
	if err != nil {
		return Meta{}, fmt.Errorf("read %s: %w", ref.Key, err)
	}
	defer plain.Close()
	buffer := bufio.NewReaderSize(plain, lineBuffer)
	count := int64(0)
	for ; ; count++ {
		line, err := readLine(buffer)
		if err == io.EOF && count == m.Count {
			return m, nil
		}
		if err == nil && count == m.Count {
			err = errors.New("more lines than its metadata says")
		}
		if err != nil {
			return Meta{}, smelt.Mark(smelt.ErrStore, fmt.Errorf("read %s, line %d of %d: %w", ref.Key, count+1, m.Count, err))
		}
		if err := yield(line); err != nil {
			return Meta{}, err
		}
	}
}

// readLine returns the next line without its line feed. The line is valid until
// the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil {
		return line[:len(line)-1], nil
	}
	long := append([]byte(nil), line...)
	for err == bufio.ErrBufferFull {
		line, err = r.ReadSlice('\n')
		long = append(long, line...)
	}
	if err == io.EOF && len(long) > 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return long[:len(long)-1], nil
}

// Followed says whether the listing had another object after this one.
func (ref *Ref) Followed() bool { return ref.follower != "" }
