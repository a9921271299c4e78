package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// Edit is a change of one table, as it was loaded. [Lake.Publish] makes it.
type Edit struct {
	table *Table
	what  string // such as "commit to silver.sensors"
	stage func(context.Context, *staged) error
}

// staged is a prepared edit: its files are written and not visible yet.
type staged struct {
	updates ice.Updates
	files   *storeIO // that wrote its manifests; nil: it has none

	// exact edits hold only while the table's metadata is the very one that was
	// loaded. Others hold while all of guard does.
	exact bool
	guard guard
}

// guard is what must hold when an edit is published.
type guard struct {
	requirements []ice.Requirement
	tags         []tag // that the edit sets: they must be free

	// made is when the oldest file of the edit was made. It must be younger than FileAge.
	made time.Time

	// sequence is the number of the last snapshot that the table had. Main may be at
	// the same snapshot again, after others that were rolled back.
	sequence int64

	// fence is when the table was last searched for orphans. Files that others have named may be older than
	// made.
	fence string
}

// newGuard is the guard of an edit whose oldest file was made at a time.
func (t *Table) newGuard(made time.Time, tags []tag) guard {
	return guard{tags: tags, made: made, sequence: t.ice.Metadata().LastSequenceNumber(), fence: t.ice.Properties()[fenceProperty]}
}

// check compares a guard with the current table.
func (g guard) check(now *Table) error {
	for _, r := range g.requirements {
		if err := r.Validate(now.ice.Metadata()); err != nil {
			return fmt.Errorf("%w: %w", ErrConflict, err)
		}
	}
	if last := now.ice.Metadata().LastSequenceNumber(); last != g.sequence {
		return fmt.Errorf("%w: %d snapshots came and went", ErrConflict, last-g.sequence)
	}
	if now.ice.Properties()[fenceProperty] != g.fence {
		return fmt.Errorf("%w: it was looked through for orphans", ErrConflict)
	}
	// By the metadata that the swap begins from: see RemoveOrphans.
	if age := time.Since(g.made); age > FileAge {
		return fmt.Errorf("%w: %s ago", ErrOld, age.Round(time.Minute))
	}
	for _, tag := range g.tags {
		if err := tag.check(now); err != nil { // it was free when the edit was made
			return fmt.Errorf("%w: %w", ErrConflict, err)
		}
	}
	return nil
}

// Publish makes edits of different tables, all or none, and returns the new tables. A race that was
// certainly lost is an ErrConflict, and files that are too old are an ErrOld; both leave nothing behind.
// After any other error the outcome is unknown. After any error load the tables again and start over.
func (l *Lake) Publish(ctx context.Context, edits ...Edit) ([]*Table, error) {
	ready := make([]staged, len(edits))
	next, err := l.stage(ctx, edits, ready)
	certain := err != nil // nothing was published
	var tables []*Table
	if err == nil {
		tables, err = l.swap(ctx, next...)
		certain = errors.Is(err, ErrConflict)
	}
	if err != nil {
		if certain {
			for _, s := range ready {
				s.abandon(ctx, l)
			}
		}
		what := make([]string, len(edits))
		for i, e := range edits {
			what[i] = e.what
		}
		return nil, fmt.Errorf("%s: %w", strings.Join(what, " and "), err)
	}
	// Errors with the leftovers do not affect the edits.
	for i, s := range ready {
		tables[i].removeUnlisted(ctx, next[i].base)
		if s.files != nil {
			_ = tables[i].removeMerged(ctx, s.files)
		}
	}
	return tables, nil
}

