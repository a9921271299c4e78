package table

import (
	"context"
	"errors"

	ice "github.com/apache/iceberg-go/table"
)

// amendTries bounds how often a change of tags is tried: a stream commits every
// few seconds, so it is rare that another comes first even once.
const amendTries = 10

// amend changes a table's metadata, without a snapshot, as it finds the table;
// when another writer comes first it looks again.
func (l *Lake) amend(ctx context.Context, name string, updates func(*Table) ([]ice.Update, error)) error {
	for try := 1; ; try++ {
		t, err := l.Load(ctx, name)
		if err != nil {
			return err
		}
		todo, err := updates(t)
		if err != nil || len(todo) == 0 {
			return err
		}
		next, err := t.apply(ctx, todo)
		if errors.Is(err, ErrConflict) && try < amendTries {
			continue
		}
		if err != nil {
			return err
		}
		next.removeUnlisted(ctx, t)
		return nil
	}
}

// apply makes updates in one swap from the very metadata of t, and returns the
// table with them.
func (t *Table) apply(ctx context.Context, updates []ice.Update) (*Table, error) {
	if err := t.awaitClock(ctx); err != nil {
		return nil, err
	}
	meta, err := ice.UpdateTableMetadata(t.ice.Metadata(), updates, t.MetadataLocation())
	if err != nil {
		return nil, err
	}
	location, err := t.lake.swap(ctx, t.name, t.MetadataLocation(), meta)
	if err != nil {
		return nil, err
	}
	return t.lake.remember(t.name, ice.New(t.ice.Identifier(), meta, location, t.lake.fs, t.lake.committer(t.name))), nil
}

// removeUnlisted deletes the metadata files that were listed before and are no
// longer. The change holds whatever becomes of them.
func (t *Table) removeUnlisted(ctx context.Context, before *Table) {
	if t.ice.Properties()[ice.MetadataDeleteAfterCommitEnabledKey] == "true" {
		_ = t.lake.remove(ctx, t.lake.unlisted(before.ice.Metadata(), t.ice.Metadata()))
	}
}
