package shell

import (
	"context"
	"errors"
	"time"

	"smelt"
	"smelt/bronze"
	"smelt/internal/ledger"
	"smelt/silver"
)

// pastParts picks the records of a chain that the lake had at the shown time. A merged object whose last
// member was written later also has earlier records. Of these it shows what silver had read by then,
// which is all but the records in flight. If silver's snapshot has expired, it shows what the broker
// had by then. Retired records can no longer be shown.
func (s *Shell) pastParts(ctx context.Context, p *smelt.Pipeline, reader *bronze.Reader, partition int32, refs []bronze.Ref) (parts []part, err error) {
	if s.past.positions != nil {
		return partsUpTo(ctx, reader, refs, s.past.positions[p.Name][partition])
	}
	by := until(s.past.bronze[p.Name])
	for _, ref := range refs {
		written, err := writtenAt(ctx, reader, ref, by)
		if err != nil {
			return nil, err
		}
		if !written.After(by) {
			parts = append(parts, part{Ref: ref})
			continue
		}
		if !ref.Merged() {
			continue
		}
		o := part{Ref: ref}
		position, known, err := s.pastPosition(ctx, p, partition)
		if err != nil {
			return nil, err
		}
		if o.upto = position; !known {
			o.upto, o.until = 0, by
		}
		if !known || position > ref.From {
			parts = append(parts, o)
		}
		return parts, nil // later objects were written later
	}
	return parts, nil
}

// writtenAt is when an object was written, as exactly as it takes to compare it
// with a time. The store knows; but where it tells the second only, or the object is
// a merged one, the object's metadata does.
func writtenAt(ctx context.Context, reader *bronze.Reader, ref bronze.Ref, by time.Time) (time.Time, error) {
	coarse := ref.Modified.Nanosecond() == 0 && ref.Modified.Equal(by.Truncate(time.Second))
	if !coarse && (!ref.Merged() || !ref.Modified.After(by)) {
		return ref.Modified, nil
	}
	m, err := reader.Stat(ctx, ref)
	return m.Written, err
}

// pastPosition is where silver had read to at the time that is shown.
func (s *Shell) pastPosition(ctx context.Context, p *smelt.Pipeline, partition int32) (position int64, known bool, err error) {
	name := silver.TableName(p.Name)
	then, ok := s.past.tables[name]
	if !ok || then.none || then.err != nil {
		return 0, false, nil
	}
	t, err := s.cfg.Tables.Load(ctx, name)
	if errors.Is(err, smelt.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	l, known, err := ledger.At[ledger.Silver](t, then.snapshot.ID)
	return l.Position[partition], known, err
}

// records is how many records of a pipeline the view shows, by what the metadata of
// the chains' objects counts.
func (s *Shell) records(ctx context.Context, p *smelt.Pipeline) (n int64, err error) {
	reader := bronze.NewReader(s.cfg.Store, p.Name)
	c := s.chains[p.Name]
	for i, o := range c.shown {
		last := i == len(c.shown)-1 || c.shown[i+1].Partition != o.Partition
		if !last && !o.Retired {
			continue
		}
		m, err := reader.Stat(ctx, o.Ref)
		if err != nil {
			return 0, err
		}
		n -= m.Retired.Count
		if last {
			n += m.Chain.Count
		}
	}
	for _, h := range c.held {
		n -= h.beyond
	}
	return n, nil
}
