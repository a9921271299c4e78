package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// Rollback moves main to an existing snapshot, an ancestor or not. It sets properties in addition to those
// of the table, and returns the new table. The columns do not change. tag, if not empty, is set to the
// former snapshot, for TagAge. It is one swap from exactly the state that t was loaded from; ErrConflict
// means that another change came first. It fails with smelt.ErrNotFound if the snapshot does not exist,
// and with smelt.ErrExists if the tag exists. After any other error the outcome is unknown.
func (t *Table) Rollback(ctx context.Context, snapshot int64, properties map[string]string, tag string) (*Table, error) {
	return t.publish(ctx, t.Back(snapshot, properties, tag))
}

// Back is the edit that Rollback makes, to be published with those of other tables.
func (t *Table) Back(snapshot int64, properties map[string]string, tag string) Edit {
	return Edit{t, fmt.Sprintf("roll back %s to snapshot %d", t.name, snapshot), func(_ context.Context, s *staged) (err error) {
		s.exact = true
		s.updates, err = t.rollback(snapshot, properties, tag)
		return err
	}}
}

func (t *Table) rollback(snapshot int64, properties map[string]string, tag string) ([]ice.Update, error) {
	if t.ice.SnapshotByID(snapshot) == nil {
		return nil, smelt.Mark(smelt.ErrNotFound, errors.New("there is no such snapshot, or it has expired"))
	}
	tags, err := t.tagCurrent(tag, time.Now())
	if err != nil {
		return nil, err
	}
	var updates []ice.Update
	for _, tag := range tags {
		updates = append(updates, tag.update())
	}
	if len(properties) > 0 {
		updates = append(updates, ice.NewSetPropertiesUpdate(maps.Clone(properties)))
	}
	return append(updates, t.moveMain(snapshot)), nil
}

// moveMain sets main to a snapshot and keeps its retention settings, which another engine may have set.
func (t *Table) moveMain(snapshot int64) ice.Update {
	var (
		refAge, snapshotAge int64
		keep                int
	)
	for name, ref := range t.ice.Metadata().Refs() {
		if name != ice.MainBranch {
			continue
		}
		if ref.MaxRefAgeMs != nil {
			refAge = *ref.MaxRefAgeMs
		}
		if ref.MaxSnapshotAgeMs != nil {
			snapshotAge = *ref.MaxSnapshotAgeMs
		}
		if ref.MinSnapshotsToKeep != nil {
			keep = *ref.MinSnapshotsToKeep
		}
	}
	return ice.NewSetSnapshotRefUpdate(ice.MainBranch, snapshot, ice.BranchRef, refAge, snapshotAge, keep)
}
