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
		_, err = t.publish(ctx, t.exactly("change "+name, todo))
		if errors.Is(err, ErrConflict) && try < amendTries {
			continue
		}
		return err
	}
}

// exactly is the edit that makes updates of the very metadata of t.
func (t *Table) exactly(what string, updates []ice.Update) Edit {
	return Edit{t, what, func(_ context.Context, s *staged) error {
		s.updates, s.exact = updates, true
		return nil
	}}
}

// removeUnlisted deletes metadata files that the table no longer lists. The change holds even if
// that fails.
func (t *Table) removeUnlisted(ctx context.Context, before *Table) {
	if t.ice.Properties()[ice.MetadataDeleteAfterCommitEnabledKey] == "true" {
		_ = t.lake.remove(ctx, t.lake.unlisted(before.ice.Metadata(), t.ice.Metadata()))
	}
}
