package table

import (
	"context"
	"sync"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"
)

// listed is an entry of a manifest. It never changes.
type listed struct {
	iceberg.ManifestEntry
	figures *figures // of its file
}

// decoded is all entries of a manifest, also those of files removed.
type decoded struct {
	of      origin
	entries []listed
}

// origin is what entries inherit from the list that names their manifest.
type origin struct {
	version            int
	spec               int32
	snapshot, sequence int64
	firstRow           int64 // -1: none
}

func originOf(m iceberg.ManifestFile) origin {
	o := origin{m.Version(), m.PartitionSpecID(), m.SnapshotID(), m.SequenceNum(), -1}
	if first := m.FirstRowID(); first != nil {
		o.firstRow = *first
	}
	return o
}

// decode returns the entries of a manifest, with those of removed files. keep caches them for the next
// call; a scan of all snapshots must not evict what steps read. Callers must not change them.
func (l *Lake) decode(ctx context.Context, m iceberg.ManifestFile, keep bool) ([]listed, error) {
	key, err := l.key(m.FilePath())
	if err != nil {
		return nil, err
	}
	of := originOf(m)
	if d, ok := l.decoded.get(key); ok && d.of == of {
		return d.entries, nil
	}
	var entries []listed
	for e, err := range m.Entries(&storeIO{ctx: ctx, lake: l}, false) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, listed{e, &figures{}})
	}
	if keep {
		l.decoded.put(key, decoded{of, entries}, 1+len(entries))
	}
	return entries, nil
}

// manifests returns the manifests of a snapshot. keep caches them, as for decode. Callers must not
// change them.
func (l *Lake) manifests(ctx context.Context, s ice.Snapshot, keep bool) ([]iceberg.ManifestFile, error) {
	key := l.Key(s.ManifestList) // "": the snapshot lists them itself, or lies elsewhere
	if list, ok := l.lists.get(key); ok {
		return list, nil
	}
	list, err := s.Manifests(&storeIO{ctx: ctx, lake: l})
	if err == nil && keep && key != "" {
		l.lists.put(key, list, 1+len(list))
	}
	return list, err
}

// live says whether an entry is of a file that is there.
func (e listed) live() bool { return e.Status() != iceberg.EntryStatusDELETED }

// figures are a file's statistics by field id. iceberg-go copies them at each
// call, so they are taken once.
type figures struct {
	once         sync.Once
	lower, upper map[int][]byte
	nulls, nans  map[int]int64
}

func (f *figures) of(data iceberg.DataFile) *figures {
	f.once.Do(func() {
		f.lower, f.upper = data.LowerBoundValues(), data.UpperBoundValues()
		f.nulls, f.nans = data.NullValueCounts(), data.NaNValueCounts()
	})
	return f
}
