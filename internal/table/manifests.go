package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"
)

const (
	// manifestFiles is how many data files a rewritten manifest lists. A commit that removes one of them
	// writes the others again, about 300 bytes each.
	manifestFiles = 200

	// manyManifests is how many are never too many: a scan reads them a few at a time,
	// and a commit that takes files away reads them all.
	manyManifests = 50
)

// Scattered says whether to rewrite the manifests. Either there are more than manyManifests and more than twice as many as
// needed. Or there are as many entries of removed files, which outnumber the others.
//
// An append merges manifests once there are twenty. A commit that removes files, as all of gold's do, merges none; then
// there is about one manifest per partition. Manifests of row-level deletes do not count, because RewriteManifests keeps
// them.
func (h Health) Scattered() bool {
	manifests := h.Manifests - h.deleteManifests
	return manifests > manyManifests && manifests > 2*h.NeededManifests() ||
		h.DeadEntries > manifestFiles && h.DeadEntries > h.DataFiles
}

// NeededManifests is how many manifests of data files would be enough.
func (h Health) NeededManifests() int {
	return int((h.DataFiles + manifestFiles - 1) / manifestFiles)
}

// RewriteManifests commits a snapshot, a replace, of the same files, which are in
// few manifests then, with files of a partition beside each other. It fails as
// Commit does.
func (t *Table) RewriteManifests(ctx context.Context) (*Table, error) {
	next, err := t.publish(ctx, Edit{t, "rewrite the manifests of " + t.name, t.stageManifests})
	if errors.Is(err, errNothing) {
		return t, nil
	}
	return next, err
}

// errNothing says that there is nothing to be done.
var errNothing = errors.New("nothing to do")

func (t *Table) stageManifests(ctx context.Context, s *staged) error {
	place, err := t.places(ctx)
	if err != nil {
		return err
	}
	s.guard = t.newGuard(time.Now().Round(0), nil)
	tx, r, err := t.begin(ctx, s)
	if err != nil {
		return err
	}
	done, err := tx.RewriteManifests(ctx, ice.WithRewriteManifestClusterBy(func(f iceberg.DataFile) any { return place[f.FilePath()] }))
	if err != nil {
		return err
	}
	if done.IsNoOp() {
		return errNothing
	}
	return s.record(ctx, tx, r)
}

// places says into which manifest each data file goes, by its path.
func (t *Table) places(ctx context.Context) (map[string]int, error) {
	head := t.ice.CurrentSnapshot()
	if head == nil {
		return nil, nil
	}
	manifests, err := t.lake.manifests(ctx, *head, true)
	if err != nil {
		return nil, err
	}
	type item struct{ path, partition string }
	var items []item
	err = t.eachFile(ctx, manifests, func(f iceberg.DataFile) {
		items = append(items, item{f.FilePath(), partitionOrder(t.file(f))})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.path, b.path)) })
	place := make(map[string]int, len(items))
	for i, it := range items {
		place[it.path] = i / manifestFiles
	}
	return place, nil
}

// partitionOrder is a text that sorts as the partition does.
func partitionOrder(f File) (text string) {
	whole := func(n int64) string { return fmt.Sprintf("%020d", uint64(n)^(math.MaxInt64+1)) }
	for _, name := range slices.Sorted(maps.Keys(f.Partition)) {
		switch v := f.Partition[name].(type) {
		case int64:
			text += whole(v)
		case time.Time:
			text += whole(v.UnixMicro())
		default:
			text += fmt.Sprint(v)
		}
		text += "\x00"
	}
	return text
}
