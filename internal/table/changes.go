package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"smelt"
)

var (
	// ErrRowDeletes says that a snapshot has row-level deletes, made by another
	// engine: its rows are not simply those of its files.
	ErrRowDeletes = errors.New("the table has row-level deletes; compact it with the engine that made them")

	// ErrUnknown means that the changes since a snapshot are unknown.
	ErrUnknown = errors.New("the changes since that snapshot are unknown")
)

// readers is how many manifests are read at once: they are small, the wait is
// for the store's replies.
const readers = 8

// Files returns the data files that a snapshot consists of, sorted by key. It
// fails with ErrRowDeletes when the snapshot does not have all of their rows,
// and with smelt.ErrNotFound when it has expired.
func (t *Table) Files(ctx context.Context, snapshotID int64) ([]File, error) {
	files, err := t.files(ctx, snapshotID)
	if err != nil {
		return nil, fmt.Errorf("files of %s at snapshot %d: %w", t.name, snapshotID, err)
	}
	return files, nil
}

func (t *Table) files(ctx context.Context, snapshotID int64) ([]File, error) {
	s := t.ice.SnapshotByID(snapshotID)
	if s == nil {
		return nil, smelt.ErrNotFound
	}
	manifests, err := t.lake.manifests(ctx, *s, true)
	if err != nil {
		return nil, err
	}
	entries, err := t.entries(ctx, manifests)
	if err != nil {
		return nil, err
	}
	files := make([]File, 0, len(entries))
	for _, e := range entries {
		if e.DataFile().ContentType() != iceberg.EntryContentData {
			return nil, ErrRowDeletes
		}
		f := t.entry(e)
		if f.Key == "" {
			return nil, fmt.Errorf("data file %s is not in the lake", e.DataFile().FilePath())
		}
		files = append(files, f)
	}
	slices.SortFunc(files, byKey)
	return files, nil
}

func byKey(a, b File) int { return cmp.Compare(a.Key, b.Key) }

// entries reads manifests, several at once, and returns their entries of live files
// in order.
func (t *Table) entries(ctx context.Context, manifests []iceberg.ManifestFile) ([]listed, error) {
	read := make([][]listed, len(manifests))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i, m := range manifests {
		g.Go(func() (err error) {
			read[i], err = t.lake.decode(ctx, m, true)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Concat(read...), func(e listed) bool { return !e.live() }), nil
}

// Changes returns the data files that commits after the snapshot from, up to the snapshot to, have
// added and removed, sorted by key. It omits compaction (replace snapshots), which changes no
// rows, and files that were both added and removed. If from is not an ancestor of to, because of
// a rollback or expiry, it returns the files that only one of the two has. It fails with
// ErrUnknown if from has expired, or if a snapshot has row-level deletes.
//
// Because compaction is omitted, an added file may since have been compacted into another, and a
// removed one may be compaction's. Together the files cover every row that only one of the two
// snapshots has. Use their ranges, and read the rows from the Files of to.
func (t *Table) Changes(ctx context.Context, from, to int64) (added, removed []File, err error) {
	between, ok := ice.AncestorsBetween(to, from, t.ice.Metadata().SnapshotByID)
	if !ok {
		return t.difference(ctx, from, to)
	}
	net := map[string]int{}
	files := map[string]File{}
	entries, err := t.changed(ctx, between)
	if errors.Is(err, smelt.ErrNotFound) { // expired since t was loaded
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("changes of %s from snapshot %d to %d: %w", t.name, from, to, err)
	}
	for _, e := range entries {
		f := t.entry(e)
		files[f.Key] = f
		if e.Status() == iceberg.EntryStatusADDED {
			net[f.Key]++
		} else {
			net[f.Key]--
		}
	}
	for _, key := range slices.Sorted(maps.Keys(files)) {
		switch n := net[key]; {
		case n > 0:
			added = append(added, files[key])
		case n < 0:
			removed = append(removed, files[key])
		}
	}
	return added, removed, nil
}

// difference compares the files of two snapshots.
func (t *Table) difference(ctx context.Context, from, to int64) (added, removed []File, err error) {
	before, err := t.files(ctx, from)
	if err == nil {
		var after []File
		if after, err = t.files(ctx, to); err == nil {
			return without(after, before), without(before, after), nil
		}
	}
	if errors.Is(err, smelt.ErrNotFound) || errors.Is(err, ErrRowDeletes) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil, nil, fmt.Errorf("%s from snapshot %d to %d: %w", t.name, from, to, err)
}

// without gives the files that are not among others.
func without(files, others []File) []File {
	keys := map[string]bool{}
	for _, f := range others {
		keys[f.Key] = true
	}
	return slices.DeleteFunc(slices.Clone(files), func(f File) bool { return keys[f.Key] })
}

// changed returns the entries by which snapshots added and removed files.
func (t *Table) changed(ctx context.Context, between []ice.Snapshot) ([]listed, error) {
	own := make([][]listed, len(between))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i, s := range between {
		g.Go(func() (err error) {
			own[i], err = t.ownEntries(ctx, s)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(own...), nil
}

func (t *Table) ownEntries(ctx context.Context, s ice.Snapshot) ([]listed, error) {
	if s.Summary == nil || s.Summary.Operation == "" {
		return nil, fmt.Errorf("snapshot %d does not say what it did: %w", s.SnapshotID, ErrUnknown)
	}
	if s.Summary.Operation == ice.OpReplace {
		return nil, nil
	}
	manifests, err := t.lake.manifests(ctx, s, true)
	if err != nil {
		return nil, err
	}
	var out []listed
	for _, m := range manifests {
		own := m.SnapshotID() == s.SnapshotID // else it was there before
		if m.ManifestContent() == iceberg.ManifestContentDeletes {
			// A compaction leaves one that names only what it removed, and later
			// snapshots carry it along.
			if own || m.HasAddedFiles() || m.HasExistingFiles() {
				return nil, fmt.Errorf("snapshot %d has row-level deletes: %w", s.SnapshotID, ErrUnknown)
			}
			continue
		}
		if !own {
			continue
		}
		entries, err := t.lake.decode(ctx, m, true)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.SnapshotID() == s.SnapshotID && e.Status() != iceberg.EntryStatusEXISTING {
				out = append(out, e)
			}
		}
	}
	return out, nil
}
