package silver

import (
	"context"
	"time"

	"smelt/bronze"
)

const (
	// DefaultListEvery is how often bronze is listed. A listing finds new partitions and breaks
	// in a chain. Its cost may grow with the number of objects. Between listings, a step asks
	// for the next objects by their names.
	DefaultListEvery = 10 * time.Second

	// youngSteps list bronze after one that found a new partition: partitions tend
	// to appear together.
	youngSteps = 8

	// walkMost is how many objects of a partition a step asks for by name. If all of them
	// exist, there is a backlog, and bronze is listed.
	walkMost = 4
)

// next chooses the bronze objects of a step, from all partitions.
func (s *Stage) next(ctx context.Context, position map[int32]int64) (refs []bronze.Ref, more bool, err error) {
	if !s.listingDue() {
		return s.walk(ctx, position)
	}
	before := len(s.partitions)
	if s.partitions, err = s.Bronze.Partitions(ctx); err != nil {
		return nil, false, err
	}
	if s.young = max(0, s.young-1); len(s.partitions) > before {
		s.young = youngSteps
	}
	for _, p := range s.partitions {
		found, err := s.Bronze.After(ctx, p, position[p], s.share())
		if err != nil {
			return nil, false, err
		}
		if at := position[p]; len(found) == 0 && at > 0 && s.ends[p] != at {
			ref, inside, err := s.Bronze.Inside(ctx, p, at)
			if err != nil {
				return nil, false, err
			}
			if inside {
				found = append(found, ref)
			} else {
				s.ends[p] = at
			}
		}
		if len(found) > 0 {
			more = more || found[len(found)-1].Followed()
		}
		refs = append(refs, found...)
	}
	s.listed = time.Now()
	if more {
		s.listed = time.Time{} // the next step lists again
	}
	return refs, more, nil
}

// listingDue says whether this step lists bronze.
func (s *Stage) listingDue() bool {
	return len(s.partitions) == 0 || s.young > 0 || time.Since(s.listed) >= s.ListEvery
}

// nothingNew says whether bronze has nothing more than at the last step, which found
// nothing. It asks bronze for the next objects alone: what is due besides waits
// until bronze is listed again.
func (s *Stage) nothingNew(ctx context.Context) bool {
	if s.quiet == nil || s.listingDue() {
		return false
	}
	refs, _, err := s.walk(ctx, s.quiet)
	return err == nil && len(refs) == 0
}

// walk follows the chains by the names of their next objects.
func (s *Stage) walk(ctx context.Context, position map[int32]int64) (refs []bronze.Ref, more bool, err error) {
	for _, p := range s.partitions {
		at, bytes := position[p], int64(0)
		for n := 0; n < walkMost && bytes < s.share(); n++ {
			ref, meta, ok, err := s.Bronze.At(ctx, p, at, s.Codec)
			if err != nil {
				return nil, false, err
			}
			if !ok {
				break
			}
			refs = append(refs, ref)
			at, bytes = meta.End, bytes+ref.Size
			if n == walkMost-1 || bytes >= s.share() {
				more, s.listed = true, time.Time{}
			}
		}
	}
	return refs, more, nil
}

// share is how much of a step's bytes a partition may have.
func (s *Stage) share() int64 { return s.stepBytes / int64(max(1, len(s.partitions))) }
