package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"time"

	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// committer is what iceberg-go commits a table through.
type committer struct {
	lake *Lake
	name string
	tags []tag     // that a commit sets
	made time.Time // when the oldest file of the commit was; zero: unknown, and of no matter

	// after is the number of the last snapshot that the table had when the commit was
	// prepared; 0: of no matter. Main may be at the same snapshot again, after others
	// that were rolled back.
	after int64

	// fence is when the table had last been looked through for orphans then; nil: of no
	// matter. Files that others have named may be older than made says.
	fence *string
}

// guarded is what a snapshot is committed through that has files made at a time and
// later.
func (t *Table) guarded(made time.Time, tags []tag) *committer {
	fence := t.ice.Properties()[fenceProperty]
	return &committer{t.lake, t.name, tags, made, t.ice.Metadata().LastSequenceNumber(), &fence}
}

func (l *Lake) committer(name string) ice.CatalogIO { return &committer{lake: l, name: name} }

// LoadTable implements iceberg-go's CatalogIO.
func (c *committer) LoadTable(ctx context.Context, _ ice.Identifier) (*ice.Table, error) {
	t, err := c.lake.Load(ctx, c.name)
	if err != nil {
		return nil, err
	}
	return t.ice, nil
}

// CommitTable implements iceberg-go's CatalogIO: the requirements are checked
// against the newest metadata file, and the swap makes sure that it still is
// the newest when the next one takes its place.
func (c *committer) CommitTable(ctx context.Context, _ ice.Identifier, reqs []ice.Requirement, updates []ice.Update) (ice.Metadata, string, error) {
	base, err := c.lake.Load(ctx, c.name)
	if err != nil {
		return nil, "", err
	}
	for _, r := range reqs {
		if err := r.Validate(base.ice.Metadata()); err != nil {
			return nil, "", fmt.Errorf("%w: %w: %w", ice.ErrCommitFailed, ErrConflict, err)
		}
	}
	if last := base.ice.Metadata().LastSequenceNumber(); c.after > 0 && last != c.after {
		return nil, "", fmt.Errorf("%w: %w: %d snapshots came and went", ice.ErrCommitFailed, ErrConflict, last-c.after)
	}
	if c.fence != nil && base.ice.Properties()[fenceProperty] != *c.fence {
		return nil, "", fmt.Errorf("%w: %w: it was looked through for orphans", ice.ErrCommitFailed, ErrConflict)
	}
	// By the metadata that the swap begins from: see RemoveOrphans.
	if age := time.Since(c.made); !c.made.IsZero() && age > FileAge {
		return nil, "", fmt.Errorf("%w: %w: %s ago", ice.ErrCommitFailed, ErrOld, age.Round(time.Minute))
	}
	updates, err = detached(updates)
	if err != nil {
		return nil, "", err
	}
	for _, tag := range c.tags {
		if err := tag.check(base); err != nil { // it was free when the change was staged
			return nil, "", fmt.Errorf("%w: %w: %w", ice.ErrCommitFailed, ErrConflict, err)
		}
		updates = append(updates, tag.update())
	}
	meta, err := ice.UpdateTableMetadata(base.ice.Metadata(), updates, base.MetadataLocation())
	if err != nil {
		return nil, "", err
	}
	location, err := c.lake.swap(ctx, c.name, base.MetadataLocation(), meta)
	if errors.Is(err, ErrConflict) {
		return nil, "", fmt.Errorf("%w: %w", ice.ErrCommitFailed, err)
	}
	return meta, location, err
}

// detached gives updates that share nothing with those. iceberg-go's snapshot
// points into the transaction that made it, which has the metadata of before, whose
// last snapshot points into the one before: a table that is never loaded anew would
// keep all that it ever was in memory.
func detached(updates ice.Updates) (out ice.Updates, err error) {
	data, err := json.Marshal(updates)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("updates of a table: %w", err)
	}
	return out, nil
}

// swap writes a metadata file and makes it the table's current one in place of
// old. A file that certainly was not taken is deleted.
func (l *Lake) swap(ctx context.Context, name, old string, meta ice.Metadata) (location string, err error) {
	location, err = nextLocation(old, meta)
	if err != nil {
		return "", err
	}
	key, err := l.key(location)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	before := l.written[name]
	l.mu.Unlock()
	if before.location != old {
		before = written{}
	}
	data, snapshots, err := metadataJSON(meta, before.snapshots)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", key, err)
	}
	if err := l.store.Put(ctx, key, bytes.NewReader(data), smelt.PutOptions{}); err != nil {
		return "", smelt.Mark(smelt.ErrStore, err)
	}
	err = l.catalog.Swap(ctx, name, old, location)
	if errors.Is(err, smelt.ErrExists) {
		_ = l.remove(ctx, []string{key}) // garbage, if it stays
		return "", fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if err != nil {
		return "", smelt.Mark(smelt.ErrDatabase, fmt.Errorf("move %s to %s: %w", name, location, err))
	}
	l.mu.Lock()
	l.written[name] = written{location, snapshots}
	l.mu.Unlock()
	return location, nil
}

var versionName = regexp.MustCompile(`^(\d+)-.*\.metadata\.json`)

// nextLocation names the metadata file after old: 00007-<uuid>.metadata.json.
func nextLocation(old string, meta ice.Metadata) (string, error) {
	version := 0
	if m := versionName.FindStringSubmatch(path.Base(old)); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return "", fmt.Errorf("metadata file %s: %w", old, err)
		}
		version = n + 1
	}
	// No properties: they could ask for a compression that DuckDB does not read.
	locations, err := ice.LoadLocationProvider(meta.Location(), nil)
	if err != nil {
		return "", err
	}
	return locations.NewTableMetadataFileLocation(version)
}
