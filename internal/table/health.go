package table

import (
	"context"
	"fmt"
	"strconv"

	"github.com/apache/iceberg-go"

	"smelt"
)

// Health is what a table's upkeep shows in.
type Health struct {
	DataFiles   int64 `json:"data_files"`
	DeleteFiles int64 `json:"delete_files"` // of row-level deletes, made by other engines
	Rows        int64 `json:"rows"`         // in the data files
	Bytes       int64 `json:"bytes"`        // of the data files, and of delete files if there are any

	Snapshots     int   `json:"snapshots"`
	Manifests     int   `json:"manifests"`      // of the current snapshot
	ManifestBytes int64 `json:"manifest_bytes"` //
	DeadEntries   int64 `json:"dead_entries"`   // entries of removed files in the manifests of data files
	MetadataBytes int64 `json:"metadata_bytes"` // of the metadata file, which each commit rewrites

	deleteManifests int // of the manifests, those that list delete files
}

// Health tells the figures of the current snapshot from its summary and the list of
// its manifests. Only when an engine has left them out are manifests read.
func (t *Table) Health(ctx context.Context) (h Health, err error) {
	h.Snapshots = len(t.ice.Metadata().Snapshots())
	if h.MetadataBytes, err = t.metadataBytes(ctx); err != nil {
		return h, err
	}
	head := t.ice.CurrentSnapshot()
	if head == nil {
		return h, nil
	}
	manifests, err := t.lake.manifests(ctx, *head, true)
	if err != nil {
		return h, fmt.Errorf("manifests of %s: %w", t.name, err)
	}
	h.Manifests = len(manifests)
	for _, m := range manifests {
		h.ManifestBytes += m.Length()
		if m.ManifestContent() == iceberg.ManifestContentDeletes {
			h.deleteManifests++
			continue
		}
		h.DeadEntries += max(0, int64(m.DeletedDataFiles()))
	}
	var summary map[string]string
	if head.Summary != nil {
		summary = head.Summary.Properties
	}
	if h.summarized(summary) {
		return h, nil
	}
	return h, t.count(ctx, manifests, &h)
}

// metadataBytes is the size of the metadata file, which is requested once.
func (t *Table) metadataBytes(ctx context.Context) (int64, error) {
	if n := t.bytes.Load(); n > 0 {
		return n, nil
	}
	key, err := t.lake.key(t.MetadataLocation())
	if err != nil {
		return 0, err
	}
	o, err := t.lake.store.Stat(ctx, key)
	if err != nil {
		return 0, smelt.Mark(smelt.ErrStore, fmt.Errorf("metadata of %s: %w", t.name, err))
	}
	t.bytes.Store(o.Size)
	return o.Size, nil
}

// summarized reads the totals of a snapshot's summary, if they are all there.
func (h *Health) summarized(summary map[string]string) bool {
	for key, to := range map[string]*int64{
		"total-data-files": &h.DataFiles, "total-delete-files": &h.DeleteFiles, "total-records": &h.Rows, "total-files-size": &h.Bytes,
	} {
		n, err := strconv.ParseInt(summary[key], 10, 64)
		if err != nil {
			return false
		}
		*to = n
	}
	return true
}

// count adds up what the manifests list.
func (t *Table) count(ctx context.Context, manifests []iceberg.ManifestFile, h *Health) error {
	h.DataFiles, h.DeleteFiles, h.Rows, h.Bytes = 0, 0, 0, 0
	return t.eachFile(ctx, manifests, func(f iceberg.DataFile) {
		h.Bytes += f.FileSizeBytes()
		if f.ContentType() == iceberg.EntryContentData {
			h.DataFiles, h.Rows = h.DataFiles+1, h.Rows+f.Count()
		} else {
			h.DeleteFiles++
		}
	})
}
