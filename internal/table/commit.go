package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/apache/iceberg-go"
	ice "github.com/apache/iceberg-go/table"

	"smelt"
)

// properties are those of every new table.
func properties() iceberg.Properties {
	return iceberg.Properties{
		ice.PropertyFormatVersion: "2",
		ice.ParquetCompressionKey: "zstd",

		// A commit writes one small manifest; a scan reads them all.
		ice.ManifestMergeEnabledKey:  "true",
		ice.ManifestMinMergeCountKey: "20",

		// A metadata file lists the ones before it, and each commit deletes the
		// one that leaves the list.
		ice.MetadataPreviousVersionsMaxKey:      "20",
		ice.MetadataDeleteAfterCommitEnabledKey: "true",

		// After a lost race the writer must start over; a retry would be wrong.
		ice.CommitNumRetriesKey: "0",
	}
}

// AppID is where a snapshot's summary says which process has made it; Spark says it
// there too.
const AppID = "app-id"

// maxClockBack is how much older than the table's last change Iceberg lets a
// new snapshot be.
const maxClockBack = time.Minute

// TellClockBack is from when on it is worth a word that a clock is behind.
const TellClockBack = time.Second

// Change is what one commit does to a table.
type Change struct {
	Add        []File
	Remove     []File
	Columns    []smelt.Column    // that the table is to hold beside those that it has; see With
	Summary    map[string]string // of the snapshot
	Properties map[string]string // of the table, set beside those that it has
	Replace    bool              // Add holds the very rows of Remove: compaction

	// Tag, if not empty, is a tag that the same commit sets to the snapshot before the change, so that it can be found
	// again. A table without a snapshot gets none. Expire drops the tag after TagAge.
	Tag string
}

// Commit makes exactly one snapshot on main, also of a change without files,
// and returns the table with it. It succeeds only when main is still as it was
// when t was loaded. Errors are those of [Lake.Publish].
func (t *Table) Commit(ctx context.Context, c Change) (*Table, error) {
	return t.publish(ctx, t.Change(c))
}

// Change is the edit that Commit makes, to be published with those of other tables.
func (t *Table) Change(c Change) Edit {
	return Edit{t, "commit to " + t.name, func(ctx context.Context, s *staged) error { return t.stage(ctx, s, c) }}
}