// stage prepares edits and applies them to the current tables.
func (l *Lake) stage(ctx context.Context, edits []Edit, ready []staged) ([]successor, error) {
	names := make([]string, len(edits))
	for i, e := range edits {
		names[i] = e.table.name
		if err := e.table.awaitClock(ctx); err != nil {
			return nil, err
		}
		if err := e.stage(ctx, &ready[i]); err != nil {
			return nil, err
		}
	}
	bases, err := l.LoadAll(ctx, names...)
	if err != nil {
		return nil, err
	}
	next := make([]successor, len(edits))
	for i, e := range edits {
		if bases[i] == nil {
			return nil, fmt.Errorf("load table %s: %w", names[i], smelt.ErrNotFound)
		}
		if next[i], err = ready[i].successor(e.table, bases[i]); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// abandon deletes what was written for an edit that is certain not to be published.
func (s staged) abandon(ctx context.Context, l *Lake) {
	if s.files != nil {
		_ = l.remove(ctx, s.files.written) // what is left is garbage, nothing worse
	}
}

// successor is the next metadata of a table.
type successor struct {
	name string
	base *Table // nil: the table is created
	meta ice.Metadata
}

// successor applies an edit of a table as it was loaded to the current table.
func (s staged) successor(loaded, now *Table) (next successor, err error) {
	next = successor{name: now.name, base: now}
	switch {
	case !s.exact:
		err = s.guard.check(now)
	case now.MetadataLocation() != loaded.MetadataLocation():
		err = fmt.Errorf("%w: its metadata is another", ErrConflict)
	}
	if err != nil {
		return next, err
	}
	updates, err := detached(s.updates)
	if err != nil {
		return next, err
	}
	for _, tag := range s.guard.tags {
		updates = append(updates, tag.update())
	}
	next.meta, err = ice.UpdateTableMetadata(now.ice.Metadata(), updates, now.MetadataLocation())
	return next, err
}

// detached returns a copy of updates. iceberg-go's snapshot points to the transaction that made it, which
// holds the metadata before it, whose last snapshot points to the one before. Without the copy, a table
// that is never reloaded would keep all its earlier states in memory.
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

// swap writes metadata files and makes them the tables' current ones, all of them or
// none. Files that certainly were not taken are deleted.
func (l *Lake) swap(ctx context.Context, next ...successor) ([]*Table, error) {
	var keys []string
	moves, snapshots := make([]smelt.Move, len(next)), make([]map[int64][]byte, len(next))
	for i, s := range next {
		moves[i] = smelt.Move{Table: s.name}
		if s.base != nil {
			moves[i].From = s.base.MetadataLocation()
		}
		key, err := l.write(ctx, s.meta, &moves[i], &snapshots[i])
		if err != nil {
			_ = l.remove(ctx, keys)
			return nil, err
		}
		keys = append(keys, key)
	}
	err := l.catalog.Swap(ctx, moves...)
	if errors.Is(err, smelt.ErrExists) {
		_ = l.remove(ctx, keys) // garbage, if they stay
		return nil, fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if err != nil {
		return nil, smelt.Mark(smelt.ErrDatabase, fmt.Errorf("move %s: %w", namesOf(moves), err))
	}
	tables := make([]*Table, len(next))
	for i, m := range moves {
		tables[i] = l.remember(m.Table, ice.New(strings.Split(m.Table, "."), next[i].meta, m.To, l.fs, nil))
		l.mu.Lock()
		l.written[m.Table] = written{m.To, snapshots[i]}
		l.mu.Unlock()
	}
	return tables, nil
}

func namesOf(moves []smelt.Move) string {
	var names []string
	for _, m := range moves {
		names = append(names, m.Table)
	}
	return strings.Join(names, ", ")
}

// write writes a metadata file, and notes where in its move.
func (l *Lake) write(ctx context.Context, meta ice.Metadata, move *smelt.Move, snapshots *map[int64][]byte) (key string, err error) {
	if move.To, err = nextLocation(move.From, meta); err != nil {
		return "", err
	}
	if key, err = l.key(move.To); err != nil {
		return "", err
	}
	l.mu.Lock()
	before := l.written[move.Table]
	l.mu.Unlock()
	if before.location != move.From {
		before = written{}
	}
	var data []byte
	if data, *snapshots, err = metadataJSON(meta, before.snapshots); err != nil {
		return "", fmt.Errorf("write %s: %w", key, err)
	}
	if err := l.store.Put(ctx, key, bytes.NewReader(data), smelt.PutOptions{}); err != nil {
		return "", smelt.Mark(smelt.ErrStore, err)
	}
	return key, nil
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

// recorder takes what a transaction of iceberg-go commits, and has it commit nothing:
// Publish does, for several tables at once.
type recorder struct {
	requirements []ice.Requirement
	updates      ice.Updates
}

var errRecorded = errors.New("the transaction was recorded")

// LoadTable implements iceberg-go's CatalogIO.
func (*recorder) LoadTable(context.Context, ice.Identifier) (*ice.Table, error) {
	return nil, errRecorded // only a retry would load the table, and there is none
}

// CommitTable implements iceberg-go's CatalogIO.
func (r *recorder) CommitTable(_ context.Context, _ ice.Identifier, requirements []ice.Requirement, updates []ice.Update) (ice.Metadata, string, error) {
	r.requirements, r.updates = slices.Clone(requirements), slices.Clone(updates)
	return nil, "", errRecorded
}

// record takes what a transaction, which was begun with a recorder, would commit.
func (s *staged) record(ctx context.Context, tx *ice.Transaction, r *recorder) error {
	if _, err := tx.Commit(ctx); !errors.Is(err, errRecorded) {
		return fmt.Errorf("record a transaction: %w", err)
	}
	s.updates, s.guard.requirements = r.updates, r.requirements
	return nil
}

// publish publishes one edit.
func (t *Table) publish(ctx context.Context, e Edit) (*Table, error) {
	tables, err := t.lake.Publish(ctx, e)
	if err != nil {
		return nil, err
	}
	return tables[0], nil
}
