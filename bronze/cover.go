package bronze

import "time"

// Ref is an object of a chain, as a listing shows it.
type Ref struct {
	Name
	Key      string
	Size     int64 // compressed
	Modified time.Time

	// From is the first offset that counts: the records below it are in the objects
	// that were read before. It is the object's Start as a rule.
	From int64

	next int64 // where the object ends, as far as the listing tells; -1 when it does not
	more bool  // the listing has objects that start after this one
}

// Followed says whether the listing had objects that start after this one.
func (ref *Ref) Followed() bool { return ref.more }

// Partial says whether some of the object's records do not count.
func (ref *Ref) Partial() bool { return ref.From > ref.Start }

// Joined is how many objects, from the first on, are a stretch of their chains
// without a hole: each ends where the next one of its partition begins to count.
// A listing shows where objects start, not where they end. So an object may lack
// after one in a listing that was made while covered objects were deleted: then
// what comes next is listed anew, from where that one ends.
func Joined(refs []Ref, metas []Meta) int {
	for i := 1; i < len(refs); i++ {
		if refs[i].Partition == refs[i-1].Partition && refs[i].From != metas[i-1].End {
			return i
		}
	}
	return len(refs)
}

// cover chooses those of some objects, in the order of their keys, that are to be
// read from a position on: of those that cover the position the one that reaches
// furthest, then the same for where that one ends, until none covers the position.
//
// Of a writer's object only the metadata tells the end. It is taken to be where
// the next object starts: were there another between them, and were it covered by
// a merged object that starts before, then that one would have been chosen. This
// holds as long as the merged objects that start before the position are listed,
// too; otherwise see [Joined].
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

// outranks says which of two merged objects that cover a position is read: the
// one that reaches further. Where both end alike it is the one that has more, or
// from which records were let go on purpose; and any, if only all choose it, where
// they differ by codec.
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
