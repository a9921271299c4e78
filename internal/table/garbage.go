package table

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"smelt"
)

// garbage returns the keys of the files that only snapshots to be dropped have:
// what those reach, less what the kept ones reach.
func (t *Table) garbage(ctx context.Context, p expiry) ([]string, error) {
	dropped, err := t.manifests(ctx, p.drop, true)
	if err != nil {
		return nil, err
	}
	kept, err := t.manifests(ctx, p.keep, false)
	if err != nil {
		return nil, err
	}
	only := subtract(dropped, kept)
	data, err := t.unreached(ctx, only, kept)
	if err != nil {
		return nil, err
	}
	paths := slices.Concat(data, paths(only), t.metadataFiles(p))
	keys := make([]string, 0, len(paths))
	for _, path := range paths {
		if key := t.lake.Key(path); key != "" { // what is elsewhere is not ours to delete
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// manifests returns the manifests of snapshots, each once, in the snapshots' order. A deleted manifest
// list is an error, unless gone allows it; then its files are left alone.
func (t *Table) manifests(ctx context.Context, snapshots []ice.Snapshot, gone bool) ([]iceberg.ManifestFile, error) {
	lists := make([][]iceberg.ManifestFile, len(snapshots))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i, s := range snapshots {
		g.Go(func() (err error) {
			lists[i], err = t.lake.manifests(ctx, s, false)
			if gone && errors.Is(err, smelt.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Concat(lists...), func(m iceberg.ManifestFile) bool {
		again := seen[m.FilePath()]
		seen[m.FilePath()] = true
		return again
	}), nil
}

func subtract(from, without []iceberg.ManifestFile) []iceberg.ManifestFile {
	drop := map[string]bool{}
	for _, m := range without {
		drop[m.FilePath()] = true
	}
	return slices.DeleteFunc(slices.Clone(from), func(m iceberg.ManifestFile) bool { return drop[m.FilePath()] })
}

func paths(manifests []iceberg.ManifestFile) []string {
	out := make([]string, len(manifests))
	for i, m := range manifests {
		out[i] = m.FilePath()
	}
	return out
}

// unreached returns the data and delete files that are in manifests but in none of kept. It reads kept a
// few at a time, and only until every file is found. In a table that only grows, the newest snapshot
// has them all.
func (t *Table) unreached(ctx context.Context, manifests, kept []iceberg.ManifestFile) ([]string, error) {
	files := map[string]bool{}
	if err := t.eachFile(ctx, manifests, func(f iceberg.DataFile) { files[f.FilePath()] = true }); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(kept, readers) {
		if len(files) == 0 {
			break
		}
		if err := t.eachFile(ctx, some, func(f iceberg.DataFile) { delete(files, f.FilePath()) }); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(files)), nil
}

// metadataFiles returns the manifest lists and the statistics that only dropped
// snapshots have.
func (t *Table) metadataFiles(p expiry) []string {
	kept, dropped := map[string]bool{}, map[string]bool{}
	drop := map[int64]bool{}
	for _, s := range p.keep {
		kept[s.ManifestList] = true
	}
	for _, s := range p.drop {
		drop[s.SnapshotID] = true
		dropped[s.ManifestList] = true
	}
	file := func(snapshot int64, path string) {
		if drop[snapshot] {
			dropped[path] = true
		} else {
			kept[path] = true
		}
	}
	for s := range t.ice.Metadata().Statistics() {
		file(s.SnapshotID, s.StatisticsPath)
	}
	for s := range t.ice.Metadata().PartitionStatistics() {
		file(s.SnapshotID, s.StatisticsPath)
	}
	maps.DeleteFunc(dropped, func(path string, _ bool) bool { return kept[path] || path == "" })
	return slices.Sorted(maps.Keys(dropped))
}

// unlisted returns the keys of the metadata files that meta lists no longer.
func (l *Lake) unlisted(base, meta ice.Metadata) []string {
	listed := map[string]bool{}
	for entry := range meta.PreviousFiles() {
		listed[entry.MetadataFile] = true
	}
	var keys []string
	for entry := range base.PreviousFiles() {
		if key := l.Key(entry.MetadataFile); key != "" && !listed[entry.MetadataFile] {
			keys = append(keys, key)
		}
	}
	return keys
}
