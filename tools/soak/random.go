package main

import (
	"hash/fnv"
	"math/rand/v2"
)

// random gives a purpose a source of randomness of its own, so that what one draws
// does not change what another gets.
func random(seed uint64, purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose)) // a hash takes everything
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
