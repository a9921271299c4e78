// Package table keeps the lake's Iceberg tables: silver, quarantine and gold commit their files here and
// read back which files there are. It is the only importer of iceberg-go and exports none of its types.
// All bytes pass a [smelt.Store]. A commit is one compare-and-swap in a [Catalog], of one table or
// several. Start reading with lake.go, then publish.go.
package table

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// deleteBatch is how many keys are deleted at once: what one S3 request takes.
const deleteBatch = 1000

// Lake is the tables of one store. It is safe for concurrent use.
type Lake struct {
	// Log receives a warning when a change waits; it may be nil. Set it before the lake is used.
	Log *slog.Logger

	store   smelt.Store
	catalog Catalog
	root    string
	cache   *cache[[]byte]                 // of manifests and their lists, by key
	decoded *cache[decoded]                // manifests, by key
	lists   *cache[[]iceberg.ManifestFile] // decoded, by key

	mu        sync.Mutex
	last      map[string]*Table  // by name; metadata files are immutable, so a location's table is too
	written   map[string]written // by name
	toldClock time.Time          // last warning that the clock is behind
}

// Open returns the lake whose store holds the objects under root ("s3://lake")
// and whose tables the catalog knows.
func Open(store smelt.Store, catalog Catalog, root string) *Lake {
	return &Lake{
		store:   store,
		catalog: catalog,
		root:    strings.TrimSuffix(root, "/"),
		cache:   newCache[[]byte](cacheBytes),
		decoded: newCache[decoded](cacheFiles),
		lists:   newCache[[]iceberg.ManifestFile](cacheManifests),
		last:    map[string]*Table{},
		written: map[string]written{},
	}
}

// List returns the names of all tables, sorted.
func (l *Lake) List(ctx context.Context) ([]string, error) {
	names, err := l.catalog.List(ctx)
	if err != nil {
		return nil, smelt.Mark(smelt.ErrDatabase, fmt.Errorf("list tables: %w", err))
	}
	return names, nil
}

// Load returns the current state of a table, or fails with smelt.ErrNotFound.
func (l *Lake) Load(ctx context.Context, name string) (*Table, error) {
	tables, err := l.LoadAll(ctx, name)
	if err != nil {
		return nil, err
	}
	if tables[0] == nil {
		return nil, fmt.Errorf("load table %s: %w", name, smelt.ErrNotFound)
	}
	return tables[0], nil
}

// LoadAll returns tables at one moment, in the order of the names; nil for one that does not exist.
func (l *Lake) LoadAll(ctx context.Context, names ...string) ([]*Table, error) {
	var before []string
	for {
		locations, err := l.catalog.Current(ctx, names...)
		if err != nil {
			return nil, smelt.Mark(smelt.ErrDatabase, fmt.Errorf("load table %s: %w", strings.Join(names, ", "), err))
		}
		tables := make([]*Table, len(names))
		gone := -1
		for i, location := range locations {
			if location == "" {
				continue
			}
			tables[i], err = l.at(ctx, names[i], location)
			if errors.Is(err, smelt.ErrNotFound) {
				gone = i
				break
			}
			if err != nil {
				return nil, err
			}
		}
		if gone < 0 {
			return tables, nil
		}
		// Commits delete metadata files that are long past: is this one, by now?
		if before != nil && before[gone] == locations[gone] {
			// Not to be taken for a table that is not there.
			return nil, smelt.Mark(smelt.ErrStore, fmt.Errorf("load table %s: the catalog says %s, but the store has no such object", names[gone], locations[gone]))
		}
		before = locations
	}
}

// at reads the table whose metadata file is at a location.
func (l *Lake) at(ctx context.Context, name, location string) (*Table, error) {
	l.mu.Lock()
	last := l.last[name]
	l.mu.Unlock()
	if last != nil && last.MetadataLocation() == location {
		return last, nil
	}
	t, err := ice.NewFromLocation(ctx, strings.Split(name, "."), location, l.fs, nil)
	if err != nil {
		return nil, fmt.Errorf("load table %s: %w", name, err)
	}
	return l.remember(name, t), nil
}

// remember makes a view of a table and keeps it for the next Load.
func (l *Lake) remember(name string, t *ice.Table) *Table {
	view := &Table{lake: l, name: name, ice: t}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[name] = view
	return view
}

// Definition is what a table is created from.
type Definition struct {
	Columns   []smelt.Column
	Partition []smelt.PartitionField
}

// A table's namespace and name are also the folders of its objects.
var validName = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// Create makes a table without rows. When there is a table of that name
// already, perhaps by another process that came first, Create loads it as it
// is.
func (l *Lake) Create(ctx context.Context, name string, def Definition) (*Table, error) {
	if t, err := l.Load(ctx, name); !errors.Is(err, smelt.ErrNotFound) {
		return t, err
	}
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("create table %q: the name must be namespace.table, each of letters, digits, _ and -", name)
	}
	schema, err := newSchema(def.Columns)
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", name, err)
	}
	spec, err := newSpec(schema, def.Partition)
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", name, err)
	}
	folder, err := l.newFolder(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", name, err)
	}
	meta, err := ice.NewMetadata(schema, spec, ice.UnsortedSortOrder, l.Path(folder), properties())
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", name, err)
	}
	created, err := l.swap(ctx, successor{name: name, meta: meta})
	if errors.Is(err, ErrConflict) {
		return l.Load(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", name, err)
	}
	return created[0], nil
}

// Path returns where other engines find the object of a key.
func (l *Lake) Path(key string) string { return l.root + "/" + key }

// Key returns the key of the object at a path, or "" for a path that is not in
// this lake. Other engines may write the scheme as s3a or s3n.
func (l *Lake) Key(path string) string {
	for _, scheme := range []string{"s3a://", "s3n://"} {
		if rest, ok := strings.CutPrefix(path, scheme); ok {
			path = "s3://" + rest
		}
	}
	key, ok := strings.CutPrefix(path, l.root+"/")
	if !ok {
		return ""
	}
	return key
}

func (l *Lake) key(path string) (string, error) {
	if key := l.Key(path); key != "" {
		return key, nil
	}
	return "", smelt.Mark(smelt.ErrStore, fmt.Errorf("%s is not in the lake %s: does SMELT_S3_BUCKET name the bucket of the catalog's tables?", path, l.root))
}

// remove deletes objects, a bounded number at a time.
func (l *Lake) remove(ctx context.Context, keys []string) error {
	for batch := range slices.Chunk(keys, deleteBatch) {
		for _, key := range batch {
			l.cache.remove(key)
			l.decoded.remove(key)
			l.lists.remove(key)
		}
		if err := l.store.Delete(ctx, batch...); err != nil {
			return smelt.Mark(smelt.ErrStore, fmt.Errorf("delete %s and %d more: %w", batch[0], len(batch)-1, err))
		}
	}
	return nil
}
