package bronze

import "time"

// Ref is an object of a chain, as a listing shows it.
type Ref struct {
	Name
	Key      string
	Size     int64 // compressed
	Modified time.Time

	// From is the first offset to use. Records below it are in objects that were read before.
	// It is usually the object's Start.
	From int64

	next int64 // where the object ends, as far as the listing tells; -1 when it does not
	more bool  // the listing has objects that start after this one
}

// Followed says whether the listing had objects that start after this one.
func (ref *Ref) Followed() bool { return ref.more }

// Partial says whether some of the object's records do not count.
func (ref *Ref) Partial() bool { return ref.From > ref.Start }

// Joined is how many objects, from the first on, form chains without a hole: each ends
// where the next one of its partition starts to count. A listing shows where objects
// start, not where they end. If covered objects are deleted during a listing, an object
// may be missing from it. Then the caller lists again, from where the last one ends.
func Joined(refs []Ref, metas []Meta) int {
	for i := 1; i < len(refs); i++ {
		if refs[i].Partition == refs[i-1].Partition && refs[i].From != metas[i-1].End {
			return i
		}
	}
	return len(refs)
}

// cover chooses, from objects in key order, those to read from a position on. Of the
// objects that cover the position it takes the one that reaches furthest. It repeats that
// from where that object ends, until no object covers the position.
//
// Only the metadata tells where a writer's object ends. cover takes the start of the next
// object instead. If another object lay between them, covered by a merged object that
// starts earlier, that merged object would have been chosen. This requires that merged
// objects which start before the position are listed, too; otherwise see [Joined].
func cover(listed []Ref, position int64) (chosen []Ref) {
	var furthest, small *Ref
	for i := 0; ; {
		for ; i < len(listed) && listed[i].Start <= position; i++ {
			switch ref := &listed[i]; {
			case !ref.Merged():
				small = ref
			case furthest == nil || ref.outranks(furthest.Name):
				furthest = ref
			}
		}
		var ref Ref
		switch {
		case furthest != nil && furthest.End > position:
			ref = *furthest
			ref.next = ref.End
		case small != nil && small.Start == position && i < len(listed):
			ref = *small
			ref.next = listed[i].Start
		case small != nil && small.Start == position:
			ref = *small
			ref.next = -1
		default:
			return chosen
		}
		ref.From = position
		chosen = append(chosen, ref)
		if position = ref.next; position < 0 {
			return chosen
		}
	}
}

// outranks says which of two merged objects that cover a position is read: the one that
// reaches further. If both end alike, it is the one with more records, or the one that
// retention made. If they differ by codec only, any will do, as long as all readers choose
// the same.
func (n Name) outranks(o Name) bool {
	switch {
	case n.End != o.End:
		return n.End > o.End
	case n.Start != o.Start:
		return n.Start < o.Start
	case n.Retired != o.Retired:
		return n.Retired
	}
	return n.Codec > o.Codec
}

// covers says whether an object makes another one superfluous.
func (n Name) covers(o Name) bool {
	switch {
	case !n.Merged() || n.Start > o.Start:
		return false
	case !o.Merged():
		return o.Start < n.End
	}
	return o.End <= n.End && n.outranks(o)
}