// awaitClock waits until this machine's clock is past the table's last change, because snapshots are looked up by time and
// times must not go back. If that would take longer than maxClockBack, it fails.
func (t *Table) awaitClock(ctx context.Context) error {
	for {
		now := time.Now()
		back := t.ClockBack(now)
		if err := t.checkClock(now); err != nil || back == 0 {
			return err
		}
		t.lake.warnClock(t.name, now, back)
		timer := time.NewTimer(back)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// ClockBack is how far a clock is behind the table's last change; 0 when it is not. A
// change waits for that long, or is refused where it is more than a minute.
func (t *Table) ClockBack(now time.Time) time.Duration {
	return max(0, time.UnixMilli(t.ice.Metadata().LastUpdatedMillis()).Sub(now))
}

// warnClock reports that a change waits for the clock: once for all tables that wait at one time, and
// not for the usual difference between two machines' clocks.
func (l *Lake) warnClock(name string, now time.Time, back time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Log == nil || back < TellClockBack || !l.toldClock.IsZero() && now.Sub(l.toldClock) < maxClockBack {
		return
	}
	l.toldClock = now
	l.Log.Warn("the clock is behind a table's last change; commits wait until it is past that, for a minute at most",
		"table", name, "behind", back.Round(time.Millisecond).String(), "clock", now.UTC().Format(time.RFC3339), "changed", now.Add(back).UTC().Format(time.RFC3339))
}

// checkClock refuses a change that Iceberg would refuse, with both times.
func (t *Table) checkClock(now time.Time) error {
	if back := t.ClockBack(now); back > maxClockBack {
		return fmt.Errorf("this machine's clock says %s, but the table was last changed at %s: set the clock right, or wait until it is past that time",
			now.UTC().Format(time.RFC3339), now.Add(back).UTC().Format(time.RFC3339))
	}
	return nil
}

// stage stages a change; it writes manifests.
func (t *Table) stage(ctx context.Context, s *staged, c Change) error {
	tags, err := t.tagCurrent(c.Tag, time.Now())
	if err != nil {
		return err
	}
	s.guard = t.newGuard(oldest(c, time.Now()), tags)
	tx, r, err := t.begin(ctx, s)
	if err != nil {
		return err
	}
	if _, err := stageColumns(tx, t.ice.Schema(), c.Columns); err != nil {
		return err
	}
	if err := tx.SetProperties(maps.Clone(c.Properties)); err != nil {
		return err
	}
	if err := stageFiles(ctx, tx, c); err != nil {
		return err
	}
	return s.record(ctx, tx, r)
}

// begin starts a transaction for an edit. It succeeds only if main does not change.
func (t *Table) begin(ctx context.Context, s *staged) (*ice.Transaction, *recorder, error) {
	s.files = &storeIO{ctx: ctx, lake: t.lake, texts: t.textFields()}
	fs := func(context.Context) (iceFS, error) { return s.files, nil }
	r := &recorder{}
	base := ice.New(t.ice.Identifier(), t.ice.Metadata(), t.ice.MetadataLocation(), fs, r)
	tx, err := base.NewTransactionOnBranchWithError(ice.MainBranch)
	if err != nil {
		return nil, nil, err
	}
	return tx, r, tx.AssertRefSnapshotID(ice.MainBranch)
}

func stageFiles(ctx context.Context, tx *ice.Transaction, c Change) error {
	add, remove, summary := dataFiles(c.Add), dataFiles(c.Remove), iceberg.Properties{AppID: smelt.Instance()}
	maps.Copy(summary, c.Summary)
	options := []ice.WriteOption{ice.WithoutDuplicateCheck(), ice.WithoutAutoNameMapping()}
	switch {
	case c.Replace:
		if len(remove) == 0 {
			return errors.New("a compaction removes files")
		}
		rewrite := tx.NewRewrite(summary)
		for _, f := range remove {
			rewrite.DeleteFile(f)
		}
		for _, f := range add {
			rewrite.AddDataFile(f)
		}
		return rewrite.Commit(ctx)
	case len(remove) > 0:
		return tx.ReplaceDataFilesWithDataFiles(ctx, remove, add, summary, options...)
	case len(add) > 0:
		return tx.AddDataFiles(ctx, add, summary, options...)
	default: // the other calls make no snapshot of nothing
		return tx.AddFiles(ctx, nil, summary, true)
	}
}

// oldest is when the oldest file of a change was made; its manifests are made now.
func oldest(c Change, now time.Time) time.Time {
	made := now.Round(0) // as that of files
	for _, f := range c.Add {
		if !f.made.IsZero() && f.made.Before(made) {
			made = f.made
		}
	}
	return made
}

func dataFiles(files []File) []iceberg.DataFile {
	out := make([]iceberg.DataFile, len(files))
	for i, f := range files {
		out[i] = f.data
	}
	return out
}

// removeMerged deletes the manifests that the commit wrote and merged into
// others before it was done.
func (t *Table) removeMerged(ctx context.Context, files *storeIO) error {
	const unmerged = 2 // an append's manifest and the manifest list
	if len(files.written) <= unmerged {
		return nil
	}
	head := t.ice.CurrentSnapshot()
	manifests, err := t.lake.manifests(ctx, *head, true)
	if err != nil {
		return err
	}
	used := map[string]bool{t.lake.Key(head.ManifestList): true}
	for _, m := range manifests {
		used[t.lake.Key(m.FilePath())] = true
	}
	var merged []string
	for _, key := range files.written {
		if !used[key] {
			merged = append(merged, key)
		}
	}
	return t.lake.remove(ctx, merged)
}
