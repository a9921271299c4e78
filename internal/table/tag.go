package table

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

const (
	// TagPrefix begins the names of smelt's own tags, which Expire drops once they
	// are over.
	TagPrefix = "smelt-"

	// TagAge is how long the tag lasts that a Change or a Rollback sets on what was
	// there before it.
	TagAge = 30 * 24 * time.Hour

	// mostTagBytes bounds a name, which every message about a table's tags shows.
	mostTagBytes = 128
)

// Tag gives a snapshot a name, so that Expire keeps it for an age from now; an age of 0 means no limit. Expire
// drops only tags that start with TagPrefix when their age is over; other engines do so for every name.
// An existing tag at the same snapshot gets the new age. Tag fails with smelt.ErrNotFound if the snapshot
// does not exist, and with smelt.ErrExists if the name is that of a branch, or of a tag of another
// snapshot.
func (l *Lake) Tag(ctx context.Context, name, tag string, snapshot int64, age time.Duration) error {
	err := l.amend(ctx, name, func(t *Table) ([]ice.Update, error) {
		s, ok := t.Snapshot(snapshot)
		if !ok {
			return nil, smelt.Mark(smelt.ErrNotFound, fmt.Errorf("there is no snapshot %d, or it has expired", snapshot))
		}
		if age == 0 && slices.Contains(t.Names(), Ref{Name: tag, Snapshot: snapshot}) {
			return nil, nil // nothing to change
		}
		set := newTag(tag, s, age, time.Now())
		return []ice.Update{set.update()}, set.check(t)
	})
	if err != nil {
		return fmt.Errorf("tag %s: %w", name, err)
	}
	return nil
}

// Untag removes a tag. It fails with smelt.ErrNotFound if there is no such tag.
func (l *Lake) Untag(ctx context.Context, name, tag string) error {
	err := l.amend(ctx, name, func(t *Table) ([]ice.Update, error) {
		for _, ref := range t.Names() {
			if ref.Name == tag && !ref.Branch {
				return []ice.Update{ice.NewRemoveSnapshotRefUpdate(tag)}, nil
			}
		}
		return nil, smelt.Mark(smelt.ErrNotFound, fmt.Errorf("there is no tag %q%s", tag, smelt.DidYouMean(tag, t.tags()...)))
	})
	if err != nil {
		return fmt.Errorf("untag %s: %w", name, err)
	}
	return nil
}

// Ref is a tag or a branch: a name for a snapshot.
type Ref struct {
	Name     string
	Snapshot int64
	Branch   bool
	Until    time.Time // when the tag's age is over; zero: never
}

// Names returns the tags and branches, by name.
func (t *Table) Names() []Ref {
	meta := t.ice.Metadata()
	all := maps.Collect(meta.Refs())
	out := make([]Ref, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		ref := all[name]
		r := Ref{Name: name, Snapshot: ref.SnapshotID, Branch: ref.SnapshotRefType == ice.BranchRef}
		if s := meta.SnapshotByID(ref.SnapshotID); s != nil && ref.MaxRefAgeMs != nil {
			r.Until = time.UnixMilli(s.TimestampMs + *ref.MaxRefAgeMs).UTC()
		}
		out = append(out, r)
	}
	return out
}

// tags returns the names of all tags, sorted.
func (t *Table) tags() []string {
	var out []string
	for _, ref := range t.Names() {
		if !ref.Branch {
			out = append(out, ref.Name)
		}
	}
	return out
}

// tag is a tag to set.
type tag struct {
	name     string
	snapshot int64
	age      time.Duration // that the snapshot may reach; 0: any
}

// newTag makes a tag that lasts for an age from now. Iceberg counts the age of a
// tag from the time of its snapshot, which may be long past.
func newTag(name string, s Snapshot, age time.Duration, now time.Time) tag {
	if age > 0 {
		age += max(0, now.Sub(s.Time))
	}
	return tag{name, s.ID, age}
}

// tagCurrent is the tag of a name on the snapshot that main is at: none when
// either is missing.
func (t *Table) tagCurrent(name string, now time.Time) ([]tag, error) {
	current, ok := t.Current()
	if name == "" || !ok {
		return nil, nil
	}
	set := newTag(name, current, TagAge, now)
	return []tag{set}, set.check(t)
}

// CheckTag returns why a text cannot name a tag: Resolve or a reader could take it for something else.
func CheckTag(name string) error {
	if name == "" || len(name) > mostTagBytes || strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%.*q cannot name a tag: a name has 1 to %d bytes, is one line, and does not begin or end with a space", mostTagBytes, name, mostTagBytes)
	}
	if _, err := strconv.ParseInt(name, 10, 64); err == nil {
		return fmt.Errorf("%q cannot name a tag: it reads as the id of a snapshot", name)
	}
	if _, ok := ParseTime(name, time.Now()); ok {
		return fmt.Errorf("%q cannot name a tag: it reads as a time", name)
	}
	return nil
}

// check says why a table cannot have the tag.
func (g tag) check(t *Table) error {
	if err := CheckTag(g.name); err != nil {
		return err
	}
	main := Ref{Name: ice.MainBranch, Branch: true} // also while the table has no snapshot
	for _, ref := range append(t.Names(), main) {
		switch {
		case ref.Name != g.name:
		case ref.Branch:
			return smelt.Mark(smelt.ErrExists, fmt.Errorf("%q is the name of a branch", g.name))
		case ref.Snapshot != g.snapshot:
			return smelt.Mark(smelt.ErrExists, fmt.Errorf("there is a tag %q already, of snapshot %d", g.name, ref.Snapshot))
		}
	}
	return nil
}

func (g tag) update() ice.Update {
	return ice.NewSetSnapshotRefUpdate(g.name, g.snapshot, ice.TagRef, g.age.Milliseconds(), 0, 0)
}
