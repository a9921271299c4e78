package inspect

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"smelt"
	"smelt/bronze"
)

// oldestWaiting is the broker's time of the oldest record that silver has not
// read, or when its object was written.
func (g *gathering) oldestWaiting(ctx context.Context) (oldest time.Time, err error) {
	for _, id := range slices.Sorted(maps.Keys(g.ends)) {
		position, read := g.tables.silverLedger.Position[id]
		if read && position >= g.ends[id].End {
			continue
		}
		if !read {
			position = -1 // the chain's beginning
		}
		at, err := g.waitingSince(ctx, id, position)
		for try := 1; errors.Is(err, smelt.ErrNotFound) && try < attempts; try++ { // the object was merged meanwhile
			at, err = g.waitingSince(ctx, id, position)
		}
		if err != nil {
			return oldest, err
		}
		if !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	return oldest, nil
}

// waitingSince is the broker's time of the oldest record of the object that comes
// next, or when that was written. Where silver has read a part of it, before it was
// rolled back, it is the time of the first record to read. It is zero without one.
func (g *gathering) waitingSince(ctx context.Context, partition int32, position int64) (time.Time, error) {
	const one = 1 // byte: After gives one object at least
	refs, err := g.reader.After(ctx, partition, position, one)
	if err != nil || len(refs) == 0 {
		return time.Time{}, err
	}
	var m bronze.Meta
	first := smelt.NoTimestamp
	if refs[0].Partial() {
		m, err = g.reader.Lines(ctx, refs[0], func(line []byte) error {
			decoded, err := bronze.Decode(line)
			if err == nil {
				first, err = decoded.Record.Timestamp, errFound
			}
			return err
		})
		if errors.Is(err, errFound) {
			err = nil
		}
	} else {
		m, err = g.reader.Stat(ctx, refs[0])
		first = m.MinTimestamp
	}
	if err != nil {
		return time.Time{}, err
	}
	if first == smelt.NoTimestamp {
		return m.Written, nil
	}
	return time.UnixMilli(first), nil
}
