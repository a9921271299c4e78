package bronze

import (
	"context"
	"fmt"
	"time"

	"smelt"
)

// Leftovers are objects that a merged one covers.
type Leftovers struct {
	Partition int32
	By        string   // the key of the one that covers them
	Keys      []string // of the others, in order
	Bytes     int64    // of them, compressed
}

// leftovers finds, in a listing that begins with the chain, the objects that a
// merged one covers which was there at a time already. Since the chain's last
// object is in none, it is never among them.
func leftovers(listed []Ref, by time.Time) (out []Leftovers) {
	var furthest *Ref // of the old merged objects that start up to here: what any covers it does
	for i := 0; i < len(listed); {
		n := i
		for n < len(listed) && listed[n].Start == listed[i].Start {
			if ref := &listed[n]; ref.Merged() && !ref.Modified.After(by) && (furthest == nil || ref.outranks(furthest.Name)) {
				furthest = ref
			}
			n++
		}
		for _, ref := range listed[i:n] {
			if furthest == nil || !furthest.covers(ref.Name) {
				continue
			}
			if len(out) == 0 || out[len(out)-1].By != furthest.Key {
				out = append(out, Leftovers{Partition: ref.Partition, By: furthest.Key})
			}
			l := &out[len(out)-1]
			l.Keys = append(l.Keys, ref.Key)
			l.Bytes += ref.Size
		}
		i = n
	}
	return out
}

// Clean deletes the objects that a merged object covers. If the merged object was deleted
// because a larger one covers it, Clean fails with smelt.ErrNotFound. The next plan then
// finds what is left.
func (m *Merger) Clean(ctx context.Context, l Leftovers) error {
	name, err := ParseName(l.By)
	if err != nil {
		return err
	}
	if _, err := m.reader.stat(ctx, name); err != nil {
		return fmt.Errorf("clean what is in %s: %w", l.By, err)
	}
	if err := m.cfg.Store.Delete(ctx, l.Keys...); err != nil {
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("clean what is in %s: %w", l.By, err))
	}
	return nil
}
