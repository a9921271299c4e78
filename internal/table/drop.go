package table

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"smelt"
)

// dropMark is an object in the folder of a table that is being dropped. It exists from before the table
// leaves the catalog until everything else is deleted. Meanwhile no new table uses the folder, so a
// new table's files are never deleted. A repeated drop uses it to find what is left.
const dropMark = "/dropped"

// dropTries bounds how often a commit that comes first is given way to.
const dropTries = 10

// Size counts objects of the store, and their bytes.
type Size struct {
	Objects int
	Bytes   int64
}

func (s *Size) add(o smelt.Object) {
	s.Objects++
	s.Bytes += o.Size
}

// Drop removes a table from the catalog in one atomic step, and then everything in its folder, for all
// snapshots, tags and branches. It continues an interrupted Drop. A writer of the table can no
// longer commit, but files that it is uploading may stay in the store. Drop fails with
// smelt.ErrNotFound if there is neither such a table nor anything left of one.
func (l *Lake) Drop(ctx context.Context, name string) (gone Size, err error) {
	folder, err := l.unlist(ctx, name)
	if err != nil && !errors.Is(err, smelt.ErrNotFound) {
		return gone, fmt.Errorf("drop %s: %w", name, err)
	}
	left, leftErr := l.Leftovers(ctx, name)
	if leftErr != nil {
		return gone, fmt.Errorf("drop %s: %w", name, leftErr)
	}
	if err == nil && !slices.Contains(left, folder) { // of another engine, which names folders otherwise
		left = append(left, folder)
	}
	if len(left) == 0 {
		return gone, fmt.Errorf("drop %s: %w", name, err)
	}
	for _, folder := range left {
		if err := l.sweep(ctx, folder, &gone); err != nil {
			return gone, fmt.Errorf("drop %s: what is left of it in %s: %w", name, folder, err)
		}
	}
	return gone, nil
}

// unlist marks a table's folder and takes the table out of the catalog.
func (l *Lake) unlist(ctx context.Context, name string) (folder string, err error) {
	for try := 1; ; try++ {
		locations, err := l.catalog.Current(ctx, name)
		if err != nil {
			return "", smelt.Mark(smelt.ErrDatabase, err)
		}
		location := locations[0]
		if location == "" {
			return "", smelt.ErrNotFound
		}
		if folder, err = l.ownFolder(ctx, name, location); err != nil {
			return "", err
		}
		if err := l.store.Put(ctx, folder+dropMark, strings.NewReader(name), smelt.PutOptions{}); err != nil {
			return "", smelt.Mark(smelt.ErrStore, err)
		}
		err = l.catalog.Drop(ctx, name, location)
		switch {
		case err == nil:
			l.mu.Lock()
			delete(l.last, name)
			delete(l.written, name)
			l.mu.Unlock()
			return folder, nil
		case errors.Is(err, smelt.ErrExists) && try < dropTries:
			continue
		case errors.Is(err, smelt.ErrNotFound): // another has dropped it meanwhile
			return folder, nil
		}
		return "", smelt.Mark(smelt.ErrDatabase, err)
	}
}

// ownFolder is the folder of a table by where its metadata is: so a table whose
// metadata is lost can be dropped too. It must be in the lake, and no other table's.
func (l *Lake) ownFolder(ctx context.Context, name, location string) (string, error) {
	folder := folderOf(l.Key(location))
	if folder == "" {
		return "", fmt.Errorf("its metadata is at %s, which is not a table folder of this lake: drop it with the engine that created it", location)
	}
	other, err := l.within(ctx, name, folder)
	if other != "" {
		return "", fmt.Errorf("%s is in its folder %s: drop that first", other, folder)
	}
	return folder, err
}

// within names a table that lies in the folder of another; "" if there is none.
func (l *Lake) within(ctx context.Context, name, folder string) (other string, err error) {
	used, err := l.folders(ctx)
	if err != nil {
		return "", err
	}
	for other, at := range used {
		if other != name && (at == folder || strings.HasPrefix(at, folder+"/")) {
			return other, nil
		}
	}
	return "", nil
}

