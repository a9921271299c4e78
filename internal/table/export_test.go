package table

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// Reached returns the keys of all files that a table has, sorted: metadata
// files, and what its snapshots reach.
func (t *Table) Reached(ctx context.Context) ([]string, error) {
	snapshots := t.ice.Metadata().Snapshots()
	manifests, err := t.manifests(ctx, snapshots, false)
	if err != nil {
		return nil, err
	}
	entries, err := t.entries(ctx, manifests)
	if err != nil {
		return nil, err
	}
	reached := append(paths(manifests), t.MetadataLocation())
	for entry := range t.ice.Metadata().PreviousFiles() {
		reached = append(reached, entry.MetadataFile)
	}
	for _, s := range snapshots {
		reached = append(reached, s.ManifestList)
	}
	for _, e := range entries {
		reached = append(reached, e.DataFile().FilePath())
	}
	for i, path := range reached {
		reached[i] = t.lake.Key(path)
	}
	slices.Sort(reached)
	return slices.Compact(reached), nil
}

// SetRef makes a tag or a branch, as another engine would.
func (t *Table) SetRef(ctx context.Context, name string, snapshot int64, branch bool) error {
	kind := ice.TagRef
	if branch {
		kind = ice.BranchRef
	}
	update := ice.NewSetSnapshotRefUpdate(name, snapshot, kind, 0, 0, 0)
	return t.lake.amend(ctx, t.name, func(*Table) ([]ice.Update, error) { return []ice.Update{update}, nil })
}

// DeleteRows commits a row-level delete file, as another engine would.
func (t *Table) DeleteRows(ctx context.Context, f File) error {
	b, err := iceberg.NewDataFileBuilder(t.ice.Spec(), iceberg.EntryContentPosDeletes, t.Location()+"/data/deletes.parquet",
		iceberg.ParquetFile, nil, nil, nil, 1, 1)
	if err != nil {
		return err
	}
	return t.foreign(ctx, func(tx *ice.Transaction) error {
		return tx.NewRowDelta(nil).AddDeletes(b.ReferencedDataFile(f.data.FilePath()).Build()).Commit(ctx)
	})
}

// foreign commits what another engine would.
func (t *Table) foreign(ctx context.Context, do func(*ice.Transaction) error) error {
	_, err := t.publish(ctx, Edit{t, "commit to " + t.name, func(ctx context.Context, s *staged) error {
		s.guard = t.newGuard(time.Now(), nil)
		tx, r, err := t.begin(ctx, s)
		if err != nil {
			return err
		}
		if err := do(tx); err != nil {
			return err
		}
		return s.record(ctx, tx, r)
	}})
	return err
}

// CompactDeletes commits a compaction of a file and its row-level deletes, as
// another engine would.
func (t *Table) CompactDeletes(ctx context.Context, whole, compacted File) error {
	removed := []iceberg.DataFile{whole.data}
	manifests, err := t.ice.CurrentSnapshot().Manifests(&storeIO{ctx: ctx, lake: t.lake})
	if err != nil {
		return err
	}
	entries, err := t.entries(ctx, manifests)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.DataFile().ContentType() != iceberg.EntryContentData {
			removed = append(removed, e.DataFile())
		}
	}
	return t.foreign(ctx, func(tx *ice.Transaction) error {
		rewrite := tx.NewRewrite(nil).AddDataFile(compacted.data)
		for _, f := range removed {
			rewrite.DeleteFile(f)
		}
		return rewrite.Commit(ctx)
	})
}

// KeepOnMain has main keep a number of snapshots, as another engine would.
func (t *Table) KeepOnMain(ctx context.Context, snapshots int) error {
	update := ice.NewSetSnapshotRefUpdate(ice.MainBranch, t.ice.CurrentSnapshot().SnapshotID, ice.BranchRef, 0, 0, snapshots)
	_, err := t.publish(ctx, t.exactly("keep snapshots", []ice.Update{update}))
	return err
}

// KeptOnMain is how many snapshots main must keep; 0 if that is not set.
func (t *Table) KeptOnMain() int {
	if n := t.ice.Metadata().Ref().MinSnapshotsToKeep; n != nil {
		return *n
	}
	return 0
}

// ForeignFile describes a file as another engine does: with bounds of a double
// column that leave its NaN out, and how many there are; below 0: not counted.
func (t *Table) ForeignFile(key, column string, nans int64) (File, error) {
	field, ok := t.ice.Schema().FindFieldByName(column)
	if !ok {
		return File{}, smelt.ErrNotFound
	}
	b, err := iceberg.NewDataFileBuilder(t.ice.Spec(), iceberg.EntryContentData, t.lake.Path(key), iceberg.ParquetFile, nil, nil, nil, 3, 1)
	if err != nil {
		return File{}, err
	}
	lower, upper := bounds(field.Type, "1.0", "2.0")
	b.LowerBoundValues(map[int][]byte{field.ID: lower}).UpperBoundValues(map[int][]byte{field.ID: upper})
	if nans >= 0 {
		b.NaNValueCounts(map[int]int64{field.ID: nans})
	}
	return t.file(b.Build()), nil
}

// Rewind makes a table again what it was before a commit, for a benchmark.
func (l *Lake) Rewind(ctx context.Context, was, now *Table) error {
	if err := l.catalog.Swap(ctx, smelt.Move{Table: was.name, From: now.MetadataLocation(), To: was.MetadataLocation()}); err != nil {
		return err
	}
	l.remember(was.name, was.ice)
	l.written[was.name] = written{was.MetadataLocation(), l.written[was.name].snapshots}
	return nil
}

// WithStatistics commits statistics files of a table's current snapshot, as another
// engine would.
func (t *Table) WithStatistics(ctx context.Context) (*Table, error) {
	id := t.ice.CurrentSnapshot().SnapshotID
	return t.publish(ctx, t.exactly("statistics of "+t.name, []ice.Update{
		ice.NewSetStatisticsUpdate(ice.StatisticsFile{SnapshotID: id, StatisticsPath: "s3://lake/stats.puffin", BlobMetadata: []ice.BlobMetadata{}}),
		ice.NewSetPartitionStatisticsUpdate(ice.PartitionStatisticsFile{SnapshotID: id, StatisticsPath: "s3://lake/stats.parquet"}),
	}))
}

// MetadataAsLibrary is a table's metadata file as iceberg-go writes it.
func (t *Table) MetadataAsLibrary() ([]byte, error) { return json.Marshal(t.ice.Metadata()) }

// UnknownMetadata are the fields of a metadata file that iceberg-go has and that
// Lake.swap does not write.
func (t *Table) UnknownMetadata() (unknown []string) {
	known := append(jsonFields(reflect.TypeFor[metadataV2]()), "snapshots",
		"next-row-id", "encryption-keys") // of the third format
	for _, name := range jsonFields(reflect.TypeOf(t.ice.Metadata()).Elem()) {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

func jsonFields(typ reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(typ) {
		if tag, ok := f.Tag.Lookup("json"); ok {
			name, _, _ := strings.Cut(tag, ",")
			names = append(names, name)
		}
	}
	return names
}
