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

// Rollback moves main to a snapshot that is there, an ancestor or not, sets
// properties beside those that the table has, and returns the table with it. The
// columns stay as they are. A tag, when not empty, is set to what main was at,
// for TagAge. All of it is one swap from exactly the state that t was loaded
// from: ErrConflict says that another change came first. It fails with
// smelt.ErrNotFound when there is no such snapshot and with smelt.ErrExists when
// the tag's name is taken; any other error leaves the outcome open.
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

// moveMain sets main to a snapshot, and leaves it what another engine was told
// of how long to keep it.
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
