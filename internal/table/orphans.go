package table

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"smelt"
)

// FileAge is how old a file may be when it is committed: Commit refuses older
// ones. What is at least twice as old and in no snapshot is safe to delete, if
// clocks differ by less than this.
const FileAge = 36 * time.Hour

// fenceProperty of a table says when it was last looked through for orphans.
const fenceProperty = "smelt.cleaned"

// Orphans returns the objects in a table's folder that were put before a time and that the table does not have: in no
// snapshot of any branch or tag, nor as metadata. It returns none if the table's property gc.enabled is false. It also
// returns none if another engine has put the table elsewhere than Create does, or another table into its folder.
func (l *Lake) Orphans(ctx context.Context, name string, before time.Time) (orphans []smelt.Object, err error) {
	t, err := l.Load(ctx, name)
	if err != nil {
		return nil, err
	}
	folder := l.Key(t.Location())
	if t.ice.Properties()[ice.GCEnabledKey] == "false" || folder != homeOf(name) && !strings.HasPrefix(folder, homeOf(name)+"-") {
		return nil, nil
	}
	if other, err := l.within(ctx, name, folder); other != "" || err != nil {
		return nil, err
	}
	var old []smelt.Object
	err = l.walk(ctx, folder, func(page []smelt.Object) error {
		for _, o := range page {
			if o.Modified.Before(before) {
				old = append(old, o)
			}
		}
		return nil
	})
	if err != nil || len(old) == 0 {
		return nil, err
	}
	if t, err = l.Load(ctx, name); err != nil {
		return nil, err
	}
	return t.unreachedOf(ctx, old)
}

// Fenced is a table as it was right after a Fence.
type Fenced struct{ *Table }

// Fence swaps a table's metadata for one that records the time. After that, every commit to the table as
// it was loaded before fails.
func (l *Lake) Fence(ctx context.Context, name string) (Fenced, error) {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	err := l.amend(ctx, name, func(*Table) ([]ice.Update, error) {
		return []ice.Update{ice.NewSetPropertiesUpdate(iceberg.Properties{fenceProperty: now})}, nil
	})
	var t *Table
	if err == nil {
		t, err = l.Load(ctx, name)
	}
	if err != nil {
		return Fenced{}, fmt.Errorf("fence %s: %w", name, err)
	}
	return Fenced{t}, nil
}

// RemoveOrphans deletes those objects found by Orphans that the table still does not have, and returns
// them.
//
// It is safe while commits go on, even if some were delayed for days between the upload of their files
// and the swap of the metadata. A commit before the fence is in the metadata that is read here. A commit
// to a table that was loaded before the fence fails, by its own check of the metadata or by the catalog.
// A commit to a table that was loaded after the fence then checks that its files are younger than
// FileAge, so they were too young to be found. The same holds for a commit with an unknown outcome: its
// files are in the metadata, or can never get there.
func (t Fenced) RemoveOrphans(ctx context.Context, found []smelt.Object) ([]smelt.Object, error) {
	orphans, err := t.unreachedOf(ctx, found)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(orphans))
	for i, o := range orphans {
		keys[i] = o.Key
	}
	return orphans, t.lake.remove(ctx, keys)
}

// unreachedOf returns those of some objects that the table does not have.
func (t *Table) unreachedOf(ctx context.Context, objects []smelt.Object) (out []smelt.Object, err error) {
	reached, err := t.Objects(ctx)
	if err != nil {
		return nil, fmt.Errorf("what %s has: %w", t.name, err)
	}
	for _, o := range objects {
		if !reached[o.Key] {
			out = append(out, o)
		}
	}
	return out, nil
}

// Objects returns the keys of all objects of the table: data and delete files, manifests and manifest lists of all
// snapshots, statistics, the metadata file and the ones that it lists.
func (t *Table) Objects(ctx context.Context) (map[string]bool, error) {
	keys := map[string]bool{}
	add := func(path string) { keys[t.lake.Key(path)] = true }
	meta := t.ice.Metadata()
	add(t.MetadataLocation())
	for entry := range meta.PreviousFiles() {
		add(entry.MetadataFile)
	}
	for s := range meta.Statistics() {
		add(s.StatisticsPath)
	}
	for s := range meta.PartitionStatistics() {
		add(s.StatisticsPath)
	}
	for _, s := range meta.Snapshots() {
		add(s.ManifestList)
	}
	manifests, err := t.manifests(ctx, meta.Snapshots(), false)
	if err != nil {
		return nil, err
	}
	for _, m := range manifests {
		add(m.FilePath())
	}
	return keys, t.eachFile(ctx, manifests, func(f iceberg.DataFile) { add(f.FilePath()) })
}

// eachFile calls add, one at a time, with every live file of some manifests; one
// that is in several of them comes several times. It holds a few manifests at a
// time.
func (t *Table) eachFile(ctx context.Context, manifests []iceberg.ManifestFile, add func(iceberg.DataFile)) error {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for _, m := range manifests {
		g.Go(func() error {
			entries, err := t.lake.decode(ctx, m, false)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, e := range entries {
				if e.live() {
					add(e.DataFile())
				}
			}
			return nil
		})
	}
	return g.Wait()
}
