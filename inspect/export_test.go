package inspect

// InSmallParts makes the verifier run models over as little of silver at a time
// as it may.
func (v Verifier) InSmallParts() Verifier {
	v.goldBytes = 1
	return v
}
