package silver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"path/filepath"

	"smelt"
	"smelt/bronze"
	"smelt/internal/duck"
)

// addRaws gives the rejects their raw values, from the files that hold them.
// DuckDB parses lines and does not keep them; to read the few files with a
// reject once more costs less than to carry every value along.
func addRaws(ctx context.Context, session *duck.Session, files []localFile) error {
	wanted, err := wantedRaws(ctx, session)
	if err != nil || len(wanted) == 0 {
		return err
	}
	columns := []smelt.Column{rejectColumns[0], rejectColumns[1], {Name: "raw", Type: smelt.Type{Name: "varchar"}}}
	if err := session.Load(ctx, "work", "raws", columns, readRaws(files, wanted)); err != nil {
		return err
	}
	return session.Exec(ctx, `UPDATE work.rejects SET raw = r.raw FROM work.raws AS r
		WHERE work.rejects._partition_id = r._partition_id AND work.rejects._partition_offset = r._partition_offset`)
}

// wantedRaws lists, by partition, the offsets of rejects without a raw value.
func wantedRaws(ctx context.Context, session *duck.Session) (map[int32]map[int64]bool, error) {
	rows, err := session.Query(ctx, "SELECT _partition_id, _partition_offset FROM work.rejects WHERE raw IS NULL AND stage = 'silver'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	wanted := map[int32]map[int64]bool{}
	for rows.Next() {
		var partition int32
		var offset int64
		if err := rows.Scan(&partition, &offset); err != nil {
			return nil, fmt.Errorf("rejects: %w", err)
		}
		if wanted[partition] == nil {
			wanted[partition] = map[int64]bool{}
		}
		wanted[partition][offset] = true
	}
	return wanted, rows.Err()
}

// readRaws reads the raw values of wanted records out of local bronze files.
func readRaws(files []localFile, wanted map[int32]map[int64]bool) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for _, f := range files {
			err := bronze.Values(f.path, wanted[f.partition], func(offset int64, raw []byte) error {
				if !yield([]any{f.partition, offset, string(raw)}, nil) {
					return errStopped
				}
				return nil
			})
			if err == errStopped {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// errStopped ends the reading of a file early.
var errStopped = errors.New("stopped")

// localFile is the local copy of a bronze object.
type localFile struct {
	path      string // its ending is the object's, by which DuckDB knows how to read it
	partition int32
}

func newLocalFile(dir string, ref bronze.Ref) localFile {
	return localFile{filepath.Join(dir, fmt.Sprintf("%d-%s", ref.Partition, path.Base(ref.Key))), ref.Partition}
}

func paths(files []localFile) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.path
	}
	return out
}
