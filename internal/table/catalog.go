package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"smelt"
)

// ErrConflict means that another writer came first and nothing was committed. Load the table
// again and start over.
var ErrConflict = errors.New("the table was changed by another writer")

// ErrOld means that nothing was committed because the files were uploaded too long ago and may
// have been deleted as orphans. Write them again.
var ErrOld = errors.New("the files were uploaded too long ago to be committed")

// Catalog holds, for each table, where its current metadata file is. A table's
// name is "namespace.table", such as "silver.sensors".
type Catalog interface {
	// Current returns the locations of tables' metadata files, all as of one moment,
	// in the order of the names: "" for a table that is not there.
	Current(ctx context.Context, names ...string) (locations []string, err error)

	// Swap makes moves of tables, all of them or none. It fails with smelt.ErrExists
	// when a table is not where its move begins, and never after a try of its own
	// whose reply was lost. Any other error leaves the outcome open.
	Swap(ctx context.Context, moves ...smelt.Move) error

	// Drop removes a table whose metadata file is at a location. It fails with smelt.ErrExists if the
	// metadata is elsewhere, and with smelt.ErrNotFound if there is no such table. After any other
	// error the outcome is unknown.
	Drop(ctx context.Context, name, location string) error

	// List returns the names of all tables, sorted.
	List(ctx context.Context) ([]string, error)
}

// MemoryCatalog is a Catalog in memory, for tests.
type MemoryCatalog struct {
	mu        sync.Mutex
	locations map[string]string
}

// NewMemoryCatalog returns a catalog without tables.
func NewMemoryCatalog() *MemoryCatalog {
	return &MemoryCatalog{locations: map[string]string{}}
}

// Clone returns a catalog that has the same tables, and from then on goes its own
// way.
func (c *MemoryCatalog) Clone() *MemoryCatalog {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &MemoryCatalog{locations: maps.Clone(c.locations)}
}

// Current implements Catalog.
func (c *MemoryCatalog) Current(ctx context.Context, names ...string) (locations []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		locations = append(locations, c.locations[name])
	}
	return locations, nil
}

// Swap implements Catalog.
func (c *MemoryCatalog) Swap(ctx context.Context, moves ...smelt.Move) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range moves {
		if c.locations[m.Table] != m.From {
			return fmt.Errorf("swap table %s: its metadata is somewhere else by now: %w", m.Table, smelt.ErrExists)
		}
	}
	for _, m := range moves {
		c.locations[m.Table] = m.To
	}
	return nil
}

// Drop implements Catalog.
func (c *MemoryCatalog) Drop(ctx context.Context, name, location string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch at, ok := c.locations[name]; {
	case !ok:
		return smelt.ErrNotFound
	case at != location:
		return smelt.ErrExists
	}
	delete(c.locations, name)
	return nil
}

// List implements Catalog.
func (c *MemoryCatalog) List(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.locations)), nil
}