// folderOf is the folder of the table whose metadata file has a key; "" when that
// lies otherwise than Iceberg's tables have it.
func folderOf(metadata string) string {
	folder, ok := strings.CutSuffix(path.Dir(metadata), "/metadata")
	if !ok {
		return ""
	}
	return folder
}

// folders are those of all tables in the lake, by name.
func (l *Lake) folders(ctx context.Context) (map[string]string, error) {
	names, err := l.List(ctx)
	if err != nil {
		return nil, err
	}
	locations, err := l.catalog.Current(ctx, names...)
	if err != nil {
		return nil, smelt.Mark(smelt.ErrDatabase, err)
	}
	used := map[string]string{}
	for i, name := range names {
		if folder := folderOf(l.Key(locations[i])); folder != "" {
			used[name] = folder
		}
	}
	return used, nil
}

// newFolder is the folder of a new table: its name, unless a table of that name is being dropped.
func (l *Lake) newFolder(ctx context.Context, name string) (string, error) {
	folder := homeOf(name)
	marked, err := l.marked(ctx, folder)
	if marked {
		folder += "-" + uuid.NewString()[:8]
	}
	return folder, err
}

func homeOf(name string) string { return strings.ReplaceAll(name, ".", "/") }

func (l *Lake) marked(ctx context.Context, folder string) (bool, error) {
	_, err := l.store.Stat(ctx, folder+dropMark)
	if errors.Is(err, smelt.ErrNotFound) {
		return false, nil
	}
	return err == nil, smelt.Mark(smelt.ErrStore, err)
}

// Leftovers are the folders that an unfinished Drop of a table has left.
func (l *Lake) Leftovers(ctx context.Context, name string) (left []string, err error) {
	home := homeOf(name)
	candidates := []string{home}
	for after := ""; ; { // others of the name begin with it: silver/p-1f3a9c2e
		found, err := l.store.List(ctx, home+"-", after, 1)
		if err != nil {
			return nil, smelt.Mark(smelt.ErrStore, err)
		}
		if len(found) == 0 {
			break
		}
		rest, _, _ := strings.Cut(strings.TrimPrefix(found[0].Key, home), "/")
		candidates = append(candidates, home+rest)
		after = home + rest + "0" // beyond all that is in the folder: 0 follows /
	}
	used, err := l.folders(ctx)
	if err != nil {
		return nil, err
	}
	inUse := map[string]bool{}
	for _, folder := range used {
		inUse[folder] = true
	}
	for _, folder := range candidates {
		marked, err := l.marked(ctx, folder)
		if err != nil {
			return nil, err
		}
		if marked && !inUse[folder] {
			left = append(left, folder)
		}
	}
	return left, nil
}

// sweep deletes all that is in a folder, a page at a time, the mark last.
func (l *Lake) sweep(ctx context.Context, folder string, gone *Size) error {
	mark := folder + dropMark
	err := l.walk(ctx, folder, func(page []smelt.Object) error {
		var keys []string
		for _, o := range page {
			if o.Key != mark {
				keys = append(keys, o.Key)
				gone.add(o)
			}
		}
		return l.remove(ctx, keys)
	})
	if err != nil {
		return err
	}
	return l.remove(ctx, []string{mark})
}

// Measure counts what is in a folder.
func (l *Lake) Measure(ctx context.Context, folder string) (s Size, err error) {
	err = l.walk(ctx, folder, func(page []smelt.Object) error {
		for _, o := range page {
			if o.Key != folder+dropMark {
				s.add(o)
			}
		}
		return nil
	})
	return s, err
}

// walk shows the objects in a folder, a page at a time.
func (l *Lake) walk(ctx context.Context, folder string, show func([]smelt.Object) error) error {
	for after := ""; ; {
		page, err := l.store.List(ctx, folder+"/", after, deleteBatch)
		if err != nil {
			return smelt.Mark(smelt.ErrStore, fmt.Errorf("list %s: %w", folder, err))
		}
		if err := show(page); err != nil || len(page) < deleteBatch {
			return err
		}
		after = page[len(page)-1].Key
	}
}
