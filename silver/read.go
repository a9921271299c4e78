package silver

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"smelt"
	"smelt/bronze"
	"smelt/internal/ledger"
)

// taken is how much of bronze a step has read.
type taken struct {
	objects    int // from the first one on; of the last, perhaps, only a part
	bytes      int64
	records    int64
	tombstones int64
	repeated   int64 // names within an object
	position   map[int32]int64
	full       bool // there was more than is worked on at once
	more       bool // bronze has more
}

// errFull ends the reading of an object when as much was read as is worked on at once.
var errFull = errors.New("full")

// read reads local copies of bronze objects, a stretch of their chains. It stops
// before a record, maybe in the middle of an object, when it has as much as is
// worked on at once.
func (s *Stage) read(ctx context.Context, before ledger.Silver, refs []bronze.Ref, metas []bronze.Meta, dir string) (taken, error) {
	done := taken{position: maps.Clone(before.Position)}
	if done.position == nil {
		done.position = map[int32]int64{}
	}
	for i, ref := range refs {
		if i > 0 && s.records.Batch.Size()+sizeOf(metas[i]) > s.most {
			done.full = true
			break
		}
		end, err := s.readObject(ref, metas[i], localPath(dir, ref))
		if err != nil {
			return done, s.blame(ctx, refs, err)
		}
		done.objects++
		done.bytes += ref.Size
		done.position[ref.Partition] = max(done.position[ref.Partition], end)
		if end < metas[i].End {
			done.full = true
			break
		}
		s.ends[ref.Partition] = end
	}
	done.records, done.tombstones, done.repeated = int64(s.records.Batch.Len()), s.records.tombstones, *s.records.repeated
	return done, nil
}

// sizeOf is about how many bytes an object's records take in memory: their columns are
// about as much as their text.
func sizeOf(m bronze.Meta) int { return int(2 * m.Bytes) }

func (s *Stage) full() bool { return s.records.Batch.Size() >= s.most && s.records.Batch.Len() > 0 }

// readObject reads the records of an object, and gives the position after them.
func (s *Stage) readObject(ref bronze.Ref, m bronze.Meta, path string) (end int64, err error) {
	n := int64(0)
	err = bronze.EachLine(path, func(line []byte) error {
		if m.Retired.Count == 0 && s.full() { // what was retired is accounted for with the whole object
			return errFull
		}
		n++
		return s.records.Add(line)
	})
	switch {
	case err == errFull:
		_, last := s.records.lineage(int32(s.records.Batch.Len() - 1))
		if n == 0 {
			last = ref.From - 1
		}
		return last + 1, nil
	case err != nil:
		return 0, fmt.Errorf("%s: %w", ref.Key, smelt.Mark(smelt.ErrStore, err))
	case n != m.Count:
		return 0, smelt.Mark(smelt.ErrStore, fmt.Errorf("%s has %d records, but its metadata says %d", ref.Key, n, m.Count))
	}
	return m.End, nil
}
